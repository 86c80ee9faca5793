"""``python tests/benchmarks/serving.py``: search and store over HTTP, in process, with mem0; then 64 clients at once.

The clients speak HTTP over bare sockets, so that the figures are those of `serve` and not of a client library. mem0 is
its ``Memory`` in this process, on its own store and with the same embedder: its server does not install from a wheel.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import psutil

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.figure import Figure, Target  # noqa: E402  # a script must find the tree first
from benchmarks.report import show  # noqa: E402
from benchmarks.stack import BenchStack, open_home  # noqa: E402
from benchmarks.stock_mem0 import StockMem0, stock_mem0  # noqa: E402
from benchmarks.texts import Texts, questions  # noqa: E402
from support.serve_process import serve_process  # noqa: E402

from memcore.config.loader import effective_policy  # noqa: E402
from memcore.embedding.factory import create_embedder  # noqa: E402
from memcore.ledger.access.keys import Verb  # noqa: E402
from memcore.memory.async_memory import AsyncMemory  # noqa: E402
from memcore.memory.fields import SearchFields  # noqa: E402
from ops.cli.session import ledger_of  # noqa: E402

#: Whose memories are searched.
AGENT = "agent-0"

#: Clients at once.
CLIENTS = 64

#: What is asked for: ten results, however little they say, so that every search finds as many.
ASKED: SearchFields = {"limit": 10, "standing": "any"}

_MEM0 = "mem0.Memory in process"

_OK = 200


class Connection:
    """One kept connection to `serve`."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def post(self, path: str, body: dict[str, Any], **headers: str) -> tuple[int, Any]:
        """Send a request, and return the status and the answer."""
        payload = json.dumps(body).encode()
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._token}\r\n{more}"
            f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
        )
        self._writer.write(head.encode() + payload)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(answer.split("content-length: ")[1].split("\r\n")[0])
        return int(answer.split(" ", 2)[1]), json.loads(await self._reader.readexactly(length))


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args(argv)
    figures, targets = serving(memories=options.memories, rounds=options.rounds, seconds=options.seconds)
    show(figures, targets, {})
    return 0


def serving(*, memories: int, rounds: int, seconds: float) -> tuple[list[Figure], list[Target]]:
    """Measure search and store in turn, each question so many rounds, then clients at once for so many seconds."""
    texts = Texts()
    with open_home() as stack, stock_mem0(create_embedder("static"), texts) as mem0:
        with ledger_of(stack.settings) as ledger:
            verbs = (Verb.READ, Verb.WRITE)
            token = ledger.api_keys.create(stack.settings.company, name="bench", verbs=verbs).token
        with serve_process(stack.home, "--rate=1000000", "--burst=1000000") as serve:
            assert serve.process is not None
            stored = [request.content for request in texts.requests(memories, mark="serving")]
            for text in stored:
                mem0.add(text)
            figures = asyncio.run(_in_turns(stack, mem0, stored, serve.port, token, rounds=rounds))
            figures += asyncio.run(_at_once(serve.port, token, seconds=seconds))
            mib = psutil.Process(serve.process.pid).memory_info().rss / 2**20
            figures.append(Figure(group="serve", name="resident memory", unit="MiB", samples=[mib]))
    return figures, _targets({(figure.group, figure.name): figure for figure in figures})


def _targets(figures: Mapping[tuple[str, str], Figure]) -> list[Target]:
    http, here = (figures["search", f"{name}, p50"].samples for name in ("over HTTP", "in process"))
    added = [these - those for these, those in zip(http, here, strict=True)]
    return [Target(name="search over HTTP, added p50, ms", values=added, wanted=2.0, at_most=True)]


async def _in_turns(
    stack: BenchStack, mem0: StockMem0, texts: Sequence[str], port: int, token: str, *, rounds: int
) -> list[Figure]:
    async with AsyncMemory.from_settings(stack.settings, effective_policy(stack.settings.policy_path)) as memory:
        await memory.wait(await memory.store_many(AGENT, texts), timeout_seconds=120)
        async with Connection(port, token) as line:

            async def over_http(text: str) -> int:
                status, found = await line.post(f"/v1/agents/{AGENT}/search", {"text": text, **ASKED})
                assert status == _OK, found
                return len(found["memories"])

            async def in_process(text: str) -> int:
                return len(await memory.search(AGENT, text, **ASKED))

            async def of_mem0(text: str) -> int:
                return mem0.search(text, limit=10)

            stored = iter(range(1 << 30))

            async def store_over_http(text: str) -> int:
                body = {"content": f"{text} {next(stored)}"}
                status, _ = await line.post("/v1/agents/storer-1/memories", body)
                return int(status == 202)

            async def store_named(text: str) -> int:
                number = next(stored)
                body, name = {"content": f"{text} {number}"}, f"bench {number}"
                status, _ = await line.post("/v1/agents/storer-1/memories", body, Idempotency_Key=name)
                return int(status == 202)

            async def store_in_process(text: str) -> int:
                await memory.store("storer-2", f"{text} {next(stored)}")
                return 1

            async def store_of_mem0(text: str) -> int:
                return mem0.add(f"{text} {next(stored)}")

            searches = {"over HTTP": over_http, "in process": in_process}
            stores = {"over HTTP": store_over_http, "with a key": store_named, "in process": store_in_process}
            # mem0 by itself: its search takes all of a core, and what comes after it finds no cache warm.
            return [
                *await _in_turn("search", searches, rounds=rounds),
                *await _in_turn("search", {_MEM0: of_mem0}, rounds=rounds),
                *await _in_turn("store", stores, rounds=rounds),
                *await _in_turn("store", {_MEM0: store_of_mem0}, rounds=rounds),
            ]


async def _in_turn(group: str, calls: Mapping[str, Callable[[str], Awaitable[int]]], *, rounds: int) -> list[Figure]:
    """Make every call with every question so many times, in turn."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    texts = questions()
    for call in calls.values():
        await call(texts[0])
    for _ in range(rounds):
        for text in texts:
            for name, call in calls.items():
                before = time.perf_counter()
                found = await call(text)
                took[name].append((time.perf_counter() - before) * 1e3)
                assert found, f"{name} found nothing for {text!r}"
    return [
        Figure(
            group=group,
            name=f"{name}, p{quantile}",
            unit="ms",
            samples=[float(np.percentile(part, quantile)) for part in np.array_split(took[name], 5)],
        )
        for name in calls
        for quantile in (50, 95)
    ]


async def _at_once(port: int, token: str, *, seconds: float) -> list[Figure]:
    """Let many clients search, then store, without a pause between their requests."""
    figures: list[Figure] = []
    texts = questions()
    for kind in ("search", "store"):
        took: list[float] = []
        errors = 0
        until = time.perf_counter() + seconds

        async def client(number: int, kind: str = kind, until: float = until, took: list[float] = took) -> int:
            failed = sent = 0
            async with Connection(port, token) as line:
                while (before := time.perf_counter()) < until:
                    text = texts[(number + sent) % len(texts)]
                    body: dict[str, Any] = {"text": text, **ASKED}
                    if kind == "store":
                        body = {"content": f"{text} of {number}, {sent}"}
                    path = f"/v1/agents/{AGENT}/search" if kind == "search" else f"/v1/agents/many-{number}/memories"
                    status, _ = await line.post(path, body)
                    took.append((time.perf_counter() - before) * 1e3)
                    failed += status not in {200, 202}
                    sent += 1
            return failed

        errors = sum(await asyncio.gather(*map(client, range(CLIENTS))))
        group = f"{kind}, {CLIENTS} clients at once"
        figures += [
            Figure(group=group, name="requests a second", unit="1/s", samples=[len(took) / seconds]),
            Figure(group=group, name="p50", unit="ms", samples=[float(np.percentile(took, 50))]),
            Figure(group=group, name="p99", unit="ms", samples=[float(np.percentile(took, 99))]),
            Figure(group=group, name="errors", unit="", samples=[float(errors)]),
        ]
    return figures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

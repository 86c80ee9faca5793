"""``make bench-llm``: what small models on this machine keep of what people say, and what it takes."""

import argparse
import asyncio
import logging
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.figure import Figure, Target  # noqa: E402  # a script must find the tree first
from benchmarks.report import show  # noqa: E402
from benchmarks.small_model.capture import Capture, answers_of, captured, people, recorded  # noqa: E402
from benchmarks.small_model.weights import WEIGHTS  # noqa: E402
from pydantic import SecretStr  # noqa: E402
from support.ledger_records import sqlite_urls  # noqa: E402
from support.recorded_answers import RecordedAnswers  # noqa: E402

from memcore.config.llm import LOCAL_TIMEOUT_SECONDS, LLMConfig  # noqa: E402
from memcore.ledger.migrate import migrate  # noqa: E402
from memcore.llm.provider import ServerProvider  # noqa: E402
from workers.stack.home import create_folders, reserve_addresses  # noqa: E402
from workers.stack.local_llm import checked_weights, local_llm  # noqa: E402

#: How long the weights may take to be loaded; that of a stack has no such limit.
_LOADED_SECONDS = 300.0


async def measured(name: str, url: str, key: str | None, answers: Path) -> tuple[Capture, RecordedAnswers]:
    """Let the people talk with the model of a server; its answers are added to a file as they come."""
    timeout = timedelta(seconds=LOCAL_TIMEOUT_SECONDS)
    provider = ServerProvider(url, key=None if key is None else SecretStr(key), model=name, timeout=timeout)
    model = recorded(answers, provider)
    with tempfile.TemporaryDirectory() as folder:
        urls = sqlite_urls(Path(folder))
        migrate(urls)
        try:
            found = await captured(people(), model, urls)
        finally:
            await provider.close()
    if not model.given:
        raise ConnectionError(f"{url} answers nothing")
    return found, model


def figures_of(name: str, found: Capture, model: RecordedAnswers) -> tuple[list[Figure], list[Target]]:
    """Return the figures of one model."""
    turns, asked = sum(len(each.turns) for each in people()), model.given.values()
    tokens = sum(each["prompt_tokens"] + each["completion_tokens"] for each in asked) / turns
    seconds = sum(each["seconds"] for each in asked)
    written = sum(each["completion_tokens"] for each in asked) / seconds
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(found.kinds().items()))

    def figure(what: str, unit: str, value: float, note: str = "") -> Figure:
        return Figure(group=f"{name}, {turns} turns", name=what, unit=unit, samples=[value], note=note)

    return [
        figure("precision of what is kept", "share", found.precision, kinds),
        figure("recall of what is worth keeping", "share", found.recall, f"of {found.wanted}"),
        figure("tokens of a turn", "tokens", tokens, f"{len(asked)} questions, those of the ends included"),
        figure("seconds of a turn", "s", seconds / turns, f"{written:.1f} tokens written a second, reading included"),
        figure("turns and ends given up", "", found.given_up),
    ], [Target(name=f"{name}: inventions kept", values=[len(found.inventions)], wanted=0, at_most=True)]


@contextmanager
def served(weights: Path) -> Iterator[tuple[str, str]]:
    """Serve a file as ``memtend up --local-llm`` does; yield the server's address and key once it is loaded."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        create_folders(home)
        addresses = reserve_addresses(home)
        part = local_llm(home, addresses, checked_weights(weights), LLMConfig())
        settings = addresses.of_local_llm(weights.stem)
        with (home / "logs" / "local-llm.log").open("wb") as log:
            process = subprocess.Popen(part.argv, stdout=log, stderr=log)
        try:
            began = time.monotonic()
            while not part.is_ready():
                if process.poll() is not None or time.monotonic() - began > _LOADED_SECONDS:
                    raise ConnectionError((home / "logs" / "local-llm.log").read_text(errors="replace")[-2_000:])
                time.sleep(0.2)
            yield settings["llm_url"] or "", settings["llm_api_key"] or ""
        finally:
            process.kill()
            process.wait()


def main(argv: Sequence[str]) -> int:
    """Measure each model, and print what is kept of every turn that is wrong."""
    parser = argparse.ArgumentParser(prog="make bench-llm", description=__doc__)
    parser.add_argument("--only", choices=[each.name for each in WEIGHTS], help="measure one model")
    parser.add_argument("--url", help="of a server that runs already, in place of the weights; needs --only")
    parser.add_argument("--record", action="store_true", help="keep the answers for `make test`, and ask for new ones")
    options = parser.parse_args(argv)
    if options.url and not options.only:
        parser.error("--url needs --only, the name of what it serves")
    logging.getLogger("memcore").setLevel(logging.ERROR)
    cache = ROOT / "build" / "llm"
    cache.mkdir(parents=True, exist_ok=True)
    figures, targets = list[Figure](), list[Target]()
    for weights in WEIGHTS:
        if options.only not in {None, weights.name}:
            continue
        # One that was stopped goes on with the answers that it has.
        draft = cache / f"{weights.name}.json"
        with ExitStack() as stack:
            url, key = (options.url, None) if options.url else stack.enter_context(served(weights.file(cache)))
            found, model = asyncio.run(measured(weights.name, url, key, draft))
        for kind, text, turn in found.kept:
            if kind != "right":
                sys.stdout.write(f"{kind}: {text!r} of {turn.said!r}\n")
        for turn, wanted in found.missed:
            sys.stdout.write(f"missed: {wanted!r} of {turn.said!r}\n")
        some = figures_of(weights.name, found, model)
        figures += some[0]
        targets += some[1]
        if options.record:
            answers_of(weights.name).write_bytes(draft.read_bytes())
        draft.unlink()
    show(figures, targets, {"python": platform.python_version(), "cores": os.cpu_count()})
    return int(not all(each.is_met for each in targets))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

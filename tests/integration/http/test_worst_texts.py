"""The worst texts of 64 KiB to every path and to a page: who asks beside them is answered in time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from time import monotonic
from typing import Any

import httpx
from support.console import ConsoleClient
from support.http_api import http_api
from support.memories import new_agent
from support.proposals import proposal
from support.running_stack import StackAddress

from memcore.models.approval import Superseded

#: What expressions and comparisons dislike: one letter, brackets, separators, equal lines.
WORST = [unit * (65_536 // len(unit)) for unit in ("a", "{", "a.", "x\n", "token ")]

#: How much slower a search may be beside them, and what a busy machine may take whatever it was before: a comparison
#: that grows with the square of a text takes minutes.
SLOWER, BUSY_SECONDS = 10, 15.0


def _filled(schema: dict[str, Any], text: str) -> dict[str, Any]:
    """A body in which every property that may be a text is one."""
    fields: dict[str, Any] = {}
    for name, each in schema.get("properties", {}).items():
        kinds = {each.get("type"), *(one.get("type") for one in each.get("anyOf", ()))}
        if "string" in kinds:
            fields[name] = text
        elif "array" in kinds:
            fields[name] = [text]
    return fields


async def _seconds(client: httpx.AsyncClient, agent: str) -> float:
    began = monotonic()
    answer = await _answered(client, "POST", f"/v1/agents/{agent}/search", json={"text": "Where is the lift?"})
    assert answer.status_code == 200, answer.text
    return monotonic() - began


async def _answered(client: httpx.AsyncClient, method: str, path: str, **sent: Any) -> httpx.Response:
    """Ask again, as it says, where a busy machine had no answer within the budget of a request."""
    began = monotonic()
    while True:
        answer = await client.request(method, path, **sent)
        if answer.status_code != 503 or monotonic() - began > BUSY_SECONDS:
            assert answer.status_code < 500, (method, path, answer.text)
            return answer


@asynccontextmanager
async def _asked_beside(client: httpx.AsyncClient, agent: str) -> AsyncIterator[None]:
    """Another caller's search stays as quick, or nearly, while the body runs."""
    quiet = max([await _seconds(client, agent) for _ in range(3)])
    over, taken = asyncio.Event(), list[float]()

    async def asking() -> None:
        while not over.is_set():
            taken.append(await _seconds(client, agent))

    beside = asyncio.create_task(asking())
    yield
    over.set()
    await beside
    assert max(taken) < max(SLOWER * quiet, BUSY_SECONDS)


async def test_no_text_to_any_path_holds_another_caller(stack: StackAddress) -> None:
    async with http_api(stack.settings) as api, api.client(api.key()) as client, api.client(api.key()) as other:
        document = api.app.openapi()
        models = document["components"]["schemas"]
        bodies = 0
        async with _asked_beside(other, new_agent("quiet")):
            for path, methods in document["paths"].items():
                for method, operation in methods.items():
                    json = operation.get("requestBody", {}).get("content", {}).get("application/json")
                    if json is None:
                        continue
                    named = str(json["schema"].get("$ref", "")).rpartition("/")[2]
                    schema = models.get(named, json["schema"])
                    place = path.replace("{agent_id}", new_agent("worst"))
                    for text in WORST:
                        await _answered(client, method, place, json=_filled(schema, text))
                        bodies += 1
        assert bodies > 100


async def test_no_proposal_holds_another_caller(stack: StackAddress) -> None:
    lines = [str(number) for number in range(6_000)]
    texts = [
        ("x\n" * 15_000, "x\ny\n" * 7_500),
        ("\n".join(lines), "\n".join(reversed(lines))),
        ("a b " * 7_500, "b c a " * 5_000),
    ]

    async with http_api(stack.settings) as api, api.client(api.key()) as client, api.client(api.key()) as other:
        company = stack.settings.company
        async with ConsoleClient(api.app) as browser, _asked_beside(other, new_agent("quiet")):
            await browser.sign_in(api.key())
            for number, (old, new) in enumerate(texts):
                name = new_agent(f"worst-{number}")
                given = proposal(new, supersedes=(Superseded(id="old", content=old, owner="eve"),))
                api.context.ledger.approvals.file(company, name, given, lasts=timedelta(days=1))
                assert "A text for all" in await browser.get(f"approvals/{name}")
                assert (await _answered(client, "GET", f"/v1/approvals/{name}")).status_code == 200

"""Routes and tools that follow from declared operations: arguments, guardrail, who asks, and what is answered."""

import asyncio
from importlib import import_module
from types import SimpleNamespace
from typing import Annotated, Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import Field

from memcore.ledger.access.keys import Verb
from memcore.ledger.organization.audit import Confirmation
from memcore.models.base import Frozen, View
from memcore.models.memory import Key
from memcore.models.origin import ENGINE
from memcore.service.operation import SAID_BY, operation
from ops.http.access import Caller, current_caller
from ops.http.app import ROUTERS
from ops.http.context import company_service
from ops.http.declared import _SAID, router_of
from ops.http.problems import install_problems
from ops.mcp.declared import _SAID as IN_TOOLS
from ops.mcp.declared import tools_of
from ops.mcp.tool_server import OPERATOR_TOOLS


class Box(Frozen):
    """A box."""

    name: str
    secret: str = "not shown"


class BoxView(View):
    """What is shown of a box."""

    name: str


class Question(Frozen):
    """A model that is the whole body."""

    text: str


class Boxes:
    """Says what it was called with."""

    @operation("GET /boxes", Verb.READ, shows=BoxView, under="items", tool="list_boxes")
    async def list(self, *, limit: Annotated[int, Field(ge=1, le=9)] = 2) -> tuple[Box, ...]:
        """Return the boxes. Raises nothing."""
        return tuple(Box(name=str(each)) for each in range(limit))

    @operation("DELETE /boxes/{name}", Verb.ADMIN, confirms=True, under="said", tool="burn")
    async def burn(self, name: Key, *, by: str | None = None, reason: str | None = None) -> str:
        """Burn a box.

        For good.
        """
        return f"{name} by {by}: {reason}"

    @operation("POST /boxes/{name}/move", Verb.MAINTAIN, under="said")
    async def move(self, name: str, to: Key, *, by: str | None = None, reason: str | None = None) -> str:
        """Move a box."""
        return f"{name} to {to} by {by}: {reason}"

    @operation("POST /boxes/ask", Verb.READ, under="said")
    async def ask(self, question: Question) -> str:
        """Ask."""
        return question.text

    @operation("PUT /agents/{agent_id}/box", Verb.WRITE)
    async def put(self, agent_id: str) -> None:
        """Put a box up."""

    @operation("GET /books", Verb.READ, under="said")
    async def books(self, *, agent_id: str | None = None) -> str:
        """Return books."""
        return str(agent_id)


def answered(
    method: str, path: str, *, agents: set[str] | None = None, verbs: Any = Verb, **more: Any
) -> tuple[int, Any]:
    app = FastAPI()
    install_problems(app)
    app.include_router(router_of("boxes", Boxes))
    held = None if agents is None else frozenset(agents)
    caller = Caller(key_id="k", name="ada", company="acme", agents=held, verbs=frozenset(verbs), writer=ENGINE)
    app.dependency_overrides = {
        current_caller: lambda: caller,
        company_service: lambda: SimpleNamespace(boxes=Boxes()),
    }

    async def sent() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as client:
            return await client.request(method, f"/v1{path}", **more)

    response = asyncio.run(sent())
    return response.status_code, response.json() if response.content else None


WHY = {"reason": "old"}


def test_a_list_stands_under_its_field_without_what_the_view_leaves_out() -> None:
    assert answered("GET", "/boxes") == (200, {"items": [{"name": "0"}, {"name": "1"}]})
    assert answered("GET", "/boxes?limit=10")[0] == 422


def test_a_reason_and_a_confirmation_are_asked_for_and_the_key_says_who() -> None:
    assert answered("POST", "/boxes/a/move", json={"to": "b", **WHY}) == (200, {"said": "a to b by ada: old"})
    assert answered("POST", "/boxes/a/move", json={"to": "b"})[0] == 422
    assert answered("DELETE", "/boxes/a", json={**WHY, "confirm": True}) == (200, {"said": "a by ada: old"})
    for wrong in (WHY, {**WHY, "confirm": False}, {**WHY, "confirm": True, "by": "eve"}):
        assert answered("DELETE", "/boxes/a", json=wrong)[0] == 422


def test_a_model_that_is_the_only_argument_is_the_body() -> None:
    assert answered("POST", "/boxes/ask", json={"text": "why"}) == (200, {"said": "why"})


@pytest.mark.parametrize(
    ("method", "path", "more", "verb"),
    [
        ("GET", "/boxes", {}, Verb.READ),
        ("DELETE", "/boxes/a", {"json": {**WHY, "confirm": True}}, Verb.ADMIN),
        ("POST", "/boxes/a/move", {"json": {"to": "b", **WHY}}, Verb.MAINTAIN),
    ],
)
def test_a_key_needs_the_verb_and_all_agents(method: str, path: str, more: dict[str, Any], verb: Verb) -> None:
    assert answered(method, path, **more)[0] == 200
    assert answered(method, path, verbs=set(Verb) - {verb}, **more)[0] == 403
    assert answered(method, path, agents={"a"}, **more)[0] == 403


def test_a_key_of_one_agent_reaches_its_own_and_no_other() -> None:
    assert answered("PUT", "/agents/a/box", agents={"a"}) == (204, None)
    assert answered("PUT", "/agents/b/box", agents={"a"})[0] == 403
    assert answered("PUT", "/agents/a/box", agents={"a"}, verbs={Verb.READ})[0] == 403
    assert answered("GET", "/books?agent_id=a", agents={"a"}) == (200, {"said": "a"})
    assert answered("GET", "/books", agents={"a"})[0] == 403


def test_a_tool_reads_or_is_confirmed_and_says_what_it_was_done_to() -> None:
    listed, burn = tools_of("boxes", Boxes)
    service, word = SimpleNamespace(boxes=Boxes()), Confirmation(actor="ada", confirm=True, reason="old")
    assert (listed.is_destructive, listed.is_read_only, burn.is_destructive) == (False, True, True)
    read: Any = listed.run
    assert asyncio.run(read(service, listed.arguments())) == {"items": [{"name": "0"}, {"name": "1"}]}
    burnt: Any = burn.run
    done = asyncio.run(burnt(service, burn.arguments.model_validate({"name": "a"}), word))
    assert (done.facts, done.target_id) == ({"said": "a by ada: old"}, "a")
    assert (listed.description, burn.description) == ("Return the boxes.", "Burn a box.")


def test_a_decision_about_an_approval_has_one_sentence_in_every_door() -> None:
    routes = {each.path: each for name in ROUTERS for each in import_module(f"ops.http.routes.{name}").router.routes}
    tools = {each.name: each.description for each in OPERATOR_TOOLS}
    for word in ("approve", "reject"):
        assert routes[f"/v1/approvals/{{approval_id}}/{word}"].description == tools[f"{word}_proposal"]


def test_what_a_person_says_is_known_to_the_doors() -> None:
    assert _SAID.keys() == SAID_BY
    assert IN_TOOLS.keys() <= SAID_BY

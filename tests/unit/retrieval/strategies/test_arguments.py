"""Arguments as clients really write them: absent in many ways, one value for a list, JSON in text, unknown names."""

import json
from typing import Annotated, Any

import pytest
from pydantic import Field

from memcore.models.base import Frozen
from memcore.retrieval.strategies.arguments import arguments_of
from memcore.retrieval.strategies.tools import ERROR, AgentTools, tool


class Asked(Frozen):
    query: str
    note: str | None = None
    tags: Annotated[tuple[str, ...], Field(max_length=3)] = ()
    limit: int | None = None
    weight: float = 1.0
    fresh: bool = False
    about: dict[str, Any] | None = None


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"tags": "null"}, {}),
        ({"tags": ""}, {}),
        ({"tags": None}, {}),
        ({"tags": " NULL "}, {}),
        ({"tags": '["kitchen", "garden"]'}, {"tags": ["kitchen", "garden"]}),
        ({"tags": "kitchen"}, {"tags": ["kitchen"]}),
        ({"tags": "[kitchen"}, {"tags": ["[kitchen"]}),
        ({"tags": "5"}, {"tags": ["5"]}),
        ({"tags": ["kitchen"]}, {"tags": ["kitchen"]}),
        ({"tags": {"a": 1}}, {"tags": {"a": 1}}),
        ({"limit": "null"}, {}),
        ({"limit": "5"}, {"limit": 5}),
        ({"limit": "true"}, {"limit": "true"}),
        ({"limit": "many"}, {"limit": "many"}),
        ({"weight": "0.5"}, {"weight": 0.5}),
        ({"fresh": "true"}, {"fresh": True}),
        ({"fresh": ""}, {}),
        ({"about": '{"room": "kitchen"}'}, {"about": {"room": "kitchen"}}),
        ({"note": "null"}, {}),
        ({"note": ""}, {}),
        ({"note": "5"}, {"note": "5"}),
        ({"query": "null"}, {"query": "null"}),
        ({"query": ""}, {"query": ""}),
    ],
)
def test_arguments_are_read_as_they_are_meant(written: dict[str, Any], meant: dict[str, Any]) -> None:
    assert arguments_of(Asked, written, is_strict=False) == (meant, ())


def test_a_call_that_may_do_harm_is_not_guessed_at() -> None:
    # Without its text a core entry is removed; with an option that nobody knows a dry run would be a real one.
    written = {"query": "x", "note": "", "tags": "kitchen", "dry_run": True}
    assert arguments_of(Asked, written, is_strict=True) == ({**written, "tags": ["kitchen"]}, ())


async def test_the_answer_tells_which_names_were_passed_over_and_a_destructive_tool_refuses_them() -> None:
    async def run(agent_id: str, asked: Asked) -> str:
        return f"{agent_id}: {json.dumps(asked.tags)}"

    tools = AgentTools(
        [tool("search", "Finds.", Asked, run, read_only=True), tool("forget", "Removes.", Asked, run, destructive=True)]
    )
    written = {"query": "x", "tags": "kitchen", "top_k": 3, "<memory-entry>": 1}
    answer = await tools.call("ada", "search", written)
    assert answer == 'ada: ["kitchen"]\n\nArguments that were passed over: top_k, &lt;memory-entry>.'
    assert (await tools.call("ada", "forget", written)).startswith(f"{ERROR} top_k: Extra inputs are not permitted")


async def test_too_many_values_and_other_types_are_still_refused() -> None:
    async def run(agent_id: str, asked: Asked) -> str:
        return f"{agent_id} {asked}"

    tools = AgentTools([tool("search", "Finds.", Asked, run, read_only=True)])
    for wrong in ({"tags": '["a", "b", "c", "d"]'}, {"tags": {"a": 1}}, {"limit": "many"}, {"query": ["x"]}):
        assert (await tools.call("ada", "search", {"query": "x", **wrong})).startswith(f"{ERROR} {next(iter(wrong))}: ")

"""Which agents and people a call of mem0's reaches, and what becomes of messages that no model answers."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from memcore.errors import MemoryInputError
from memcore.ledger.access.keys import Verb
from memcore.models.memory import MemoryCategory, MemoryEntry
from memcore.models.origin import Channel, Writer
from ops.http.access import Caller
from ops.http.mem0.api import DEFAULT_AGENT, MAX_AGENTS, Mem0Api
from ops.http.mem0.models import AddBody, Identified, SearchBody
from ops.http.mem0.people import People
from ops.http.problems import MemoryForbiddenError

if TYPE_CHECKING:
    from memcore.memory.async_memory import AsyncMemory
    from memcore.service.conversation import ConversationOperations
    from memcore.service.memories import MemoryOperations


class Engine:
    """Writes down what it is asked, and finds one memory of each agent that has it."""

    def __init__(self, *, has: dict[str, MemoryEntry] | None = None, is_slow: bool = False) -> None:
        self.has = has or {}
        self.is_slow = is_slow
        self.searched: list[tuple[str, dict[str, Any]]] = []
        self.asked_for: list[str] = []
        self.turns: list[dict[str, Any]] = []

    async def search(self, agent_id: str, _text: str, **narrowed: Any) -> tuple[MemoryEntry, ...]:
        self.searched.append((agent_id, narrowed))
        return ()

    async def get(self, agent_id: str, _memory_id: str) -> MemoryEntry | None:
        self.asked_for.append(agent_id)
        return self.has.get(agent_id)

    async def load_turn(self, _agent_id: str, _text: str, **_whose: Any) -> Any:
        return SimpleNamespace(facts=())

    async def add(self, messages: Sequence[dict[str, Any]], **whose: Any) -> dict[str, Any]:
        self.turns.append({"messages": messages, **whose})
        if self.is_slow:
            raise TimeoutError("no model answered")
        return {"results": []}


def http_api(
    engine: Engine, *, agents: set[str] | None = None, known: Sequence[str] = (), can_infer: bool = True
) -> Mem0Api:
    caller = Caller(
        key_id="k",
        name="test",
        company="c",
        agents=None if agents is None else frozenset(agents),
        verbs=frozenset({Verb.READ, Verb.WRITE}),
        writer=Writer(principal="k", limit=Channel.AGENT),
    )

    async def known_agents(after: str | None) -> list[str]:
        behind = [agent for agent in sorted(known) if after is None or agent > after]
        return behind[:10]

    as_memory = cast("AsyncMemory", engine)
    people = People(engine=as_memory, conversation=cast("ConversationOperations", None), can_infer=can_infer)
    return Mem0Api(
        memories=as_memory,
        operations=cast("MemoryOperations", None),
        people=people,
        caller=caller,
        known_agents=known_agents,
    )


async def searched(filters: dict[str, Any], **whose: Any) -> list[tuple[str, dict[str, Any]]]:
    engine = Engine()
    await http_api(engine, **whose).search(SearchBody(query="x", filters=filters))
    return engine.searched


async def test_a_call_that_names_no_agent_is_about_the_only_one_of_the_key_or_mem0() -> None:
    for agents, meant in (({"coach"}, "coach"), ({"a", "mem0"}, DEFAULT_AGENT), (None, DEFAULT_AGENT)):
        assert {agent for agent, _ in await searched({"user_id": "lena"}, agents=agents)} == {meant}


async def test_any_agent_means_those_of_the_key() -> None:
    assert {agent for agent, _ in await searched({"agent_id": "*"}, agents={"a", "b"})} == {"a", "b"}
    with pytest.raises(MemoryInputError, match=r"filters\.agent_id"):
        await searched({"agent_id": "*"})
    with pytest.raises(MemoryInputError, match="the limit is 64"):
        await searched({"agent_id": [str(number) for number in range(MAX_AGENTS + 1)]})


async def test_an_agent_that_is_not_the_keys_is_refused_before_anything_is_asked() -> None:
    engine = Engine()
    with pytest.raises(MemoryForbiddenError):
        await http_api(engine, agents={"a"}).search(SearchBody(query="x", filters={"agent_id": ["a", "b"]}))
    assert engine.searched == []


@pytest.mark.parametrize(
    ("filters", "narrowed"),
    [
        ({"user_id": "lena"}, {"namespaces": {"user:lena"}}),
        ({"user_id": ["lena", "mara"]}, {"namespaces": {"user:lena", "user:mara"}}),
        ({"user_id": "lena", "mood": "calm"}, {"namespaces": {"user:lena"}, "attributes": {"mood": "calm"}}),
        ({"run_id": "r1", "app_id": "a"}, {"attributes": {"mem0.run_id": "r1", "mem0.app_id": "a"}}),
        ({"a name": "x", "mem0": "y"}, {}),
        ({"OR": [{"user_id": "lena"}, {"run_id": "r1"}]}, {}),
        ({"NOT": [{"user_id": "lena"}]}, {}),
        ({"user_id": "*"}, {}),
    ],
)
async def test_the_store_narrows_by_what_every_match_has(filters: dict[str, Any], narrowed: dict[str, Any]) -> None:
    ((_, asked),) = await searched(filters, agents={"coach"})
    assert {name: asked[name] for name in ("namespaces", "attributes") if name in asked} == narrowed


async def test_an_id_is_looked_for_with_every_agent_of_the_key_the_default_one_first() -> None:
    known = [f"agent-{number:02}" for number in range(25)]
    entry = MemoryEntry.model_validate(
        {
            "id": "m", "agent_id": known[20], "content": "x", "category": MemoryCategory.SEMANTIC,
            "created_at": "2026-05-01T00:00:00Z",
        }
    )  # fmt: skip
    engine = Engine(has={known[20]: entry})
    assert (await http_api(engine, known=known).get("m"))["agent_id"] == known[20]
    assert engine.asked_for[0] == DEFAULT_AGENT
    assert set(engine.asked_for) == {DEFAULT_AGENT, *known}


async def test_messages_that_no_model_answers_in_time_are_kept_and_the_answer_says_so() -> None:
    engine = Engine(is_slow=True)
    body = AddBody.model_validate({"messages": "I live in Rome", "user_id": "lena", "run_id": "r1"})
    answer = await http_api(engine, agents={"coach"}).add(body)

    assert (answer["results"], answer["status"]) == ([], "PENDING")
    (turn,) = engine.turns
    assert turn["messages"] == [{"role": "user", "content": "I live in Rome"}]
    assert (turn["agent_id"], turn["user_id"], turn["session_id"]) == ("coach", "lena", "r1")


async def test_every_agent_at_once_is_a_reset_and_needs_its_verb() -> None:
    with pytest.raises(MemoryForbiddenError, match="maintain"):
        await http_api(Engine(), agents={"a", "b"}).delete_entity("agent", "*")


@pytest.mark.parametrize(
    "filters",
    [
        {"AND": []},
        {"NOT": [{"user_id": "lena"}]},
        {"created_at": {"gte": "1970-01-01"}},
        {"OR": [{"user_id": "lena"}, {"mood": "calm"}]},
    ],
)
async def test_nothing_is_deleted_by_filters_that_name_nobody(filters: dict[str, Any]) -> None:
    with pytest.raises(MemoryInputError, match="whose memories are they"):
        await http_api(Engine(), agents={"coach"}).delete_matching(Identified(filters=filters))

"""Any agents that publish and retract in any order: each version is what a list and a few lines of Python say."""

import uuid
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.publications import Sharing, reported
from support.thorough import examples

from memcore.models.memory import MemoryMetadata, MemoryQuery

AGENTS = st.sampled_from(["ada", "bob", "eve"])
STEPS = st.lists(st.tuples(st.sampled_from(["publish", "publish", "retract"]), AGENTS, st.integers(0, 3)), max_size=12)


class Model:
    """A list of what happened, and what of it is there."""

    def __init__(self) -> None:
        self.log: list[tuple[str, str, int, str]] = []

    def at(self, version: int) -> dict[tuple[str, int], str]:
        there: dict[tuple[str, int], str] = {}
        for kind, agent, text, memory_id in self.log[:version]:
            if kind == "publish":
                there[agent, text] = memory_id
            else:
                del there[agent, text]
        return there


@settings(max_examples=examples(5), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, data=st.data())
async def test_each_version_is_what_the_model_says(backend: Sharing, steps: list[Any], data: st.DataObject) -> None:
    # One log for all examples: each has a tag of its own, and counts from where it began.
    tag, began, model = uuid.uuid4().hex, await backend.shared_version(), Model()
    for kind, agent, text in steps:
        there = model.at(len(model.log))
        if kind == "publish":
            fact = reported(f"memory {tag} {text}", metadata=MemoryMetadata(tags=(tag,)))
            memory_id = await backend.publish(agent, fact)
            if (agent, text) in there:
                assert memory_id == there[agent, text]
            else:
                assert memory_id not in {line[3] for line in model.log}
                model.log.append((kind, agent, text, memory_id))
        else:
            owner = data.draw(AGENTS)
            eviction_candidate = there.get((owner, text), str(uuid.uuid4()))
            is_theirs = (owner, text) in there and owner == agent
            assert await backend.retract(agent, eviction_candidate) == is_theirs
            if is_theirs:
                model.log.append((kind, agent, text, eviction_candidate))
        assert await backend.shared_version() == began + len(model.log)

    for version in {0, len(model.log), data.draw(st.integers(0, len(model.log)))}:
        left_out = data.draw(st.none() | AGENTS)
        expected = {(agent, one) for (agent, _), one in model.at(version).items() if agent != left_out}
        for words in (None, "memory"):
            query = MemoryQuery(text=words, tags=(tag,), limit=100)
            found = await backend.search_shared(query, exclude_agent=left_out, version=began + version)
            assert len(found) == len(expected)
            assert {(entry.agent_id, entry.id) for entry in found} == expected

"""Concurrent writes during a reindex whose worker may die: every memory ends with its last write."""

import asyncio
import tempfile
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.memories import new_agent, record
from support.reindex_fixture import CrashPoint, ReindexWorld, side_of, watched_queries
from support.thorough import examples

from memcore.backends.mem0.backend import Mem0Backend
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryQuery, MemoryStoreRequest
from memcore.records import Where

from .conftest import MakeMaintenanceFixture

if TYPE_CHECKING:
    from collections.abc import Awaitable

#: Agents, each of whom one write at a time touches, so that the last word about each memory is known.
AGENTS = 3

#: Actions of a process for an agent.
ACTS = ("store", "remove", "mark", "remove marked", "tag", "publish", "retract")


@dataclass(frozen=True)
class Moment:
    """What happens at once: an act for each agent, in one of two processes, beside a slice that may die."""

    acts: tuple[str, ...]
    processes: tuple[int, ...]
    is_sliced: bool
    pages: int
    dies_at: int | None
    is_behind: bool
    jump: int


MOMENTS = st.builds(
    Moment,
    acts=st.tuples(*[st.sampled_from(ACTS)] * AGENTS),
    processes=st.tuples(*[st.integers(0, 1)] * AGENTS),
    is_sliced=st.booleans(),
    pages=st.integers(0, 60),
    dies_at=st.none() | st.integers(1, 40),
    is_behind=st.booleans(),
    jump=st.sampled_from([0, 3, 60]),
)


@dataclass
class Known:
    """An agent's expected memories, by every write that was answered."""

    agent: str = field(default_factory=new_agent)
    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    marked: str | None = None
    shared: list[str] = field(default_factory=list)
    number: int = 0


async def _act(act: str, known: Known, backend: Mem0Backend) -> None:
    known.number += 1
    oldest = next(iter(known.tags), None)
    match act:
        case "store":
            new = [record(known.agent, f"the valve {known.number} of {n}") for n in range(3)]
            await backend.store_many(new)
            known.tags |= {one.entry.id: () for one in new}
        case "remove" if oldest is not None:
            assert await backend.delete_many(known.agent, [oldest]) == 1
            del known.tags[oldest]
            known.marked = None if known.marked == oldest else known.marked
        case "mark" if oldest is not None:
            await backend.unclaim(known.agent)
            assert await backend.claim(Where(agent_id=known.agent, ids=frozenset({oldest})), "token") == 1
            known.marked = oldest
        case "remove marked" if known.marked is not None:
            # As a run does it: whatever carries the mark, wherever the memories are by now.
            assert await backend.delete_where(Where(agent_id=known.agent, token="token")) == 1
            del known.tags[known.marked]
            known.marked = None
        case "tag" if oldest is not None:
            tags = (f"t{known.number}",)
            await backend.set_metadata_many(known.agent, [oldest], MemoryMetadata(tags=tags))
            known.tags[oldest] = tags
        case "publish":
            request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=f"tea {known.agent} {known.number}")
            known.shared.append(await backend.publish(known.agent, request))
        case "retract" if known.shared:
            assert await backend.retract(known.agent, known.shared.pop(0))
        case _:
            pass


async def _check(all_known: list[Known], backend: Mem0Backend) -> None:
    for known in all_known:
        page = await backend.scan(Where(agent_id=known.agent))
        assert {one.entry.id: one.entry.metadata.tags for one in page.records} == known.tags
        assert await backend.count_where(Where(agent_id=known.agent, token="token")) == (known.marked is not None)
        found = await backend.retrieve(known.agent, MemoryQuery(text="valve", limit=100))
        assert {entry.id for entry in found} == known.tags.keys()
    shared = await backend.search_shared(MemoryQuery(text="tea", limit=100))
    assert {entry.id for entry in shared} == {one for known in all_known for one in known.shared}


async def _live(world: ReindexWorld, moments: list[Moment]) -> None:
    backends = [world.backend("even"), world.backend("odd")]
    await backends[0].connect()
    all_known = [Known() for _ in range(AGENTS)]
    for known in all_known:
        await _act("store", known, backends[0])
    await backends[1].connect()
    await world.begin()
    for moment in moments:
        work: list[Awaitable[object]] = [
            _act(act, known, backends[at])
            for act, known, at in zip(moment.acts, all_known, moment.processes, strict=True)
        ]
        if moment.is_sliced:
            crash_point = CrashPoint(at=moment.dies_at, is_behind=moment.is_behind)
            work.append(world.slice(lasts=timedelta(seconds=moment.pages), crash_point=crash_point))
        await asyncio.gather(*work)
        world.clock.now += timedelta(seconds=moment.jump)
        for backend in backends:
            await _check(all_known, backend)
    await world.finish()
    await _agree(world, all_known, "odd")
    await world.planning.go_back()
    work = [_act("remove", all_known[0], backends[0]), _act("store", all_known[1], backends[1]), world.finish()]
    await asyncio.gather(*work)
    await _agree(world, all_known, "even")
    world.clock.now += timedelta(seconds=3)
    for backend in backends:
        await _check(all_known, backend)
        await backend.disconnect()


async def _agree(world: ReindexWorld, all_known: list[Known], side: str) -> None:
    points = world.points(world.pointer.current.name)
    own = {key for key, (payload, _) in points.items() if "shared_by" not in payload}
    assert own == {memory_id for known in all_known for memory_id in known.tags}
    assert {side_of(vector[""] if isinstance(vector, dict) else vector) for _, vector in points.values()} <= {side}


@given(moments=st.lists(MOMENTS, min_size=2, max_size=6))
@settings(
    max_examples=examples(6),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_no_write_is_lost_and_nothing_removed_returns(
    make_maintenance_fixture: MakeMaintenanceFixture, monkeypatch: pytest.MonkeyPatch, moments: list[Moment]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = make_maintenance_fixture(Path(folder))

        def side(collection: str) -> str:
            return "odd" if collection.endswith(".2") else "even"

        async def run() -> None:
            try:
                await _live(world, moments)
            finally:
                await world.close()

        with watched_queries(monkeypatch, side):
            asyncio.run(run())

"""Random stores and random later days: changes by agents, runs, undos and ends."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

import hypothesis.strategies as st

from memcore.config.maintenance import (
    ArchivalConfig,
    ConsolidationConfig,
    DualModeConfig,
    PruningConfig,
    RetentionConfig,
)
from memcore.ledger.runs import Run
from memcore.models.memory import MemoryCategory, MemoryMetadata
from memcore.records import LESSON_FIELD, LESSON_KEY, Lineage, MemoryRecord
from support.maintenance_fixture import AGENT, COMPANY, SUMMARISED, MaintenanceFixture, memory

#: Strategies that every property of runs and undos is tried with.
STRATEGIES = ("simple", "condense", "dual_mode", "llm")

TAGS = ("pinned", "core", "distillation", "a", "b")


@st.composite
def stores(draw: st.DrawFn, *, first: int = 1, most: int = 25) -> list[MemoryRecord]:
    """Anything that agents may have stored, ties in age included; half of the procedures are lessons."""
    records = [
        memory(
            number,
            days_old=draw(st.integers(0, 60)),
            category=draw(st.sampled_from(list(MemoryCategory))),
            namespace=draw(st.sampled_from(["default", "work"])),
            content=draw(st.text(min_size=1, max_size=300).filter(str.strip)),
            tags=draw(st.lists(st.sampled_from(TAGS), max_size=2, unique=True)),
            confidence=draw(st.floats(0, 1)),
            # A memory is never made with an expiry before its creation.
            expires_in_days=draw(st.none() | st.floats(0.1, 5) | st.just(0.0)),
            lineage=Lineage(
                session_id=draw(st.none() | st.just("s")),
                project_id=draw(st.none() | st.just("p")),
                task_id=draw(st.none() | st.just("t")),
            ),
            with_vectors=draw(st.booleans()),
        )
        for number in range(first, first + draw(st.integers(1, most)))
    ]
    procedures = [each for each in records if each.entry.category is MemoryCategory.PROCEDURAL]
    lessons = draw(st.sets(st.sampled_from([each.entry.id for each in procedures]))) if procedures else set[str]()
    return [_as_lesson(each) if each.entry.id in lessons else each for each in records]


def _as_lesson(record: MemoryRecord) -> MemoryRecord:
    return replace(record, extra={**record.extra, LESSON_KEY: {LESSON_FIELD: "agent"}})


POLICIES = st.builds(
    ConsolidationConfig,
    strategy=st.sampled_from(STRATEGIES),
    categories=st.sampled_from([(MemoryCategory.EPISODIC,), SUMMARISED]),
    max_memories_per_agent=st.integers(1, 20),
    group_threshold=st.integers(2, 4),
    group_max_entries=st.integers(2, 5),
    min_age_days=st.integers(0, 20),
    max_removed_fraction=st.just(1.0),
    archival=st.builds(
        ArchivalConfig,
        enabled=st.booleans(),
        age_threshold_days=st.integers(1, 20),
        dual_mode=st.just(DualModeConfig(enabled=True, summarization_model="small")),
    ),
    retention=st.builds(RetentionConfig, default_retention_days=st.none() | st.integers(10, 60)),
)

PRUNINGS = st.none() | st.builds(
    PruningConfig,
    type=st.sampled_from(["ttl", "pareto", "hybrid"]),
    max_age_days=st.integers(5, 60),
    max_entries=st.integers(1, 4),
)

Act = Literal["night", "undo", "end_session", "end_project", "end_task", "pin", "untag", "delete", "replace", "store"]

#: What happens most: a run, and taking something back.
_ACTS: tuple[Act, ...] = (
    "night",
    "night",
    "night",
    "undo",
    "undo",
    "undo",
    "end_session",
    "end_project",
    "end_task",
    "pin",
    "untag",
    "delete",
    "replace",
    "store",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a history.

    Attributes:
        act: what.
        pick: of several runs or memories, which; taken modulo their number.
        days: how many days later.
    """

    act: Act
    pick: int = 0
    days: int = 0


STEPS = st.builds(Step, act=st.sampled_from(_ACTS), pick=st.integers(0, 99), days=st.integers(0, 3))

#: A few days of an agent.
HISTORIES = st.lists(STEPS, min_size=1, max_size=8)


async def replay_history(world: MaintenanceFixture, steps: Sequence[Step], *, first: int = 0) -> list[Run]:
    """Carry out the steps and return the runs, oldest first; ``first`` numbers the first step among all there are."""
    runs: list[Run] = []
    for number, step in enumerate(steps, start=first):
        world.clock.turn(timedelta(days=step.days))
        if step.act == "undo":
            runs.extend([await _undo(world, step.pick)])
        elif step.act == "night":
            runs.append(await world.maintenance_run())
        elif step.act == "end_session":
            runs.append(await world.end("end_session", "s"))
        elif step.act == "end_project":
            runs.append(await world.end("end_project", "p"))
        elif step.act == "end_task":
            runs.append(await world.end("end_task", "t"))
        else:
            await _by_agent(world, step, number)
    return runs


async def _undo(world: MaintenanceFixture, pick: int) -> Run:
    """Undo any run, also one that was undone before, and undos."""
    runs = [run for run in world.ledger.runs.list(COMPANY, agent_id=AGENT, limit=100) if _can_be_undone(world, run)]
    if not runs:
        return await world.maintenance_run()
    return await world.undo(runs[pick % len(runs)].run_id)


def _can_be_undone(world: MaintenanceFixture, run: Run) -> bool:
    return world.ledger.journal.undoable(run.run_id) or not world.ledger.journal.next_seq(run.run_id)


async def _by_agent(world: MaintenanceFixture, step: Step, number: int) -> None:
    """What agents do beside the runs."""
    if step.act == "store":
        records = [memory(1000 + 10 * number + each, days_old=60 - step.pick % 60) for each in range(4)]
        await world.store(record for record in records if record.entry.id not in world.stored)
        return
    live = sorted(await world.live())
    if not live:
        return
    chosen = live[step.pick % len(live)]
    if step.act == "pin":
        await world.backend.set_metadata_many(AGENT, [chosen], MemoryMetadata(source="agent", tags=("pinned",)))
    elif step.act == "untag":
        # Without their tag summaries are merged like anything else: so summaries of summaries come to be.
        summaries = [record.entry.id for record in await world.summaries()]
        await world.backend.set_metadata_many(AGENT, summaries, MemoryMetadata(source="agent"))
    elif step.act == "delete":
        await world.backend.delete_many(AGENT, [chosen])
    else:
        old = (await world.live())[chosen]
        await world.backend.delete_many(AGENT, [chosen])
        entry = old.entry.model_copy(update={"content": "stored anew", "created_at": world.clock(), "expires_at": None})
        await world.backend.store_many([MemoryRecord(entry=entry, lineage=Lineage())])

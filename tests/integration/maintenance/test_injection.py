"""A crash at every await of a run with each strategy, and at calls of the ledger, on SQLite and PostgreSQL.

Afterwards no memory is lost, at most one summary stands for a group, the balance is exact, nothing that was answered is
paid for again, and the next attempt completes. The number of points is printed: ``pytest -s``.
"""

from collections import Counter

import pytest
from support.fake_summarizer import FakeSummarizer
from support.fault_injection import Crash, Faults, crash_points
from support.ledger_records import places_due
from support.lesson_memories import lesson_memory
from support.maintenance_fixture import AGENT, COMPANY, FILLER, SUMMARISED, MaintenanceFixture, comparable, memory
from support.thorough import THOROUGH, also_thorough, sized

from memcore.config.maintenance import (
    ArchivalConfig,
    ConsolidationConfig,
    DualModeConfig,
    GateConfig,
    RetentionConfig,
)
from memcore.config.urls import LedgerUrls
from memcore.jobs import Deferred, Done, Outcome
from memcore.models.memory import MemoryCategory

STRATEGIES = ("condense", "simple", "dual_mode", "llm")

POSTGRESQL = "postgres_ledger"

CASES = (
    *(("sqlite_ledger", strategy) for strategy in STRATEGIES),
    # The one that asks most; its trips are slow.
    *(
        pytest.param(POSTGRESQL, each, marks=pytest.mark.service)
        for each in ("dual_mode", *also_thorough("condense", "simple", "llm"))
    ),
)

#: Of the ledger's calls every so many is crashed at, beside all awaits; all of them were, and take a minute longer.
LEDGER_STEP = 3


def policy(strategy: str) -> ConsolidationConfig:
    """Everything at once: retention, a limit, an archive, and groups that a model is asked about."""
    return ConsolidationConfig(
        strategy=strategy,
        categories=SUMMARISED,
        retention=RetentionConfig(default_retention_days=2000),
        max_memories_per_agent=6,
        group_max_entries=3,
        max_removed_fraction=1.0,
        gate=GateConfig(ask_model=strategy == "llm"),
        archival=ArchivalConfig(
            enabled=True,
            age_threshold_days=30,
            dual_mode=DualModeConfig(enabled=True, summarization_model="small"),
        ),
    )


async def filled(urls: LedgerUrls, strategy: str) -> MaintenanceFixture:
    """One too old, a lesson that is forgotten, a chatty group of six, a dense one of three, and two over the limit."""
    world = MaintenanceFixture(urls, policy(strategy))
    world.model = FakeSummarizer()
    await world.store([memory(1, days_old=3000), lesson_memory(1, days_old=120)])
    await world.store(
        memory(n, days_old=60 - n, content=f"We spoke about garden {n} again. {FILLER} {FILLER}") for n in range(2, 9)
    )
    dense = MemoryCategory.PROCEDURAL
    await world.store(memory(n, days_old=60 - n, category=dense, content=code(n)) for n in range(11, 15))
    await world.store(memory(n, days_old=n - 20) for n in range(21, 24))
    return world


def code(number: int) -> str:
    body = "".join(f"    jobs[{n}] = queue.send(item_{n}['id'], retries={number}, key='a3f1{n}')\n" for n in range(2))
    # What an extract leaves out.
    body += "".join(f"    call_{n}(queue, jobs)\n" for n in range(25))
    return f"def run_{number}(queue: Queue, jobs: dict[int, str]) -> None:\n{body}"


async def left(world: MaintenanceFixture, strategy: str) -> dict[str, object]:
    """All that is there; of summaries that condense their sources not the text.

    Which words are rare is counted over the agent's memories, and an attempt that comes after a crash sees others.
    """
    live = await world.live()
    return {
        key: record.lineage if strategy == "condense" and record.lineage.summary_of else comparable(record)
        for key, record in live.items()
    }


async def drive(world: MaintenanceFixture, run_id: str, faults: Faults) -> Outcome:
    """Do what workers do until the run rests: the run, the jobs that ask, the run again."""
    backend, ledger = faults.backend(world.backend), faults.ledger(world.ledger)
    model = faults.watched(world.model, "model")
    while True:
        outcome = await world.service(backend, ledger).run(run_id)
        if not isinstance(outcome, Deferred):
            return outcome
        for place in places_due(ledger, run_id, company=COMPANY):
            await world.synthesis(backend, ledger, model).ask(run_id, place)


class FaultFreeResult:
    """What a run leaves that nothing disturbs."""

    def __init__(self, world: MaintenanceFixture, faults: Faults, after: dict[str, object], keys: Counter[str]) -> None:
        self.calls = faults.calls
        self.after = after
        self.questions = set(keys)
        self.archived = world.ledger.archive.count(COMPANY, AGENT)

    @classmethod
    async def of(cls, world: MaintenanceFixture, strategy: str) -> "FaultFreeResult":
        run, faults = world.plan_run(), Faults()
        assert isinstance(await drive(world, run.run_id, faults), Done)
        assert world.run(run.run_id).counts["consolidated"] == 9
        assert world.run(run.run_id).counts["pruned"] == 1
        assert world.run(run.run_id).counts["enforced"] > 0
        assert isinstance(world.model, FakeSummarizer)
        fault_free = cls(world, faults, await left(world, strategy), world.model.keys)
        assert len(fault_free.questions) == {"dual_mode": 6, "llm": 6}.get(strategy, 0)
        return fault_free

    def points(self, *, with_ledger: bool) -> list[int]:
        # A crash after a call is the crash before the next one; before the first there is nothing yet.
        points = crash_points(self.calls)
        others = [at for at in points if not self.is_await(at)]
        awaits = [at for at in points if self.is_await(at)]
        if with_ledger:
            return sorted([*awaits, *others[::LEDGER_STEP]])
        return awaits[:: sized(3, thorough=1)]

    def is_await(self, at: int) -> bool:
        return self.calls[at].startswith(("backend.", "model."))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("database", "strategy"), CASES)
async def test_a_crash_anywhere_loses_nothing_doubles_nothing_and_pays_nothing_twice(
    request: pytest.FixtureRequest, database: str, strategy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    urls: LedgerUrls = request.getfixturevalue(database)
    world = await filled(urls, strategy)
    go_back = world.keep()
    fault_free = await FaultFreeResult.of(world, strategy)
    # At some of the awaits alone on PostgreSQL, where every commit is a trip, and with one model, whose calls of the
    # ledger are those of dual mode.
    points = fault_free.points(with_ledger=database != POSTGRESQL and (THOROUGH or strategy != "llm"))
    awaits = sum(map(fault_free.is_await, points))

    for point in points:
        go_back()
        world.model = fake_summarizer = FakeSummarizer()
        run = world.plan_run()
        with pytest.raises(Crash):
            await drive(world, run.run_id, Faults(point))
        world.end_lease()

        outcome = await world.to_the_end(run.run_id)

        where = (point, fault_free.calls[point])
        assert isinstance(outcome, Done), (where, outcome)
        assert await left(world, strategy) == fault_free.after, where
        await world.check_balance()
        sources = Counter(each for summary in await world.summaries() for each in summary.lineage.summary_of)
        assert set(sources.values()) <= {1}, where
        assert world.ledger.archive.count(COMPANY, AGENT) == fault_free.archived, where
        assert set(fake_summarizer.keys) == fault_free.questions, where
        # Only an answer that came and could not be kept any more is asked for again, under the key of the first.
        asked_again = {key: times for key, times in fake_summarizer.keys.items() if times > 1}
        is_lost = fault_free.calls[point] == "answers.finish"
        assert (len(asked_again), sum(asked_again.values())) == ((1, 2) if is_lost else (0, 0)), where

    world.ledger.close()
    with capsys.disabled():
        print(f"\n{strategy} on {database}: {len(points)} crashes, {awaits} of them at awaits")  # noqa: T201

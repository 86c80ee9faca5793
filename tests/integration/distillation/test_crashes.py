"""A crash at every single call of a capture: one memory, one experience, one trajectory, whatever happens."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from support.execution_traces import trace
from support.fault_injection import AT_CALLS, Crash, Faults
from support.ledger_records import COMPANY, copied_urls
from support.memories import NOW

from memcore import ids
from memcore.backends.inmemory import InMemoryBackend
from memcore.distillation import Capture
from memcore.ingest import Ingestor, WriteResult
from memcore.jobs import DistillPayload, Done, StoreItem
from memcore.ledger.ledger import Ledger
from memcore.models.memory import ConsolidationInterval, MemoryLevel
from memcore.records import Where

TRACE_ID = ids.trace_id(company=COMPANY, agent_id="ada", trace="{}")

JOB = DistillPayload(company=COMPANY, agent_id="ada", trace_id=TRACE_ID, trace=trace(), sent_at=NOW)


def capture(backend: InMemoryBackend, ledger: Ledger, faults: Faults) -> Capture:
    watched = faults.ledger(ledger)
    ingestor = Ingestor(
        faults.backend(backend),
        watched,
        company=COMPANY,
        interval=ConsolidationInterval.DAILY,
        level=MemoryLevel.PERSISTENT,
    )

    def store(item: StoreItem) -> WriteResult:
        return asyncio.run(ingestor.write([item]))

    return Capture(watched, store, level=MemoryLevel.PERSISTENT)


@pytest.mark.parametrize("is_after", AT_CALLS)
def test_after_a_crash_anywhere_the_next_attempt_ends_it(
    tmp_path: Path, ledger_template: Path, record_property: Callable[[str, object], None], *, is_after: bool
) -> None:
    points, is_over = 0, False
    while not is_over:
        backend = InMemoryBackend(company=COMPANY)
        asyncio.run(backend.connect())
        ledger = Ledger.open(copied_urls(ledger_template, tmp_path / str(points)))
        faults = Faults(points, is_after=is_after)
        try:
            capture(backend, ledger, faults).take(JOB)
            is_over = True
        except Crash:
            points += 1
        where = faults.calls[-1]
        assert isinstance(capture(backend, ledger, Faults()).take(JOB), Done), where
        records = asyncio.run(backend.scan(Where(agent_id="ada"))).records
        assert [each.entry.id for each in records] == [TRACE_ID], where
        assert ledger.experiences.count(COMPANY, "ada").total == 1, where
        assert ledger.trajectories.count(COMPANY) == 1, where
        assert ledger.agents.get(COMPANY, "ada") is not None, where
        assert capture(backend, ledger, Faults()).take(JOB) == Done(facts={"known": 1}), where
        ledger.close()
    assert points >= 7
    record_property("points", points)

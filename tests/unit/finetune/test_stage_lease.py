"""Heartbeats of a stage's lease: no more often than due, and errors while the ledger is away."""

from datetime import timedelta

import pytest
from support.ledger_records import COMPANY, StoppedClock
from support.present import present

from memcore.errors import FineTuneCancelledError, LeaseLostError, MemoryConnectionError
from memcore.finetune.markers import LogLine, Progress
from memcore.finetune.service import REPORT_SECONDS, StageLease
from memcore.ledger.attempt import LEASE_LENGTH, Lease
from memcore.ledger.finetune_runs import FineTuneRun
from memcore.ledger.ledger import Ledger

BEAT = timedelta(seconds=REPORT_SECONDS)


class Held:
    """A leased run."""

    def __init__(self, ledger: Ledger, clock: StoppedClock) -> None:
        self.clock = clock
        self.runs = ledger.finetune_runs
        self.run_id = self.runs.start(COMPANY, {}).run_id
        since = self.seconds()
        run = present(self.runs.claim(COMPANY, self.run_id, lease=LEASE_LENGTH))
        self.lease = Lease(self.runs, COMPANY, self.run_id, present(run.token), since=since, monotonic=self.seconds)
        self.stage_lease = StageLease(self.lease, self.runs, COMPANY, run, monotonic=self.seconds)

    def seconds(self) -> float:
        return self.clock().timestamp()

    def row(self) -> FineTuneRun:
        return present(self.runs.get(COMPANY, self.run_id))


@pytest.fixture
def held(ledger: Ledger, clock: StoppedClock) -> Held:
    return Held(ledger, clock)


def test_progress_goes_with_the_next_sign_of_life(held: Held) -> None:
    held.stage_lease.take(Progress(0.2))
    held.stage_lease.take(LogLine("a library speaks"))
    assert not held.stage_lease.cancelled()
    assert held.row().progress is None
    held.stage_lease.take(Progress(0.4))
    held.clock.advance(BEAT)
    assert not held.stage_lease.cancelled()
    assert held.row().progress == 0.4


def test_a_persons_wish_is_heard_with_the_next_sign_of_life(held: Held) -> None:
    held.runs.cancel(COMPANY)
    assert not held.stage_lease.cancelled()
    held.clock.advance(BEAT)
    with pytest.raises(FineTuneCancelledError):
        held.stage_lease.alive()


def test_a_run_that_another_has_is_let_go(held: Held) -> None:
    held.clock.advance(LEASE_LENGTH)
    assert held.runs.claim(COMPANY, held.run_id, lease=LEASE_LENGTH) is not None
    # A process that slept may find its own clock behind: the row knows.
    held.clock.now -= LEASE_LENGTH / 2
    with pytest.raises(LeaseLostError, match="no longer held"):
        held.stage_lease.cancelled()


def test_a_ledger_that_is_away_is_waited_for_as_long_as_the_lease_lasts(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_reported: object, **_more: object) -> None:
        raise MemoryConnectionError("the ledger is away")

    with monkeypatch.context() as patch:
        patch.setattr(held.stage_lease, "_report", away)
        held.clock.advance(LEASE_LENGTH - BEAT)
        assert not held.stage_lease.cancelled()
    held.lease.confirm()
    held.clock.advance(BEAT)
    assert not held.stage_lease.cancelled()
    monkeypatch.setattr(held.stage_lease, "_report", away)
    held.clock.advance(LEASE_LENGTH - BEAT)
    with pytest.raises(LeaseLostError, match="the lease has ended"):
        held.stage_lease.cancelled()

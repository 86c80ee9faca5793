"""Maintenance job: one agent's night, the undo of a run, or the end of a session, project or task."""

from datetime import timedelta

from pydantic import ValidationError

from memcore.errors import MemoryError, MemoryInputError  # noqa: A004  # the reference fixes the name
from memcore.jobs.names import TaskName
from memcore.jobs.outcomes import Dead, Done, Outcome, Parked, Retry, Skipped, Snooze
from memcore.jobs.payloads import MaintenancePayload, is_newer
from memcore.jobs.queues import Queue
from memcore.ledger.run import END_KINDS, NewRun, Run, RunState
from tasks.crew import Crew
from tasks.job import Job, Limits
from tasks.newer import wait_for_newer_worker

#: Wait before a failed step is tried again.
_RETRY_DELAY = timedelta(seconds=10)

#: Wait of an end while another run of its agent is under way.
_BUSY_DELAY = timedelta(seconds=5)

#: What moves an end out of another one's way.
_MOMENT = timedelta(microseconds=1)

#: A run in these states is rung for by the sweep.
_ACTIVE = frozenset({RunState.QUEUED, RunState.RUNNING})


def maintain(payload: str, crew: Crew) -> Outcome:  # noqa: PLR0911  # one for each way that it can end
    """Make sure the run's row exists, then carry it out; the row is the truth, the message only the bell."""
    try:
        job = MaintenancePayload.model_validate_json(payload)
    except ValidationError as error:
        if is_newer(payload):
            return wait_for_newer_worker()
        return Dead(reason=str(MemoryInputError.of(error)))
    if job.company != crew.company:
        return Dead(reason="company: this worker serves another company")
    try:
        if not _has_row(job, crew):
            reason = "another run of this agent is under way"
            # A night comes again by itself. An end is asked for once, and waits for as long as it takes.
            return Snooze(reason=reason, delay=_BUSY_DELAY) if job.kind in END_KINDS else Skipped(reason=reason)
        return _as_row_says(crew.maintain(job.run_id), crew.ledger.runs.get(job.run_id))
    except MemoryError as error:
        if error.is_retryable:
            return Retry(reason=type(error).__name__, delay=_RETRY_DELAY)
        return Dead(reason=str(error))


def _has_row(job: MaintenancePayload, crew: Crew) -> bool:
    """Make sure that the run has its row; False when its agent has another active run."""
    runs = crew.ledger.runs
    if runs.get(job.run_id) is not None:
        return True
    run = NewRun(**job.model_dump(exclude={"version"}))
    while runs.create(run) is None and runs.get(run.run_id) is None:
        if run.kind not in END_KINDS or runs.active(run.company, run.agent_id) is not None:
            return False
        # Two ends of one agent were asked for at the same microsecond, and a slot is one run's.
        run = run.model_copy(update={"planned_at": run.planned_at + _MOMENT})
    return True


def _as_row_says(outcome: Outcome, run: Run | None) -> Outcome:
    # The message may be a second one for the same run: what it found must not stand for what became of the run.
    match outcome:
        case Snooze(reason=reason) | Retry(reason=reason) | Skipped(reason=reason) if run and run.state in _ACTIVE:
            return Parked(reason=reason)
        case Skipped() if run and run.state is RunState.DONE:
            return Done(facts=run.counts)
        case _:
            return outcome


MAINTAIN = Job(
    name=TaskName.MAINTAIN,
    queue=Queue.MAINTENANCE,
    limits=Limits(soft=timedelta(minutes=50), hard=timedelta(minutes=55), attempts=5),
    is_repeated=True,
    run=maintain,
)

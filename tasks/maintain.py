"""Maintenance job: one agent's night, an undo, the end of a session, project or task, or a return from the archive."""

import logging
from datetime import timedelta

from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.experience.service import wants_compression
from memcore.jobs.outcomes import Done, Outcome, Parked, Retry, Skipped, Snooze
from memcore.jobs.payloads import MaintenancePayload, SynthesisPayload
from memcore.jobs.queues import Queue, TaskName
from memcore.ledger.runs import SCOPED_KINDS, NewRun, Run, RunState
from memcore.maintenance.consolidation.step import RING_AGAIN
from tasks.context import Crew
from tasks.job import Job, Limits, opens

# None of it makes the night undone.

_log = logging.getLogger("memtend.jobs")


def after_night(agent_id: str, crew: Crew) -> None:
    """Ring for the agent's raw experience, pass its lessons on, and export its wiki, as far as the policy says so."""
    _ring_for_experience(agent_id, crew)
    try:
        crew.pass_on(agent_id)
    except MemoryError as error:
        # They stay unmarked, and the agent's next night passes them on.
        _log.warning("night.lessons_wait", extra={"agent_id": agent_id, "error": type(error).__name__})
    crew.export_wiki(agent_id)


def _ring_for_experience(agent_id: str, crew: Crew) -> None:
    config = crew.policy.memory.consolidation.experience_compressor
    try:
        if wants_compression(crew.ledger, config, company=crew.company, agent_id=agent_id):
            crew.bell.ring_experience(crew.company, [agent_id])
    except MemoryError as error:
        # The raw rows stay, and the agent's next night rings for them.
        _log.warning("night.experience_waits", extra={"agent_id": agent_id, "error": type(error).__name__})


#: Wait before a failed step is tried again.
_RETRY_DELAY = timedelta(seconds=10)

#: Wait of an end or a restore while another run of its agent is under way.
_BUSY_DELAY = timedelta(seconds=5)

#: What moves an end out of another one's way.
_MOMENT = timedelta(microseconds=1)

#: A run in these states is rung for by the sweep.
_ACTIVE = frozenset({RunState.QUEUED, RunState.RUNNING})


@opens(MaintenancePayload, retry_after=_RETRY_DELAY)
def maintain(job: MaintenancePayload, crew: Crew) -> Outcome:
    """Make sure the run's row exists, then carry it out; the row is the truth, the message only the bell."""
    if not _has_row(job, crew):
        reason = "another run of this agent is under way"
        # A night comes again by itself. An end or a restore is asked for once, and waits for as long as it takes.
        return Snooze(reason=reason, delay=_BUSY_DELAY) if job.kind in SCOPED_KINDS else Skipped(reason=reason)
    outcome = crew.maintain(job.run_id)
    if isinstance(outcome, Snooze):
        _ring_for_answers(job.run_id, crew)
    if isinstance(outcome, Done) and job.kind == "maintenance":
        after_night(job.agent_id, crew)
    return _as_row_says(outcome, crew.ledger.runs.get(job.run_id))


def _ring_for_answers(run_id: str, crew: Crew) -> None:
    """Send the jobs that ask a model, now that nobody holds the night; ring for it where they were quicker."""
    syntheses = crew.ledger.syntheses
    parts = syntheses.to_ring(run_id)
    crew.bell.ring_parts(parts)
    syntheses.rung(run_id, [part.place for part in parts], again_at=crew.clock() + RING_AGAIN)
    if syntheses.has_ready(run_id) and not syntheses.is_waiting(run_id):
        night = crew.ledger.runs.wake(run_id)
        crew.bell.ring_many([night] if night else [])


def _has_row(job: MaintenancePayload, crew: Crew) -> bool:
    """Make sure that the run has its row; False when its agent has another active run."""
    runs = crew.ledger.runs
    if runs.get(job.run_id) is not None:
        return True
    run = NewRun(**job.model_dump(exclude={"version"}))
    while runs.create(run) is None and runs.get(run.run_id) is None:
        active = runs.active(run.company, run.agent_id)
        if run.kind not in SCOPED_KINDS or (active is not None and not active.gives_way):
            return False
        # Two ends of one agent, or two restores, were asked for at the same microsecond, and a slot is one run's.
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


#: Wait before the store or the ledger is tried again.
_RETRY_DELAY = timedelta(seconds=10)


@opens(SynthesisPayload, retry_after=_RETRY_DELAY)
def synthesize(job: SynthesisPayload, crew: Crew) -> Outcome:
    """Ask, and ring for the night when it has nothing left to wait for."""
    asked = crew.synthesize(job.run_id, job.place)
    crew.bell.ring_many([asked.night] if asked.night else [])
    return asked.outcome


SYNTHESIZE = Job(
    name=TaskName.SYNTHESIZE,
    queue=Queue.SYNTHESIS,
    limits=Limits(soft=timedelta(minutes=50), hard=timedelta(minutes=55), attempts=5),
    is_repeated=True,
    run=synthesize,
)

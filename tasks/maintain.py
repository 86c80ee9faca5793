"""Maintenance job, an agent's run, undo, scope end or restore, and synthesis job, a run's question to a model."""

import logging
from contextlib import suppress
from datetime import timedelta

from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.jobs import Deferred, Done, MaintenancePayload, Outcome, Retry, Skipped, Snooze, SynthesisPayload
from memcore.ledger.attempt import PAUSE_DELAY
from memcore.ledger.runs import SCOPED_KINDS, NewRun, Run
from memcore.ledger.work_items import OPEN_STATES, WorkState
from memcore.maintenance.consolidation.answers import SynthesisService
from memcore.maintenance.registered import RegisteredTests
from memcore.maintenance.service import MaintenanceService
from memcore.procedural.propagation import Propagation
from memcore.telemetry.events import Event
from memcore.wiki import WikiExporter
from tasks.context import JobContext
from tasks.job import LONG_LIMITS, job

#: Counts of a run that say that memories went or came.
_MOVES = ("ended", "retention", "expired", "pruned", "consolidated", "enforced", "restored", "removed")

_log = logging.getLogger("memtend.jobs")


def post_maintenance(agent_id: str, job_context: JobContext) -> None:
    """Compress experience, write search notes, find changes, propagate lessons and export the wiki, as the policy says.

    A failure here does not make the run undone.
    """
    is_wanted, company = job_context.policy.memory.consolidation.experience_compressor.enabled, job_context.company
    try:
        if is_wanted and job_context.ledger.experiences.has_raw(company, agent_id):
            requested = job_context.ledger.compressions.request_for(company, agent_id)
            job_context.dispatcher.dispatch([requested] if requested else [])
    except MemoryError as error:
        # The raw rows stay: the sweep dispatches what was requested, or the agent's next run requests it.
        _log.warning(Event.NIGHT_EXPERIENCE_WAITS, extra={"agent_id": agent_id, "error": type(error).__name__})
    request_search_notes(agent_id, job_context)
    request_changes(agent_id, job_context)
    propagate_lessons(agent_id, job_context)
    export_wiki(agent_id, job_context)


def request_search_notes(agent_id: str, job_context: JobContext) -> None:
    """Let the agent's memories get search notes, if the policy says so."""
    if not job_context.policy.memory.consolidation.search_notes.enabled:
        return
    try:
        requested = job_context.ledger.note_writing.request_for(job_context.company, agent_id)
        job_context.dispatcher.dispatch([requested] if requested else [])
    except MemoryError as error:
        _log.warning(Event.SEARCH_NOTES_WAIT, extra={"agent_id": agent_id, "error": type(error).__name__})


def request_changes(agent_id: str, job_context: JobContext) -> None:
    """Let the agent's memories be compared with older ones, if the policy says so."""
    if not job_context.policy.memory.consolidation.changes.enabled:
        return
    try:
        requested = job_context.ledger.change_finding.request_for(job_context.company, agent_id)
        job_context.dispatcher.dispatch([requested] if requested else [])
    except MemoryError as error:
        _log.warning(Event.CHANGES_WAIT, extra={"agent_id": agent_id, "error": type(error).__name__})


def propagate_lessons(agent_id: str, job_context: JobContext) -> None:
    """Copy the agent's lessons to its peers, if the policy says so."""
    learning = job_context.policy.memory.procedural
    by = learning.propagation.type
    if not learning.enabled or by == "none":
        return
    try:
        job_context.run(job_context.service(Propagation).run(agent_id, by=by))
    except MemoryError as error:
        # They stay unmarked, and the agent's next run propagates them.
        _log.warning(Event.NIGHT_LESSONS_WAIT, extra={"agent_id": agent_id, "error": type(error).__name__})


def ask_tests(run: Run, job_context: JobContext) -> None:
    """Ask the agent's registered tests after a run that moved memories: each once, also where its message comes again.

    So a worker that dies in between leaves them to that message's next worker, and what fails to the agent's next run.
    """
    if run.finished_at is None or not any(run.counts.get(name) for name in _MOVES):
        return
    with suppress(MemoryError):
        tests = job_context.ledger.memory_tests.due(run.company, run.agent_id, before=run.finished_at)
        if tests:
            job_context.run(job_context.service(RegisteredTests).run(tests, run_id=run.run_id))


def export_wiki(agent_id: str, job_context: JobContext) -> None:
    """Export the wiki of an agent whose run or compression has just ended, if the policy says so."""
    wiki = job_context.policy.memory.consolidation.wiki_export
    if wiki.enabled and wiki.trigger == "on_consolidation":
        job_context.run(job_context.service(WikiExporter).export_after_run(agent_id))


#: Delay of an end or a restore while another run of its agent is active.
_BUSY_DELAY = timedelta(seconds=5)


#: Most messages that a run sends when it begins to wait; the sweep sends the others.
DISPATCHED_AT_ONCE = 1_000


@job(MaintenancePayload, LONG_LIMITS, needs=MaintenanceService, is_repeated=True)
def maintain(payload: MaintenancePayload, service: MaintenanceService, job_context: JobContext) -> Outcome:
    """Create the run's row if it is missing, then carry it out; the row decides, the message only triggers."""
    if not _has_row(payload, job_context):
        reason = "another run of this agent is under way"
        # A run is scheduled again by itself. An end or a restore is requested once, and waits as long as it takes.
        return Snooze(reason=reason, delay=_BUSY_DELAY) if payload.kind in SCOPED_KINDS else Skipped(reason=reason)
    outcome = job_context.run(service.run(payload.run_id))
    run = job_context.ledger.runs.get(payload.company, payload.run_id)
    if run is not None and run.state is WorkState.WAITING:
        _dispatch_questions(run, job_context)
    if isinstance(outcome, Done) and payload.kind == "maintenance":
        post_maintenance(payload.agent_id, job_context)
    if run is not None and run.state is WorkState.DONE:
        ask_tests(run, job_context)
    return _as_row_says(outcome, run)


def _dispatch_questions(run: Run, job_context: JobContext) -> None:
    """Send the questions of a run, now that its lease is free; dispatch the run itself if all are answered."""
    ledger, now = job_context.ledger, job_context.clock()
    parts = ledger.syntheses.of_run(run.company, run.run_id)
    waits = [part.key for part in parts if part.is_open][:DISPATCHED_AT_ONCE]
    if waits:
        due = ledger.work.take_due(company=run.company, keys=waits, limit=DISPATCHED_AT_ONCE)
        job_context.dispatcher.dispatch(due)
    elif any(part.is_ready for part in parts) and run.dispatch_after and run.dispatch_after - now > PAUSE_DELAY:
        # A shorter wait is that of a paused run, which would only come back at once, again and again.
        woken = ledger.runs.wake(run.company, run.run_id)
        job_context.dispatcher.dispatch([woken] if woken else [])


def _has_row(payload: MaintenancePayload, job_context: JobContext) -> bool:
    """Create the run's row if it is missing; False when its agent has another active run."""
    runs = job_context.ledger.runs
    if runs.get(payload.company, payload.run_id) is not None:
        return True
    run = NewRun(**payload.model_dump(exclude={"version"}))
    return runs.create(run) is not None or runs.get(run.company, run.run_id) is not None


def _as_row_says(outcome: Outcome, run: Run | None) -> Outcome:
    # The message may be a second one for the same run: its outcome must not count as the run's.
    match outcome:
        case Retry(reason=reason) | Skipped(reason=reason) if run and run.state in OPEN_STATES:
            return Deferred(reason=reason)
        case Skipped() if run and run.state is WorkState.DONE:
            return Done(facts=run.counts)
        case _:
            return outcome


@job(SynthesisPayload, LONG_LIMITS, needs=SynthesisService, is_repeated=True)
def synthesize(payload: SynthesisPayload, service: SynthesisService, job_context: JobContext) -> Outcome:
    """Ask the model, and dispatch the run when no question is left open."""
    asked = job_context.run(service.ask(payload.run_id, payload.place))
    job_context.dispatcher.dispatch([asked.maintenance_run] if asked.maintenance_run else [])
    return asked.outcome

"""Conversation jobs: turns and records are kept, sessions closed; a model is asked about a turn, and a session ends."""

import logging
from datetime import timedelta

from memcore import ids
from memcore.conversation.ending import EndingService
from memcore.conversation.turns import ExtractionService, TurnRecorder
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.jobs import (
    CloseSessionPayload,
    ConversationRecordPayload,
    Done,
    EndSessionPayload,
    ExtractPayload,
    Outcome,
    Retry,
    Skipped,
    TurnPayload,
)
from memcore.ledger.work_items import WorkItem
from memcore.telemetry.events import Event
from tasks.context import JobContext
from tasks.job import LONG_LIMITS, WRITE_LIMITS, job

#: Wait before a session is looked for again, whose first turn may still be on its way.
_TURN_DELAY = timedelta(seconds=5)

#: How long it is looked for: turns and ends travel on one queue, and overtake each other by seconds.
_LOOKED_FOR = timedelta(minutes=1)

_log = logging.getLogger("memtend.jobs")


@job(TurnPayload, WRITE_LIMITS)
def record_turn(payload: TurnPayload, job_context: JobContext) -> Outcome:
    """Record the turn once, however often its message comes, and dispatch the job that asks the model about it."""
    memory = job_context.policy.memory
    recorder = TurnRecorder(
        job_context.ledger, memory.conversation, level=memory.level, interval=memory.consolidation.interval
    )
    outcome = recorder.record(payload)
    if isinstance(outcome, Done) and outcome.facts["recorded"]:
        _dispatch(job_context, job_context.ledger.turns.item(payload.company, payload.turn_id))
    return outcome


@job(CloseSessionPayload, WRITE_LIMITS)
def close_session(payload: CloseSessionPayload, job_context: JobContext) -> Outcome:
    """Note that the session was ended, and dispatch the job that ends it."""
    key = ids.session_key(
        company=payload.company, agent_id=payload.agent_id, subject=payload.subject, session_id=payload.session_id
    )
    sessions = job_context.ledger.sessions
    item = sessions.close_now(payload.company, key, at=payload.at)
    if item is not None:
        _dispatch(job_context, item)
        return Done(facts={"closed": 1} | ({"shutdown": 1} if payload.is_shutdown else {}))
    if sessions.get(payload.company, key) is not None:
        return Skipped(reason="this session has ended")
    if job_context.clock() - payload.at < _LOOKED_FOR:
        return Retry(reason="no turn of this session is known yet", delay=_TURN_DELAY)
    return Skipped(reason="no turn of this session is known")


@job(ExtractPayload, LONG_LIMITS, needs=ExtractionService, is_repeated=True)
def extract_turn(payload: ExtractPayload, service: ExtractionService, job_context: JobContext) -> Outcome:
    """Ask the model about the turn, unless its row in the ledger says that it is done."""
    return job_context.run(service.run(payload.turn_id))


@job(EndSessionPayload, LONG_LIMITS, needs=EndingService, is_repeated=True)
def end_session(payload: EndSessionPayload, service: EndingService, job_context: JobContext) -> Outcome:
    """End the session, unless it goes on or its row in the ledger says that it has ended."""
    return job_context.run(service.run(payload.session_key))


@job(ConversationRecordPayload, WRITE_LIMITS)
def record(payload: ConversationRecordPayload, job_context: JobContext) -> Outcome:
    """Keep a crisis, or what somebody thought of a session, once; also where nothing else is kept of the agent."""
    ledger, company = job_context.ledger, payload.company
    if payload.crisis is not None:
        is_new = ledger.crises.record(company, payload.crisis)
    else:
        is_new = payload.feedback is not None and ledger.feedback.record(company, payload.feedback)
    return Done(facts={"recorded": int(is_new), "known": int(not is_new)})


def _dispatch(job_context: JobContext, item: WorkItem) -> None:
    if job_context.model is None:
        return  # nobody could do it; the sweep dispatches it once a model is connected
    try:
        job_context.dispatcher.dispatch([item])
    except MemoryError as error:
        # The sweep dispatches the row.
        _log.warning(Event.CONVERSATION_WORK_WAITS, extra={"kind": item.kind, "error": type(error).__name__})

"""The effects of the keys of conversation memory."""

from datetime import timedelta

from memcore import ids
from memcore.config.policy import Policy
from memcore.conversation.ending import EndingService
from memcore.conversation.turns import ExtractionService
from memcore.jobs import TurnPayload
from memcore.models.conversation import CrisisLogRecord, FactState, Owner, SessionFeedbackRecord
from scheduler.expire import expire
from support.config_effects import AGENT, COMPANY, ContextFixture, Effect, Place, context_fixture
from support.table_model import TableModel, extracted, fact, rule
from tasks.converse import record_turn
from workers.celery_task import perform

OWNER = Owner(agent_id=AGENT, subject="user:mia")
KEY = ids.session_key(company=COMPANY, session_id="s-1", **OWNER.model_dump())


def _model() -> TableModel:
    rules = {f"rule {number}": f"Rule {number}." for number in (1, 2)}
    return TableModel(
        extract={
            **{words: extracted(rules=(rule(words, text),)) for words, text in rules.items()},
            **{city: extracted(fact(f"I live in {city}", city)) for city in ("Berlin", "Rome")},
        },
        reconcile={"Rome": {"facts": [{"number": 1, "action": "supersede", "known": [1], "confidence": "high"}]}},
    )


def _said(made: ContextFixture, *texts: str) -> None:
    for number, text in enumerate(texts):
        payload = TurnPayload(
            company=COMPANY,
            **OWNER.model_dump(),
            session_id="s-1",
            turn_id=f"turn-{number}",
            user_text=text,
            at=made.clock(),
        )
        perform(record_turn, payload.model_dump_json(), made.job_context)
        made.job_context.run(made.job_context.service(ExtractionService).run(payload.turn_id))
        made.clock.turn(timedelta(seconds=1))


def turns(place: Place, policy: Policy) -> object:
    """What was asked about two turns, the rules that are left, and when their session ends by itself."""
    model = _model()
    with context_fixture(place, policy, model=model) as made:
        _said(made, "rule 1", "rule 2")
        asked = [(each.model, each.temperature, each.max_tokens) for each in model.asked]
        rules = [each.rule for each in made.ledger.conversation.rules(COMPANY, OWNER)]
        return asked, sorted(rules), made.ledger.sessions.item(COMPANY, KEY).dispatch_after


def old_conversations(place: Place, policy: Policy) -> object:
    """What is left of a session that ended twenty days ago."""
    with context_fixture(place, policy, model=_model()) as made:
        _said(made, "I live in Berlin", "I live in Rome", "well")
        whose = {"record_id": "r", **OWNER.model_dump(), "session_id": "s-1", "at": made.clock()}
        crisis = {**whose, "level": "high", "path": "model", "action": "showed a number"}
        made.ledger.crises.record(COMPANY, CrisisLogRecord.model_validate(crisis))
        feedback = {**whose, "label": "helpful", "source": "person"}
        made.ledger.feedback.record(COMPANY, SessionFeedbackRecord.model_validate(feedback))
        made.ledger.sessions.close_now(COMPANY, KEY, at=made.clock())
        made.job_context.run(made.job_context.service(EndingService).run(KEY))
        made.clock.turn(timedelta(days=20))
        perform(expire, "{}", made.job_context)
        ledger = made.ledger
        return (
            [turn.user_text for turn in ledger.turns.of_session(COMPANY, KEY)],
            [each.object for each in ledger.conversation.facts(COMPANY, OWNER, states=(FactState.SUPERSEDED,))],
            len(ledger.conversation.arcs(COMPANY, OWNER)),
            len(ledger.crises.page(COMPANY, AGENT)),
            len(ledger.feedback.page(COMPANY, AGENT)),
        )


EFFECTS = {
    f"memory.conversation.{name}": effect
    for name, effect in {
        "idle_minutes": Effect(turns, 7),
        "max_rules": Effect(turns, 1),
        "model": Effect(turns, "small"),
        "temperature": Effect(turns, 0.5),
        "max_tokens": Effect(turns, 77),
        "transcript_hours": Effect(old_conversations, 24 * 30),
        "archive_days": Effect(old_conversations, 10),
        "crisis_days": Effect(old_conversations, 10),
        "feedback_days": Effect(old_conversations, 10),
    }.items()
}

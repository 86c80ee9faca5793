"""The effects of the keys of conversation memory."""

import asyncio
import contextlib
import json
from contextlib import closing
from datetime import timedelta

import httpx
from fastapi import Request

from memcore import ids
from memcore.backends.protocol import MemoryBackend
from memcore.clock import utc_now
from memcore.config.policy import Policy
from memcore.conversation.ending import EndingService
from memcore.conversation.loading import TurnLoader
from memcore.conversation.turns import ExtractionService
from memcore.errors import MemoryNotFoundError
from memcore.jobs import TurnPayload
from memcore.ledger.ledger import Ledger
from memcore.models.conversation import CrisisLogRecord, FactState, Owner, SessionFeedbackRecord
from ops.http.context import ServeContext, ServeOptions
from ops.http.router.app import Router
from ops.http.router.forwarding import Headers, Upstream, Upstreams
from scheduler.expire import expire
from support import kept_conversations
from support.config_effects import AGENT, COMPANY, ContextFixture, Effect, Place, context_fixture
from support.ledger_records import StoppedClock
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


def turn_loaded(place: Place, policy: Policy) -> object:
    """What an agent is shown before a reply, of a person with many facts and sessions, one of them older."""
    clock = StoppedClock()
    days = (40, 9, 8, 7, 6)

    async def open_backend() -> MemoryBackend:
        return kept_conversations.without_vectors()

    with closing(Ledger.open(place.settings().ledger_urls, clock=clock)) as ledger:
        facts = (kept_conversations.fact(f"f-{number}", "my boss shouts", at=clock.now) for number in range(9))
        arcs = (
            kept_conversations.arc(f"s-{day}", "a talk about the boss", at=clock.now - timedelta(days=day))
            for day in days
        )
        kept_conversations.keep(ledger, kept_conversations.owner(), *facts, *arcs, company=COMPANY)
        loader = TurnLoader(ledger, company=COMPANY, config=policy.memory.conversation, clock=clock)
        context = asyncio.run(
            loader.load_turn(kept_conversations.owner(), "my boss", is_first_turn=False, open_backend=open_backend)
        )
    return [each.fact_id for each in context.facts], [each.session_id for each in context.arcs]


class _Taken(Upstreams):
    """Sends nothing on, and keeps what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[object] = []

    async def send(
        self, upstream: Upstream, method: str, path: str, *, query: bytes, headers: Headers, body: bytes
    ) -> httpx.Response:
        self.sent += [upstream, method, path, query, headers, b"hidden tea" in body, b"green tea" in body]
        return httpx.Response(200, content=b"{}")


def forwarded(place: Place, policy: Policy) -> object:
    """What the router sends on of a turn of a person of whom two agents know something."""

    async def receive() -> dict[str, object]:
        asked = {"role": "user", "content": "which tea do I drink?"}
        return {"type": "http.request", "body": json.dumps({"user": "mia", "messages": [asked]}).encode()}

    async def answered(context: ServeContext, taken: _Taken) -> None:
        scope = {"type": "http", "method": "POST", "headers": [], "query_string": b"", "path": "/"}
        caller = await context.callers.of(None)
        request = Request(scope | {"caller": caller, "path_params": {"path": "chat/completions"}}, receive)
        try:
            with contextlib.suppress(MemoryNotFoundError):
                await Router(context=context, upstreams=taken).answer(request)
        finally:
            await context.close()

    context, taken = ServeContext.open(place.settings(), ServeOptions(requires_key=False)), _Taken()
    context.policies.policy = policy
    for agent, tea in (("assistant", "green tea"), ("barista", "hidden tea")):
        known = kept_conversations.fact(agent, f"I drink {tea}", at=utc_now(), object=tea)
        owner = Owner(agent_id=agent, subject="user:mia")
        kept_conversations.keep(context.ledger, owner, known, company=COMPANY)
    asyncio.run(answered(context, taken))
    return taken.sent


_UPSTREAM = {"memory.router.upstreams": {"main": "http://127.0.0.1:1/v1"}}

EFFECTS = {
    "memory.router.upstreams": Effect(forwarded, {"main": "http://127.0.0.1:1/v1"}),
    "memory.router.agent": Effect(forwarded, "barista", _UPSTREAM),
    "memory.router.token_budget": Effect(forwarded, 1, _UPSTREAM),
} | {
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
        "facts_shown": Effect(turn_loaded, 2),
        "arcs_shown": Effect(turn_loaded, 1),
        "arc_days": Effect(turn_loaded, 50),
    }.items()
}

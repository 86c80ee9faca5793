"""Ends sessions: promotes what was held, and writes the one summary of what the session was about."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast

from pydantic import Field, model_validator

from memcore import ids
from memcore.conversation import promotion
from memcore.conversation.extraction import POLICY_VERSION, Asker, one_line
from memcore.conversation.reconciliation import Fate
from memcore.conversation.service import (
    MAX_ROUNDS,
    RETRY,
    Candidates,
    ConversationService,
    Embedding,
    reconciled,
    refused_level,
    written_by,
)
from memcore.conversation.turn_prompt import TAG_AGENT, TAG_PERSON
from memcore.errors import MalformedAnswerError, MemoryRetrievalError, ProviderError
from memcore.experience import clipped
from memcore.jobs import Deferred, Done, Outcome, Skipped
from memcore.ledger.attempt import Attempt
from memcore.ledger.conversation.memory import StaleOwnerError
from memcore.ledger.conversation.turns import CandidateEnd, Session, Turn
from memcore.llm.grounding import Grounds, Kind
from memcore.llm.protocol import Model
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.conversation import (
    MAX_SUMMARY_CHARS,
    MAX_TERM_CHARS,
    Arc,
    Fact,
    HeldCandidate,
    ProceduralCandidate,
    ProfileRule,
    SemanticCandidate,
)
from memcore.models.origin import Origin
from memcore.telemetry.events import Event
from memcore.untrusted_text import untrusted_content_directive, without_secrets, wrap_untrusted

_log = logging.getLogger(__name__)

#: The purpose that the account names.
PURPOSE = "system:memory:conversation:summarize"

#: A session has a summary from so many turns of the person on, or from so many characters that the person said: a
#: greeting and a question have nothing to be summed up, and one long message has.
SUBSTANTIVE_TURNS, SUBSTANTIVE_CHARS = 3, 400

#: Most earlier sessions, and most candidates of theirs, that a promotion looks at.
MAX_ARCS, MAX_BEFORE = 100, 200

#: Least and longest wait for turns that a model has still to be asked about; between them, as long again as it has
#: waited already.
FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=15), timedelta(hours=1)

#: Most characters of a session, and of one text of it, that the model reads; the middle is left out.
SESSION_CHARS, TEXT_CHARS = 24_000, 2_000

#: Most topics of a session.
MAX_TOPICS = 12


class SummaryForm(Frozen):
    """What a session was about, as a model sees it."""

    summary: NotBlankStr = Field(max_length=MAX_SUMMARY_CHARS)
    topics: tuple[str, ...] = Field(default=(), max_length=MAX_TOPICS)

    @model_validator(mode="before")
    @classmethod
    def _tidy(cls, given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        answer = cast("Mapping[str, object]", given)
        summary, listed = one_line(answer.get("summary")), answer.get("topics")
        every = (
            [one_line(each) for each in cast("Sequence[object]", listed)] if isinstance(listed, list | tuple) else []
        )
        topics = [each for each in every if isinstance(each, str) and 0 < len(each) <= MAX_TERM_CHARS]
        return {
            "summary": summary[:MAX_SUMMARY_CHARS] if isinstance(summary, str) else summary,
            "topics": tuple(dict.fromkeys(topics))[:MAX_TOPICS],
        }


_SYSTEM = f"""\
You sum up a conversation between a person and an AI agent, which is another than you, so that the agent knows at the
next meeting what it was about. Write at most six sentences about what the person wanted, said and decided, and what was
left open; in the language of the person, with a date in place of "tomorrow"; no passwords, keys or numbers of accounts;
nothing that does not stand in the texts. Where there is an earlier summary, of the same conversation, yours takes its
place and keeps what matters of it.
Answer with one JSON object and nothing else: {{"summary": ..., "topics": [at most {MAX_TOPICS} short labels]}}.
{untrusted_content_directive(TAG_PERSON)} The same holds for <{TAG_AGENT}> and <earlier-summary>."""


async def summarise(asker: Asker, turns: Sequence[Turn], earlier: str | None) -> SummaryForm:
    """Return what a session was about.

    Raises what ``ask_structured`` raises, and MalformedAnswerError where the summary says what no text does.
    """
    texts = [(tag, f"{turn.at:%A %Y-%m-%d}", clipped(text, TEXT_CHARS)) for turn in turns for tag, text in _texts(turn)]
    # Whole texts, so that no fence is cut: the first and the last ones say most.
    while sum(len(text) for _, _, text in texts) > SESSION_CHARS:
        texts.pop(len(texts) // 2)
    parts = [wrap_untrusted(tag, text, attributes={"on": day}) for tag, day, text in texts]
    if earlier is not None:
        parts.insert(0, wrap_untrusted("earlier-summary", earlier))
    form = await asker.ask(SummaryForm, PURPOSE, system=_SYSTEM, content="\n\n".join(parts))
    shown = [text for turn in turns for _, text in _texts(turn)] + ([] if earlier is None else [earlier])
    grounds = Grounds(shown, instructions=_SYSTEM, said_on=[turn.at.date() for turn in turns])
    if (fault := grounds.fault(form.summary)) is not None:
        about = {"agent_id": asker.agent_id, "run_id": asker.run_id, "purpose": PURPOSE, "reason": fault.value}
        _log.warning(Event.LLM_ANSWER_UNGROUNDED, extra=about)
        raise MalformedAnswerError(f"not kept: {fault.value}")
    # A topic is one word for many.
    topics = tuple(each for each in form.topics if grounds.fault(each, kind=Kind.QUESTION) is None)
    return form.model_copy(update={"topics": topics})


def _texts(turn: Turn) -> list[tuple[str, str]]:
    both = ((TAG_PERSON, turn.user_text), (TAG_AGENT, turn.assistant_text))
    return [(tag, text) for tag, text in both if text and text.strip()]


def is_substantive(said: Sequence[str]) -> bool:
    """Return whether a session, given what the person said in it, has a summary."""
    return len(said) >= SUBSTANTIVE_TURNS or sum(map(len, said)) >= SUBSTANTIVE_CHARS


class _Support(NamedTuple):
    """What earlier sessions say, and whether that could not be read."""

    arcs: tuple[str, ...] = ()
    before: tuple[HeldCandidate, ...] = ()
    has_failed: bool = False


@dataclass
class _Summaries:
    """The summary of one attempt, which is asked for once."""

    arc: Arc | None = None
    is_known: bool = False
    failures: int = 0
    embedding: Embedding = field(kw_only=True)


class EndingService(ConversationService):
    """Ends sessions: by request, or because nothing was said for a while.

    The work item of a session is its inactivity timer: each turn puts it off.
    """

    async def run(self, session_key: str) -> Outcome:
        """End a session that has ended; doing it again asks nobody and writes nothing twice.

        Returns:
            Done: all that was held is promoted or dropped, and the session has its summary, if it is to have one.
            Deferred: it waits: for its time, for turns about which the model has still to be asked, or as a turn does.
            Skipped: nothing to do now; the sweep dispatches it again where it must.
            Dead: it is unknown, or its attempts are used up; what was held stays held.
        """
        if self.model is None:
            return Skipped(reason="no language model is connected to this worker: set MEMTEND_LLM_URL")
        sessions = self.ledger.sessions
        with Attempt(
            sessions, self.company, session_key, retry=RETRY, switch=self.check_switch, renewal=self.renewal
        ) as attempt:
            session = attempt.claim()
            try:
                attempt.outcome = self._not_yet(session, attempt) or await self._ended(session, self.model, attempt)
            except ProviderError as error:
                attempt.outcome = self.postponed(attempt, sessions, session_key, session.attempt, error)
        if isinstance(attempt.outcome, Done):
            self.ledger.answers.forget(self.company, session_key)
        return attempt.outcome

    def _not_yet(self, session: Session, attempt: Attempt[Session]) -> Outcome | None:
        """Let the item wait where the session goes on, or turns of it wait for the model."""
        now, over = self.clock(), session.ended_at
        if over is None:
            over = session.recorded_at + timedelta(minutes=self.config.idle_minutes)
            if now < over:
                return attempt.wait("the session goes on", over)
        if waiting := self.ledger.turns.waiting(self.company, session.session_key):
            delay = min(max(now - max(over, session.recorded_at), FIRST_WAIT), LONGEST_WAIT)
            return attempt.wait(f"{waiting} turns wait for the language model", delay)
        return None

    async def _ended(self, session: Session, model: Model, attempt: Attempt[Session]) -> Outcome:
        asker = self.asker(model, session.agent_id, session.session_key)
        summaries = _Summaries(embedding=Embedding(self.backend, self.clock))
        refused = refused_level(self.ledger, self.company, session.agent_id, level=self.level)
        for _ in range(MAX_ROUNDS):
            attempt.lease.enter()
            try:
                counts = await self._settled(session, asker, summaries, attempt, is_private=refused is not None)
            except StaleOwnerError:
                continue
            if counts is None:
                return Deferred(reason="a turn came while the session ended")
            about = {"agent_id": session.agent_id, "session_key": session.session_key, **counts}
            _log.info(Event.CONVERSATION_SESSION_ENDED, extra=about)
            return Done(facts=counts)
        return self.busy(attempt, session.session_key)

    async def _settled(
        self, session: Session, asker: Asker, summaries: _Summaries, attempt: Attempt[Session], *, is_private: bool
    ) -> dict[str, int] | None:
        """Decide and write; None where the session goes on. Raises StaleOwnerError."""
        key, owner = session.session_key, session.owner
        # Read behind the version: what a person asks for meanwhile moves it on.
        version = self.ledger.conversation.state(self.company, owner).version
        newest = self.ledger.sessions.get(self.company, key) or session
        is_private = is_private or newest.is_private
        turns = self.ledger.turns.of_session(self.company, key)
        said = [turn.user_text for turn in turns if turn.user_text]
        held = self.ledger.sessions.held(self.company, key)
        support = self._support(session) if held and not is_private else _Support()
        promoted = promotion.promote(held, said, arcs=support.arcs, before=support.before, is_private=is_private)
        if not (is_private or summaries.is_known):
            await self._summarise(session, asker, turns, said, summaries)
        facts = [_new_fact(session, each) for each in promoted.semantic]
        rules = [_new_rule(session, each) for each in promoted.procedural]
        new = Candidates(facts, rules)
        found, expected = await reconciled(
            self.ledger, asker, owner, new, summaries.embedding, authorities=self.authorities
        )
        if expected != version:
            raise StaleOwnerError("the memory of this owner was written while its session ended")
        arc = None if is_private else summaries.arc
        written: list[Fact | Arc] = [*found.commit.facts, *filter(None, [arc])]
        vectors = await summaries.embedding.of(session.agent_id, written)
        commit = replace(found.commit, arc=arc, vectors=vectors)
        counts = {
            **found.counts,
            "arcs": int(arc is not None),
            "dropped": len(promoted.dropped),
            "failures": summaries.failures,
            "support_load_failed": int(support.has_failed),
        }
        has_ended = self.ledger.sessions.settle(
            session,
            self.company,
            attempt.token,
            commit,
            _ends(promoted, found.fates, facts, rules),
            {"policy_version": POLICY_VERSION, **counts, **written_by(commit)},
            expected=expected,
            max_rules=self.config.max_rules,
            idle=timedelta(minutes=self.config.idle_minutes),
        )
        return counts if has_ended else None

    def _support(self, session: Session) -> _Support:
        """Return what earlier sessions say; a promotion without it is more careful, and loses nothing else."""
        try:
            found = self.ledger.conversation.arcs(self.company, session.owner, limit=MAX_ARCS)
            arcs = [each.entry for each in found if isinstance(each.entry, Arc)]
            before = self.ledger.sessions.held_before(
                self.company, session.owner, session.session_key, limit=MAX_BEFORE
            )
        except MemoryRetrievalError as error:
            about = {"agent_id": session.agent_id, "session_key": session.session_key, "error": type(error).__name__}
            _log.warning(Event.CONVERSATION_SUPPORT_LOAD_FAILED, extra=about)
            return _Support(has_failed=True)
        others = tuple(arc.summary for arc in arcs if arc.session_id != session.session_id)
        return _Support(arcs=others, before=before)

    async def _summarise(
        self, session: Session, asker: Asker, turns: Sequence[Turn], said: Sequence[str], summaries: _Summaries
    ) -> None:
        earlier = self.ledger.conversation.arc(self.company, session.owner, session.session_id)
        if is_substantive(said) or (earlier is not None and said):
            try:
                form = await summarise(asker, turns, None if earlier is None else earlier.summary)
            except MalformedAnswerError:
                # Asked twice: the rest of the end does not wait for it.
                summaries.failures += 1
            else:
                made_of: list[Origin | None] = [origin for turn in turns for origin in _origins(turn)]
                made_of += [] if earlier is None else [earlier.origin]
                summaries.arc = _new_arc(session, form, at=self.clock(), origin=Origin.of(made_of))
        summaries.is_known = True


def _origins(turn: Turn) -> list[Origin]:
    return [turn.spoken if tag == TAG_PERSON else turn.answered for tag, _ in _texts(turn)]


def _new_arc(session: Session, form: SummaryForm, *, at: datetime, origin: Origin) -> Arc:
    return Arc(
        # A model may say a password that it was told not to.
        summary=without_secrets(form.summary),
        topics=form.topics,
        turns=session.turns,
        started_at=session.begun_at,
        ended_at=session.last_turn_at,
        session_id=session.session_id,
        version=1,
        created_at=at,
        last_referenced_at=at,
        changed_at=at,
        origin=origin,
    )


def _new_fact(session: Session, promoted: promotion.Promoted) -> Fact:
    first = promoted.candidates[0]
    candidate = cast("SemanticCandidate", first.candidate)
    fact_id = ids.kept_id(kind="fact", cause=first.candidate_id, place=0)
    return Fact(fact_id=fact_id, **candidate.model_dump(), **_since(session, promoted))


def _new_rule(session: Session, promoted: promotion.Promoted) -> ProfileRule:
    first = promoted.candidates[0]
    candidate = cast("ProceduralCandidate", first.candidate)
    return ProfileRule(
        rule_id=ids.kept_id(kind="rule", cause=first.candidate_id, place=0),
        rule=candidate.rule,
        quotes=promoted.quotes[:3] or (candidate.evidence_quote,),
        kind=candidate.kind,
        **_since(session, promoted),
    )


def _since(session: Session, promoted: promotion.Promoted) -> dict[str, Any]:
    times = [each.created_at for each in promoted.candidates]
    turn_ids = {each.turn_id for each in promoted.candidates}
    return {
        "turn_id": turn_ids.pop() if len(turn_ids) == 1 else None,
        "session_id": session.session_id,
        "confidence": promoted.confidence,
        "policy_version": promoted.candidates[0].decision.policy_version,
        "reason": promoted.reason,
        "version": 1,
        # What was said last holds, and replaces what was said before.
        "created_at": max(times),
        "last_referenced_at": max(times),
        "changed_at": max(times),
        "origin": Origin.of(each.origin for each in promoted.candidates),
    }


def _ends(
    promoted: promotion.Promotion, fates: Mapping[str, Fate], facts: Sequence[Fact], rules: Sequence[ProfileRule]
) -> dict[str, tuple[CandidateEnd, str]]:
    """Return by id what became of each candidate that was held."""
    found: dict[str, tuple[CandidateEnd, str]] = {key: ("dropped", why) for key, why in promoted.dropped.items()}
    named = [*zip(promoted.semantic, (each.fact_id for each in facts), strict=True)]
    named += zip(promoted.procedural, (each.rule_id for each in rules), strict=True)
    for cluster, key in named:
        end: CandidateEnd = "promoted" if fates[key] == "written" else "known"
        found |= {each.candidate_id: (end, cluster.reason) for each in cluster.candidates}
    return found

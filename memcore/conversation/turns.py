"""Records turns, and draws from each what is kept of it: asks once, decides once, writes it all or nothing."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple

from memcore import ids
from memcore.config.conversation import ConversationConfig
from memcore.conversation import guards
from memcore.conversation.extraction import POLICY_VERSION, Asker, decide, extract
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
from memcore.conversation.turn_prompt import TURNS_BEFORE, Said
from memcore.errors import ProviderError
from memcore.jobs import Done, Outcome, Skipped, TurnPayload
from memcore.ledger.attempt import Attempt
from memcore.ledger.conversation.memory import MAX_PAGE, Commit, StaleOwnerError
from memcore.ledger.conversation.turns import Control, Turn
from memcore.ledger.ledger import Ledger
from memcore.llm.protocol import Model
from memcore.models.conversation import (
    HELD_DECISIONS,
    Candidate,
    Decision,
    Fact,
    HeldCandidate,
    Layer,
    Owner,
    ProceduralCandidate,
    ProfileRule,
    SemanticCandidate,
    WriteDecision,
)
from memcore.models.memory import ConsolidationInterval, MemoryLevel
from memcore.telemetry.events import Event

#: Most known facts among which those are looked for that a model is shown with a turn: the newest ones.
MAX_KNOWN = 500

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class TurnRecorder:
    """Records turns, and does at once what people ask about memory itself; no model is asked."""

    ledger: Ledger
    config: ConversationConfig
    _: KW_ONLY
    level: MemoryLevel
    interval: ConsolidationInterval

    def record(self, payload: TurnPayload) -> Outcome:
        """Record a turn once, however often its message comes.

        Done counts what was ``recorded`` or ``known``, and what the person's words took out of memory.
        """
        refused = refused_level(self.ledger, payload.company, payload.agent_id, level=self.level)
        if refused is not None:
            return Skipped(reason=refused)
        control = guards.memory_control(payload.user_text)
        forgotten: tuple[str, ...] = ()
        if control is Control.FORGET:
            owner = Owner(agent_id=payload.agent_id, subject=payload.subject)
            forgotten = guards.asked_to_forget(payload.user_text, self._facts(payload.company, owner))
        recorded = self.ledger.turns.record(
            payload, idle=timedelta(minutes=self.config.idle_minutes), control=control, forgotten=forgotten
        )
        self.ledger.agents.register(payload.company, [payload.agent_id], interval=self.interval)
        counts = {"recorded": int(recorded.is_new), "known": int(not recorded.is_new)}
        if control is Control.FORGET:
            counts |= {"forgotten": recorded.forgotten, "dropped": recorded.dropped}
        return Done(facts=counts)

    def _facts(self, company: str, owner: Owner) -> Iterator[Fact]:
        after = ""
        while page := self.ledger.conversation.facts(company, owner, after=after):
            yield from page
            after = page[-1].fact_id
            if len(page) < MAX_PAGE:
                return


class _Judged(NamedTuple):
    """What becomes of the candidates of a turn, and its diagnostics."""

    new: Candidates
    held: tuple[HeldCandidate, ...]
    outcome: dict[str, Any]


class ExtractionService(ConversationService):
    """Draws from the turns that wait in the ledger what is kept of them.

    A turn that must wait does so as a work item; its message ends, and the sweep dispatches it in time.
    """

    async def run(self, turn_id: str) -> Outcome:
        """Finish a turn that waits; doing it again asks nobody and writes nothing twice.

        Returns:
            Done: its row has an outcome, and all that came of it is written.
            Deferred: it waits, for a budget, another worker's question, the end of a pause, or a model that does not
                answer or refuses.
            Skipped: nothing to do now; the sweep dispatches it again where it must.
            Dead: it is unknown, or its attempts are used up.
        """
        if self.model is None:
            return Skipped(reason="no language model is connected to this worker: set MEMTEND_LLM_URL")
        turns = self.ledger.turns
        with Attempt(
            turns, self.company, turn_id, retry=RETRY, switch=self.check_switch, renewal=self.renewal
        ) as attempt:
            turn = attempt.claim()
            try:
                attempt.outcome = await self._finished(turn, self.model, attempt)
            except ProviderError as error:
                attempt.outcome = self.postponed(attempt, turns, turn_id, turn.attempt, error)
        if isinstance(attempt.outcome, Done):
            # They quote the person, and nobody will ask again.
            self.ledger.answers.forget(self.company, turn_id)
        return attempt.outcome

    async def _finished(self, turn: Turn, model: Model, attempt: Attempt[Turn]) -> Outcome:
        refused = refused_level(self.ledger, self.company, turn.agent_id, level=self.level)
        if refused is not None:
            self._settle(turn, attempt, {"skipped": "level"})
            return Skipped(reason=refused)
        if (why := self._kept_from(turn)) is not None:
            return self._without_model(turn, attempt, why)
        asker = self.asker(model, turn.agent_id, turn.turn_id)
        judged = await self._judged(asker, turn, attempt)
        embedding = Embedding(self.backend, self.clock)
        for _ in range(MAX_ROUNDS):
            attempt.lease.enter()
            found, expected = await reconciled(
                self.ledger, asker, turn.owner, judged.new, embedding, authorities=self.authorities
            )
            if (why := self._kept_from(turn)) is not None:
                return self._without_model(turn, attempt, why)
            commit = replace(found.commit, vectors=await embedding.of(turn.agent_id, found.commit.facts))
            outcome = {**judged.outcome, **found.counts, **written_by(commit)}
            try:
                self._settle(turn, attempt, outcome, commit=commit, held=judged.held, expected=expected)
            except StaleOwnerError:
                continue
            counts = {**found.counts, "held": len(judged.held)}
            _log.info(
                Event.CONVERSATION_TURN_EXTRACTED, extra={"agent_id": turn.agent_id, "turn_id": turn.turn_id, **counts}
            )
            return Done(facts=counts)
        return self.busy(attempt, turn.turn_id)

    def _kept_from(self, turn: Turn) -> str | None:
        """Return why no model is asked about a turn, or nothing is kept of it."""
        if turn.control is not None:
            return "memory_control"
        if self.ledger.turns.is_private(self.company, turn.session_key, at=turn.at):
            return "private_session"
        return None if turn.user_text and turn.user_text.strip() else "no_text"

    def _without_model(self, turn: Turn, attempt: Attempt[Turn], why: str) -> Outcome:
        self._settle(turn, attempt, {"skipped": why})
        return Done(facts={why: 1})

    def _settle(
        self,
        turn: Turn,
        attempt: Attempt[Turn],
        outcome: Mapping[str, Any],
        *,
        commit: Commit | None = None,
        held: Sequence[HeldCandidate] = (),
        expected: int = 0,
    ) -> None:
        self.ledger.turns.settle(
            turn,
            self.company,
            attempt.token,
            commit or Commit(),
            held,
            {"policy_version": POLICY_VERSION, **outcome},
            expected=expected,
            max_rules=self.config.max_rules,
        )

    async def _judged(self, asker: Asker, turn: Turn, attempt: Attempt[Turn]) -> _Judged:
        """Ask what the turn holds and what becomes of it, and let the guards have the last word."""
        user_text = turn.user_text or ""
        known = self.ledger.conversation.newest(self.company, turn.owner, limit=MAX_KNOWN)
        before = self._before(turn)
        extracted = await extract(asker, _said(turn), before=before, known=known)
        beside = [*(each.person for each in before), *(f"{fact.subject}: {fact.object}" for fact in known)]
        dropped: dict[Layer, Counter[str]] = {layer: Counter() for layer in Layer}
        kept: list[tuple[int, Candidate]] = []
        for place, quoted in enumerate(extracted.candidates):
            candidate = guards.in_own_words(quoted, user_text=user_text)
            guard = guards.before_policy(
                candidate, user_text=user_text, control=turn.control, said_on=turn.at.date(), beside=beside
            )
            if guard is None:
                kept.append((place, candidate))
            else:
                dropped[_layer(candidate)][guard] += 1
        refused, decisions = 0, tuple[Decision | None, ...]()
        if kept:
            attempt.lease.enter()
            decided = await decide(asker, [candidate for _, candidate in kept], user_text)
            refused, decisions = decided.refused, decided.decisions
        facts, rules, held = list[Fact](), list[ProfileRule](), list[HeldCandidate]()
        session_id = self._session_id(turn)
        for (place, candidate), said in zip(kept, decisions, strict=True):
            if said is None:
                dropped[_layer(candidate)]["no_decision"] += 1
                continue
            decision = guards.after_policy(candidate, said, user_text=user_text)
            if decision.decision in HELD_DECISIONS:
                held.append(_held(turn, place, candidate, decision))
            elif decision.decision is WriteDecision.DROP:
                dropped[_layer(candidate)][decision.guard or "policy"] += 1
            elif isinstance(candidate, SemanticCandidate):
                facts.append(_new_fact(turn, place, candidate, decision, session_id=session_id))
            else:
                rules.append(_new_rule(turn, place, candidate, decision, session_id=session_id))
        layers = {
            layer.value: {
                "extracted": sum(_layer(each) is layer for each in extracted.candidates),
                "held": sorted(each.candidate_id for each in held if each.layer is layer),
                "dropped": dict(sorted(dropped[layer].items())),
            }
            for layer in Layer
        }
        outcome = {**layers, "refused": extracted.refused + refused}
        return _Judged(Candidates(facts, rules), tuple(held), outcome)

    def _before(self, turn: Turn) -> list[Said]:
        """Return the turns before one; nothing of what the person asked not to keep or to forget."""
        turns = self.ledger.turns
        found = turns.before(self.company, turn, limit=TURNS_BEFORE)
        return [
            _said(each)
            for each in found
            if each.control is None and not turns.is_private(self.company, each.session_key, at=each.at)
        ]

    def _session_id(self, turn: Turn) -> str:
        session = self.ledger.sessions.get(self.company, turn.session_key)
        # A turn and its session are written in one transaction.
        return turn.session_key if session is None else session.session_id


def _said(turn: Turn) -> Said:
    return Said(person=turn.user_text or "", agent=turn.assistant_text or "", at=turn.at)


def _layer(candidate: Candidate) -> Layer:
    return Layer.SEMANTIC if isinstance(candidate, SemanticCandidate) else Layer.PROCEDURAL


def _held(turn: Turn, place: int, candidate: Candidate, decision: Decision) -> HeldCandidate:
    return HeldCandidate(
        candidate_id=ids.kept_id(kind="candidate", cause=turn.turn_id, place=place),
        layer=_layer(candidate),
        candidate=candidate,
        decision=decision,
        turn_id=turn.turn_id,
        created_at=turn.at,
        origin=turn.spoken,
    )


def _new_fact(turn: Turn, place: int, candidate: SemanticCandidate, decision: Decision, *, session_id: str) -> Fact:
    return Fact(
        fact_id=ids.kept_id(kind="fact", cause=turn.turn_id, place=place),
        **candidate.model_dump(),
        **_since(turn, decision, session_id=session_id),
    )


def _new_rule(
    turn: Turn, place: int, candidate: ProceduralCandidate, decision: Decision, *, session_id: str
) -> ProfileRule:
    return ProfileRule(
        rule_id=ids.kept_id(kind="rule", cause=turn.turn_id, place=place),
        rule=candidate.rule,
        quotes=(candidate.evidence_quote,),
        kind=candidate.kind,
        **_since(turn, decision, session_id=session_id),
    )


def _since(turn: Turn, decision: Decision, *, session_id: str) -> dict[str, Any]:
    """Return what a fact and a rule have alike; the commit knows their version."""
    return {
        "turn_id": turn.turn_id,
        "session_id": session_id,
        "confidence": decision.confidence,
        "policy_version": decision.policy_version,
        "reason": decision.reason,
        "version": 1,
        "created_at": turn.at,
        "last_referenced_at": turn.at,
        "changed_at": turn.at,
        "origin": turn.spoken,
    }

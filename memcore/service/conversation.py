"""What agents keep of people: facts, rules and summaries of sessions; listed, exported, hidden, brought back."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.conversation.memory import UnsureFacts
from memcore.ledger.conversation.turns import Session
from memcore.ledger.ledger import Ledger
from memcore.models.base import Frozen
from memcore.models.conversation import (
    Arc,
    CrisisLogRecord,
    Fact,
    FactState,
    LayerCounts,
    Owner,
    ProfileRule,
    SessionFeedbackRecord,
)
from memcore.service.resources import CompanyPart

#: What a person can bring back.
HIDDEN = (FactState.FORGOTTEN, FactState.ARCHIVED, FactState.SUPERSEDED)

#: What a person can have forgotten.
KNOWN = (FactState.ACTIVE, FactState.ARCHIVED, FactState.SUPERSEDED)

#: What is shown of a session and of a turn: not the lease of the worker that has it.
_OF_SESSION = {"session_id", "session_key", "turns", "is_private", "begun_at", "last_turn_at", "ended_at", "outcome"}
_OF_TURN = {"turn_id", "session_key", "at", "user_text", "assistant_text", "control", "outcome"}


class OwnerStatus(Frozen):
    """How much an agent has of a person.

    Attributes:
        recall: whether the agent is shown it.
        version: changes with every change of what is kept.
    """

    owner: Owner
    counts: LayerCounts
    recall: bool
    version: int


class ConversationOperations(CompanyPart):
    """Reads and changes what is kept of conversations. Every call raises MemoryConnectionError."""

    async def status(self, owner: Owner) -> OwnerStatus:
        """Return how many facts, sessions and rules an agent has of a person, and whether they are shown."""
        conversation = self._ledger.conversation
        is_hidden = await self._is_hidden(owner.agent_id, owner.subject)
        counts = LayerCounts() if is_hidden else await self._ask(conversation.counts, owner)
        state = await self._ask(conversation.state, owner)
        return OwnerStatus(owner=owner, counts=counts, recall=state.recall, version=state.version)

    async def subjects(self, agent_id: str) -> tuple[str, ...]:
        """Return the people that an agent has talked to, by name: users, and sessions without a user."""

        def every() -> tuple[str, ...]:
            found: list[str] = []
            subjects = self._ledger.conversation.subjects
            while page := subjects(self._company, agent_id, after=found[-1] if found else ""):
                found += page
            return tuple(found)

        hidden = await self._resources.hidden()
        return tuple(each for each in await self._resources.run(every) if not hidden.hides(agent_id, each))

    async def facts(self, owner: Owner, *, states: Sequence[FactState] | None = None) -> tuple[Fact, ...]:
        """Return the facts about a person, of these states or all, the newest first."""
        if await self._is_hidden(owner.agent_id, owner.subject):
            return ()
        return await self._trusted(owner, await self._resources.run(_facts, self._ledger, self._company, owner, states))

    async def rules(self, owner: Owner, *, states: Sequence[FactState] | None = None) -> tuple[ProfileRule, ...]:
        """Return how a person asked to be answered, of these states or all, the newest first."""
        if await self._is_hidden(owner.agent_id, owner.subject):
            return ()
        return await self._trusted(owner, await self._resources.run(_rules, self._ledger, self._company, owner, states))

    async def sessions(self, owner: Owner, *, limit: int = 20) -> tuple[tuple[Session, Arc | None], ...]:
        """Return a person's sessions, the newest first, each with the summary of what it was about."""
        if await self._is_hidden(owner.agent_id, owner.subject):
            return ()
        found = await self._ask(self._ledger.sessions.page, owner, limit=limit)
        arcs = await self._trusted(owner, await self._resources.run(_arcs, self._ledger, self._company, owner))
        by_session = {arc.session_id: arc for arc in arcs}
        return tuple((each, by_session.get(each.session_id)) for each in found)

    async def export(self, owner: Owner) -> dict[str, Any]:
        """Return all that is kept of one person: memory in every state, texts of turns, crises, feedback.

        It is a person's right to see all of it: also what no other reader is shown because its source is distrusted.
        Raises MemoryNotFoundError while the person is being erased.
        """
        if await self._is_hidden(owner.agent_id, owner.subject):
            raise MemoryNotFoundError("subject: is being erased; see `memtend erase list`")
        return await self._resources.run(exported, self._ledger, self._company, owner)

    async def set_recall(self, owner: Owner, *, is_on: bool) -> None:
        """Turn on or off that an agent is shown what is kept of a person; nothing is deleted."""
        await self._ask(self._ledger.conversation.set_recall, owner, is_on=is_on)

    async def forget(self, owner: Owner, ids: Iterable[str], *, by: str | None = None) -> int:
        """Hide facts, rules and summaries from every agent, and return how many. Raises MemoryNotFoundError.

        With a name, the audit has each of them.
        """
        named = list(ids)
        changed = await self._changed(owner, named, to=FactState.FORGOTTEN, sources=KNOWN)
        for each in named if by is not None else ():
            await self._resources.note(by, "conversation.forget", each)
        return changed

    async def restore(self, owner: Owner, ids: Iterable[str], *, by: str | None = None) -> int:
        """Bring back what was forgotten, replaced or archived, and return how much. Raises MemoryNotFoundError.

        With a name, the audit has each of them.
        """
        named = list(ids)
        changed = await self._changed(owner, named, to=FactState.ACTIVE, sources=HIDDEN)
        for each in named if by is not None else ():
            await self._resources.note(by, "conversation.restore", each)
        return changed

    async def conflicts(self, agent_id: str, *, subject: str | None = None, limit: int = 20) -> tuple[UnsureFacts, ...]:
        """Return pairs of facts of which a model is not sure whether the later one replaced the earlier one.

        ``supersede`` and ``both_hold`` decide.
        """
        hidden = await self._resources.hidden()
        found = await self._ask(self._ledger.conversation.unsure, agent_id, subject=subject)
        return tuple(
            each
            for each in found
            if not hidden.hides(agent_id, each.owner.subject)
            and not any(hidden.distrusts_origin(agent_id, fact.origin) for fact in (each.older, each.newer))
            and all(self._is_shown(fact.origin) for fact in (each.older, each.newer))
        )[:limit]

    async def supersede(
        self, owner: Owner, old_id: str, new_id: str, *, by: str | None = None, reason: str | None = None
    ) -> None:
        """Let one fact replace another, which is shown no more; ``restore`` takes it back. Raises MemoryInputError."""
        await self._require(owner, old_id, new_id)
        await self._ask(self._ledger.conversation.supersede, owner, old_id, new_id)
        why = f"by {new_id}" if reason is None else f"by {new_id}: {reason}"
        await self._resources.note(by, "conversation.supersede", old_id, reason=why)

    async def both_hold(
        self, owner: Owner, old_id: str, new_id: str, *, by: str | None = None, reason: str | None = None
    ) -> None:
        """Say that two facts both hold; one that the other had superseded holds again. Raises MemoryInputError."""
        await self._require(owner, old_id, new_id)
        await self._ask(self._ledger.conversation.both_hold, owner, old_id, new_id)
        why = f"with {new_id}" if reason is None else f"with {new_id}: {reason}"
        await self._resources.note(by, "conversation.both_hold", old_id, reason=why)

    async def _require(self, owner: Owner, old_id: str, new_id: str) -> None:
        """Raise MemoryInputError unless both are facts of a person, and hold; or the one has replaced the other."""
        is_hidden = await self._is_hidden(owner.agent_id, owner.subject)
        for field, fact_id in (("old_id", old_id), ("new_id", new_id)):
            fact = await self._ask(self._ledger.conversation.fact, owner, fact_id)
            holds = fact is not None and (fact.state is FactState.ACTIVE or fact.is_superseded_by(new_id))
            if is_hidden or not holds or old_id == new_id:
                raise MemoryInputError(field, "is no fact of this person that holds; see `memtend conversation facts`")

    async def crises(
        self, agent_id: str, *, subject: str | None = None, limit: int = 20
    ) -> tuple[CrisisLogRecord, ...]:
        """Return the crises that an agent's engine detected, the newest first; no prompt ever has them."""
        page, hidden = self._ledger.crises.page, await self._resources.hidden()
        found = await self._ask(page, agent_id, subject=subject, limit=limit)
        return tuple(each for each in found if not hidden.hides(agent_id, each.subject))

    async def feedback(
        self, agent_id: str, *, subject: str | None = None, limit: int = 20
    ) -> tuple[SessionFeedbackRecord, ...]:
        """Return what people thought of an agent's sessions, the newest first; no prompt ever has it."""
        page, hidden = self._ledger.feedback.page, await self._resources.hidden()
        found = await self._ask(page, agent_id, subject=subject, limit=limit)
        return tuple(each for each in found if not hidden.hides(agent_id, each.subject))

    async def explained(self, key: str) -> tuple[tuple[Owner, Fact | ProfileRule | Arc], ...]:
        """Return what has this id, a fact, a rule or a session, of whomever it is; none where nothing has it."""
        hidden = await self._resources.hidden()
        found = await self._ask(self._ledger.conversation.find, key)
        return tuple(
            (owner, kept)
            for owner, kept in found
            if not hidden.hides(owner.agent_id, owner.subject)
            and not hidden.distrusts_origin(owner.agent_id, kept.origin)
            and self._is_shown(kept.origin)
        )

    async def _trusted(self, owner: Owner, kept: "list[_Kept]") -> "tuple[_Kept, ...]":
        """Leave out what came of a distrusted source, and what has less authority than this reader is shown."""
        hidden = await self._resources.hidden()
        return tuple(
            each
            for each in kept
            if not hidden.distrusts_origin(owner.agent_id, each.origin) and self._is_shown(each.origin)
        )

    async def _is_hidden(self, agent_id: str, subject: str) -> bool:
        """Return whether a person, or the agent as a whole, is being erased."""
        return (await self._resources.hidden()).hides(agent_id, subject)

    async def _changed(self, owner: Owner, ids: Iterable[str], *, to: FactState, sources: tuple[FactState, ...]) -> int:
        change = self._ledger.conversation.change_state
        changed = await self._ask(change, owner, list(ids), to=to, sources=sources)
        if not changed:
            raise MemoryNotFoundError(
                "ids: name nothing of this person that this would change; see `memtend conversation facts`"
            )
        return changed


def exported(ledger: Ledger, company: str, owner: Owner) -> dict[str, Any]:
    """Return all that is kept of one person."""
    conversation, agent_id, subject = ledger.conversation, owner.agent_id, owner.subject
    its_sessions = _all_before(lambda last: ledger.sessions.page(company, owner, before=last))
    turns = [turn for each in its_sessions for turn in ledger.turns.of_session(company, each.session_key)]
    held = [candidate for each in its_sessions for candidate in ledger.sessions.held(company, each.session_key)]
    state = conversation.state(company, owner)
    return {
        **owner.model_dump(),
        "recall": state.recall,
        "version": state.version,
        "facts": _facts(ledger, company, owner, None),
        "rules": _rules(ledger, company, owner, None),
        "arcs": _arcs(ledger, company, owner),
        "sessions": list(map(session_facts, its_sessions)),
        "held": held,
        "turns": [turn.model_dump(mode="json", include=_OF_TURN) for turn in turns if turn.user_text is not None],
        "crises": _all_before(lambda last: ledger.crises.page(company, agent_id, subject=subject, before=last)),
        "feedback": _all_before(lambda last: ledger.feedback.page(company, agent_id, subject=subject, before=last)),
    }


def session_facts(session: Session) -> dict[str, Any]:
    """Return what is shown of a session."""
    return session.model_dump(include=_OF_SESSION)


def _facts(ledger: Ledger, company: str, owner: Owner, states: Sequence[FactState] | None) -> list[Fact]:
    wanted, page = states or list(FactState), ledger.conversation.facts
    found = _all_after(lambda last: page(company, owner, states=wanted, after=last), lambda fact: fact.fact_id)
    return _newest(found)


def _rules(ledger: Ledger, company: str, owner: Owner, states: Sequence[FactState] | None) -> list[ProfileRule]:
    wanted, page = states or list(FactState), ledger.conversation.rules
    found = _all_after(lambda last: page(company, owner, states=wanted, after=last), lambda rule: rule.rule_id)
    return _newest(found)


def _arcs(ledger: Ledger, company: str, owner: Owner) -> list[Arc]:
    page = ledger.conversation.listed_arcs
    found = _all_after(
        lambda last: page(company, owner, states=list(FactState), after=last), lambda arc: arc.session_id
    )
    return _newest(found)


_Kept = TypeVar("_Kept", Fact, ProfileRule, Arc)
_Record = TypeVar("_Record")


def _newest(kept: list[_Kept]) -> list[_Kept]:
    return sorted(kept, key=lambda each: each.created_at, reverse=True)


def _all_after(page: Callable[[str], tuple[_Kept, ...]], id_of: Callable[[_Kept], str]) -> list[_Kept]:
    """Return all pages of a listing by id."""
    found: list[_Kept] = []
    while more := page(id_of(found[-1]) if found else ""):
        found += more
    return found


def _all_before(page: Callable[[_Record | None], tuple[_Record, ...]]) -> list[_Record]:
    """Return all pages of a listing by time."""
    found: list[_Record] = []
    while more := page(found[-1] if found else None):
        found += more
    return found

"""What conversations left of people, beside the memories: mem0's clients find, list and delete both."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memcore.errors import MemoryCapabilityError, MemoryNotFoundError
from memcore.models.conversation import SESSION, USER, Fact, FactState, Owner, ProfileRule, resolve_owner_id
from ops.http.mem0.translation import history_of_fact, record_of_fact

if TYPE_CHECKING:
    from memcore.memory.async_memory import AsyncMemory
    from memcore.service.conversation import ConversationOperations
    from ops.http.mem0.models import Said

#: Seconds that ``add`` waits for a language model; what comes of the messages later is found later.
WAIT_SECONDS = 30.0

#: The state of what is found.
_ACTIVE = (FactState.ACTIVE,)

#: People of one agent whose facts are listed where a call names nobody.
MAX_PEOPLE = 256

#: A fact's score is its place among the facts: 1, 0.9, 0.81, and so on.
_NEXT = 0.9


@dataclass(frozen=True, slots=True)
class Kept:
    """A fact or a rule, whose it is, and how mem0 shows it."""

    owner: Owner
    kept: Fact | ProfileRule
    record: dict[str, Any]

    @classmethod
    def of(cls, owner: Owner, kept: Fact | ProfileRule) -> "Kept":
        """Return a fact or a rule of an owner."""
        return cls(owner, kept, record_of_fact(owner, kept))


@dataclass(frozen=True, kw_only=True)
class People:
    """Facts and rules of the people that a company's agents talk to.

    Attributes:
        engine: sends messages to the model, and finds facts by what is said.
        conversation: lists facts, and forgets them.
        can_infer: whether a language model has an address and a name; it draws facts from what people say.
    """

    engine: "AsyncMemory"
    conversation: "ConversationOperations"
    can_infer: bool

    async def add(
        self, agent_id: str, messages: Sequence["Said"], *, user_id: str | None, session_id: str | None
    ) -> dict[str, Any]:
        """Draw facts from messages, and return what became of each; or that the messages wait for a model."""
        said = [{"role": each.role, "content": each.text} for each in messages if each.text]
        try:
            answer = await self.engine.add(
                said, agent_id=agent_id, user_id=user_id, session_id=session_id, timeout_seconds=WAIT_SECONDS
            )
        except TimeoutError:
            message = "the messages are kept and wait for the language model"
            return {"results": [], "message": message, "status": "PENDING"}
        return dict(answer)

    async def found(
        self, agent_id: str, query: str, *, users: Collection[str] | None, runs: Collection[str] | None
    ) -> list[dict[str, Any]]:
        """Return the facts that a question is about, best first; of the people that are named, else none."""
        named: list[tuple[str | None, str | None]] = [(user, None) for user in sorted(users or ())]
        if users is None:
            named = [(None, run) for run in sorted(runs or ())]
        found: list[dict[str, Any]] = []
        for user_id, session_id in named:
            # No token budget is spent: nothing of this is put into a prompt.
            turn = await self.engine.load_turn(
                agent_id, query, user_id=user_id, session_id=session_id, is_first_turn=False
            )
            owner = Owner(agent_id=agent_id, subject=resolve_owner_id(user_id=user_id, session_id=session_id))
            found += [
                {**record_of_fact(owner, fact), "score": round(_NEXT**place, 6)}
                for place, fact in enumerate(turn.facts)
            ]
        return found

    async def listed(self, agent_id: str, *, users: Collection[str] | None, runs: Collection[str] | None) -> list[Kept]:
        """Return the active facts and rules of the people named, or of the agent's first 256, oldest first."""
        if users is not None:
            subjects = [f"{USER}{user}" for user in sorted(users)]
        elif runs is not None:
            subjects = [f"{SESSION}{run}" for run in sorted(runs)]
        else:
            subjects = list(await self.conversation.subjects(agent_id))[:MAX_PEOPLE]
        found: list[Kept] = []
        for owner in (Owner(agent_id=agent_id, subject=subject) for subject in subjects):
            kept: list[Fact | ProfileRule] = [*await self.conversation.facts(owner, states=_ACTIVE)]
            kept += await self.conversation.rules(owner, states=_ACTIVE)
            found += [Kept.of(owner, each) for each in sorted(kept, key=lambda one: one.created_at)]
        return found

    async def get(self, key: str, *, sees: Callable[[str], bool]) -> Kept:
        """Return an active fact or rule of an agent that the caller sees. Raises MemoryNotFoundError."""
        for each in await self._explained(key, sees=sees):
            if each.kept.state is FactState.ACTIVE:
                return each
        raise MemoryNotFoundError("memory_id: names no memory of this key's agents")

    async def history(self, key: str, *, sees: Callable[[str], bool]) -> list[dict[str, Any]]:
        """Return what became of a fact or a rule. Raises MemoryNotFoundError."""
        for each in await self._explained(key, sees=sees):
            successor = each.kept.superseded_by
            after = await self._explained(successor, sees=sees) if successor is not None else []
            return history_of_fact(each.owner, each.kept, after[0].kept if after else None)
        raise MemoryNotFoundError("memory_id: names no memory of this key's agents")

    async def forget(self, kept: Kept, *, by: str) -> None:
        """Hide a fact or a rule, and say in the audit who did; a person can bring it back."""
        await self.conversation.forget(kept.owner, [kept.record["id"]], by=by)

    @property
    def unchangeable(self) -> MemoryCapabilityError:
        """The error for a change of a fact."""
        return MemoryCapabilityError("a fact says what a person said and is not changed: delete it, and add another")

    async def _explained(self, key: str, *, sees: Callable[[str], bool]) -> list[Kept]:
        found = await self.conversation.explained(key)
        return [
            Kept.of(owner, kept)
            for owner, kept in found
            if isinstance(kept, (Fact, ProfileRule)) and sees(owner.agent_id)
        ]

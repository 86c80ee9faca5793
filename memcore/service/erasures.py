"""Erasures: an agent, or a person of its conversations, goes for good; a signed receipt says so."""

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Self

from pydantic import Field

from memcore.erasure.checkpoints import TrainedCheckpoints
from memcore.erasure.probe import ProbeHit, search_files
from memcore.erasure.receipt import ErasureReceipt, older_key, verified
from memcore.errors import MemoryNotFoundError
from memcore.ledger.access.keys import Verb
from memcore.ledger.erasure.erasures import MAX_PAGE, Erasure
from memcore.ledger.organization.audit import Confirmation
from memcore.models.base import Frozen
from memcore.models.conversation import SESSION, USER
from memcore.models.memory import BoundedTime
from memcore.service.operation import operation
from memcore.service.resources import CompanyPart, ServiceResources, check_page


class ErasureView(Frozen):
    """An erasure.

    Attributes:
        state: done once nothing is left; failed needs a person.
        reason: why it waits.
        found: rows, points, files or messages that were found in each place, and removed.
        receipt: the signed receipt; null until it is done.
    """

    erasure_id: str
    agent_id: str
    subject: str | None
    state: str
    reason: str | None
    requested_by: str
    requested_at: BoundedTime
    finished_at: BoundedTime | None
    found: dict[str, int]
    receipt: dict[str, Any] | None

    @classmethod
    def of(cls, erasure: Erasure) -> Self:
        """Return what is shown of an erasure."""
        receipt = None if erasure.receipt is None else json.loads(erasure.receipt)
        return cls(**erasure.model_dump(include=set(cls.model_fields) - {"receipt"}), receipt=receipt)


class ErasureOperations(CompanyPart):
    """Requests and reads a company's erasures. Every call raises MemoryConnectionError."""

    def __init__(self, resources: ServiceResources) -> None:
        super().__init__(resources)
        self._erasures = resources.ledger.erasures
        self._trained = TrainedCheckpoints(resources.ledger, company=resources.company, home=resources.settings.home)

    async def request(
        self,
        agent_id: str,
        confirmation: Confirmation,
        *,
        subject: str | None = None,
        retire_checkpoints: bool = False,
    ) -> Erasure:
        """Erase an agent, or what it knows of a person, by a job; nothing brings it back.

        Until it is done, jobs of an agent that goes as a whole are dropped: stop its engine first. The agent need not
        be known. A person is ``user:NAME`` or ``session:NAME``, as `memtend conversation subjects` shows it; without
        such a beginning it is a user. With ``retire_checkpoints`` all embedders go that were trained on memories.

        Raises MemoryInputError; CheckpointConflictError when one of these embedders is in use, and then nothing is
        queued: a person decides what serves in its place.
        """
        if subject is not None and not subject.startswith((USER, SESSION)):
            subject = f"{USER}{subject}"
        if retire_checkpoints:
            await self._resources.run(self._trained.require_unused)
        erasure = await self._ask(
            self._erasures.request,
            agent_id,
            confirmation=confirmation,
            subject=subject,
            retire_checkpoints=retire_checkpoints,
        )
        item = await self._ask(self._erasures.item, erasure.erasure_id)
        await self._resources.dispatch([item])
        return erasure

    @operation("GET /agents/{agent_id}/erasures/{erasure_id}", Verb.ADMIN, shows=ErasureView)
    async def of_agent(self, agent_id: str, erasure_id: str) -> Erasure:
        """Return an erasure of an agent, with its receipt once it is done. Raises MemoryNotFoundError."""
        found = await self.get(erasure_id)
        if found.agent_id != agent_id:
            # As if there were none: a key learns nothing of other agents.
            raise MemoryNotFoundError(f"erasure_id: {erasure_id!r} names no erasure of this agent")
        return found

    async def get(self, erasure_id: str) -> Erasure:
        """Return an erasure, with its receipt once it is done. Raises MemoryNotFoundError."""
        found = await self._ask(self._erasures.get, erasure_id)
        if found is None:
            raise MemoryNotFoundError(f"erasure_id: {erasure_id!r} names no erasure; see `memtend erase list`")
        return found

    async def verify(self, receipt: str) -> ErasureReceipt:
        """Return a receipt that this installation has signed. Raises MemoryInputError, MemoryConfigError."""
        keys = await self._resources.run(self._resources.ledger.signing_keys.all)
        older = older_key(self._resources.settings.home)
        return verified(receipt, keys if older is None else (*keys, older), ErasureReceipt)

    async def check(self, probes: Sequence[str], *, watch: Callable[[int, int], None] | None = None) -> list[ProbeHit]:
        """Return which files of the data folder hold which of the texts. Raises MemoryInputError, OSError.

        ``watch`` is called after each file, with how many were read, and of how many.
        """
        return await self._resources.run(search_files, self._resources.settings.home, probes, watch)

    @operation("GET /agents/{agent_id}/erasures", Verb.ADMIN, shows=ErasureView, under="erasures")
    async def list(
        self, *, agent_id: str | None = None, limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 20
    ) -> tuple[Erasure, ...]:
        """Return the erasures of the agent and of its conversations' people, newest first. Raises MemoryInputError."""
        check_page(limit, MAX_PAGE)
        return await self._ask(self._erasures.page, agent_id=agent_id, limit=limit)

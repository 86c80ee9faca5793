"""Memories of agents: store, search and prepare them; explain one, and say which replaced which."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack

from memcore.backends.deletion import naming_run
from memcore.backends.protocol import MAX_PAGE, SharedKnowledgeStore, scanned
from memcore.backends.succession import current, reinstate, supersede
from memcore.client.envelopes import Scope
from memcore.client.results import StoreReceipt
from memcore.deadline.limits import reading
from memcore.errors import MemoryCapabilityError, MemoryInputError, MemoryNotFoundError
from memcore.ledger.consolidation_groups import BY_HAND, CHANGES, ConsolidationGroup, GroupState
from memcore.ledger.organization.audit import person
from memcore.maintenance.provenance import MemoryHistory, trace_memory
from memcore.memories import Memories
from memcore.models.memory import MemoryEntry, MemoryQuery, MemoryStoreRequest, require_agent_id, require_path_name
from memcore.models.memory_changes import ForgetReceipt, ListFields, UpdateFields
from memcore.models.origin import Authority, Channel
from memcore.records import MemoryRecord, Where
from memcore.retrieval.conflicts import Conflict, possible_conflicts
from memcore.service.resources import CompanyPart

if TYPE_CHECKING:
    from memcore.backends.factory import WorkerBackend
    from memcore.config.policy import Policy
    from memcore.ledger.organization.shared_log import SharedEntry


Given = ParamSpec("Given")
Result = TypeVar("Result")


def of_kept(
    call: Callable[Concatenate[Any, Given], Awaitable[Result]],
) -> Callable[Concatenate[Any, Given], Coroutine[Any, Any, Result]]:
    """Return a call of Memories as one of MemoryOperations."""

    @wraps(call)
    async def run(self: "MemoryOperations", /, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        return await call(await self.kept(), *args, **kwargs)

    return run


class MemoryOperations(CompanyPart):
    """Reads and changes the memories of a company's agents, in one connected backend.

    Every call raises MemoryConnectionError where the store, or what else it needs, does not answer.
    """

    async def store(
        self, agent_id: str, request: MemoryStoreRequest | Mapping[str, Any], *, scope: Scope | None = None
    ) -> StoreReceipt:
        """Send one memory to the workers, and return once the broker holds it. Raises MemoryInputError."""
        return await self._resources.client.store(agent_id, request, scope=scope or Scope())

    @property
    def deadline_seconds(self) -> float:
        """Seconds that a reading call takes at most."""
        return self._resources.policy.memory.retrieval.deadline_seconds

    @reading
    async def search(self, agent_id: str, query: MemoryQuery) -> tuple[MemoryEntry, ...]:
        """Return the agent's memories that match by meaning and by words, best first. Raises MemoryRetrievalError."""
        backend = await self._resources.backend()
        found = await backend.retrieve(require_agent_id(agent_id), query.under(self._authorities))
        return tuple(each.with_authority(self._authorities) for each in found)

    @reading
    async def search_as(self, agent_id: str, query: MemoryQuery, policy: "Policy") -> tuple[MemoryEntry, ...]:
        """Search as another policy says, which nobody keeps; store and embedder stay as they are.

        What the policy in force never shows this reader stays hidden. Raises MemoryRetrievalError.
        """
        # They load the store's client, which who only reads the ledger does without.
        from memcore.backends.mem0.backend import plans  # noqa: PLC0415  # see above
        from memcore.backends.mem0.collection import searching_by  # noqa: PLC0415  # see above

        authorities, backend = policy.memory.origins.authority, await self._resources.backend()
        # Always hidden is what this reader is not shown even where it asks for what is in quarantine.
        always = query.model_copy(update={"min_authority": Authority.QUARANTINED}).under(self._authorities)
        asked = always.model_copy(update={"min_authority": query.min_authority}).under(authorities)
        with searching_by(plans(policy.memory)):
            found = await backend.retrieve(require_agent_id(agent_id), asked)
        return tuple(each.with_authority(authorities) for each in found)

    @property
    def _authorities(self) -> Mapping[Channel, Authority]:
        return self._resources.policy.memory.origins.authority

    get = of_kept(Memories.get)
    get_by_key = of_kept(Memories.get_by_key)
    list = of_kept(Memories.list)
    namespaces = of_kept(Memories.namespaces)
    count = of_kept(Memories.count)
    history = of_kept(Memories.history)

    async def texts(self, agent_id: str, memory_ids: Sequence[str]) -> dict[str, str]:
        """Return the texts of those of the memories that are in the store, by id; without those not shown here."""
        found = await (await self._resources.backend()).get_many(agent_id, memory_ids)
        return {each.entry.id: each.entry.content for each in found if each.entry.is_shown(self._authorities)}

    async def count_matching(self, agent_id: str, **filters: Unpack[ListFields]) -> int:
        """Return how many memories of the agent meet all filters. Raises MemoryInputError."""
        count, cursor = 0, None
        while True:
            page = await self.list(agent_id, limit=MAX_PAGE, cursor=cursor, **filters)
            count, cursor = count + len(page.entries), page.cursor
            if cursor is None:
                return count

    async def put(
        self, agent_id: str, request: MemoryStoreRequest, *, by: str | None = None, reason: str | None = None
    ) -> MemoryEntry:
        """Write one memory in this process, and return it. With a name or a reason the audit has it.

        Raises MemoryInputError, MemoryStoreError.
        """
        entry = await (await self.kept()).put(agent_id, request)
        await self._resources.note_given(by, "memory.put", entry.id, reason=reason)
        return entry

    async def update(
        self,
        agent_id: str,
        memory_id: str,
        *,
        by: str | None = None,
        reason: str | None = None,
        expected: str | None = None,
        **fields: Unpack[UpdateFields],
    ) -> MemoryEntry:
        """Change a memory, and return its new version; the one before is journaled. With a name the audit has it.

        Raises MemoryInputError, MemoryNotFoundError; MemoryConflictError unless the expected version, or without one
        the one that is named, is there.
        """
        entry = await (await self.kept()).update(agent_id, memory_id, expected=expected, **fields)
        if by is not None:
            await self._resources.note(by, "memory.update", entry.id, reason=reason)
        return entry

    async def forget(
        self,
        agent_id: str,
        memory_ids: str | Collection[str] | None = None,
        *,
        everything: bool = False,
        expected: str | None = None,
        by: str | None = None,
        reason: str | None = None,
        **filters: Unpack[ListFields],
    ) -> ForgetReceipt:
        """Forget memories by their ids, or all that meet the filters, in one run that can be undone.

        With a name or a reason, the audit has it. Raises MemoryInputError; MemoryConflictError while a run of the agent
        is removing one of them, or where another version than the expected one is there.
        """
        kept = await self.kept()
        receipt = await kept.forget(agent_id, memory_ids, everything=everything, expected=expected, **filters)
        if receipt.run_id is not None and (by is not None or reason is not None):
            with naming_run(receipt.run_id, receipt.forgotten):
                await self._resources.note(by, "memory.forget", receipt.run_id, reason=reason)
        return receipt

    async def kept(self) -> Memories:
        """Return what reads, changes and forgets single memories, over the connected backend."""
        resources = self._resources
        return Memories(
            await resources.backend(),
            self._ledger,
            company=self._company,
            policy=resources.policy,
            clock=resources.clock,
        )

    async def conflicts(self, agent_id: str, *, limit: int = 20) -> tuple[Conflict, ...]:
        """Return pairs of memories that may contradict one another; ``supersede`` and ``both_hold`` decide.

        First those of which a model is not sure, then those that only rules found, then what a model superseded.
        """
        require_agent_id(agent_id)
        backend = await self._resources.backend()
        where = Where(agent_id=agent_id, lessons=False)
        there = [record.entry async for page in scanned(backend, where) for record in page]
        entries = [each for each in there if each.is_shown(self._authorities)]
        shown = await current(backend, agent_id, entries, now=self._resources.clock())
        judged = await self._ask(self._ledger.consolidation_groups.pairs, agent_id)
        pairs = {pair.source_ids: pair for pair in judged}
        decided = {ids for ids, pair in pairs.items() if pair.state is not GroupState.UNDONE}
        found = await asyncio.to_thread(_undecided, shown, decided, limit)
        by_id = {entry.id: entry for entry in shown}
        unsure, superseded = list[Conflict](), list[Conflict]()
        for (old_id, new_id), pair in reversed(pairs.items()):
            old, new = by_id.get(old_id), by_id.get(new_id)
            if old is None or new is None:
                continue
            if pair.state is GroupState.PROPOSED and old.superseded_by is None:
                unsure.append(Conflict(older=old, newer=new, verdict="unsure", run_id=pair.run_id))
            if pair.state is GroupState.ADOPTED and old.superseded_by == new_id and pair.is_found:
                superseded.append(Conflict(older=old, newer=new, verdict="superseded", run_id=pair.decided_by))
        return (*unsure, *found, *superseded)[:limit]

    async def supersede(
        self, agent_id: str, old_id: str, new_id: str, *, by: str | None = None, reason: str | None = None
    ) -> None:
        """Let one memory replace another, which stays, ranks behind it, and says so. Raises MemoryInputError."""
        backend, known = await self._both(agent_id, old_id, new_id)
        await supersede(backend, known[old_id], known[new_id])
        await self._decide(known[old_id], new_id, GroupState.ADOPTED, by)
        # After it: a call that died before may be made again, and changes nothing twice.
        why = f"by {new_id}" if reason is None else f"by {new_id}: {reason}"
        await self._resources.note(by, "memory.supersede", old_id, reason=why)

    async def reinstate(
        self, agent_id: str, memory_id: str, *, by: str | None = None, reason: str | None = None
    ) -> str:
        """Take back that a memory was superseded; return the id of what had replaced it. Raises MemoryInputError."""
        backend = await self._resources.backend()
        for record in await backend.get_many(agent_id, [memory_id]):
            if await reinstate(backend, record):
                successor = str(record.entry.superseded_by)
                await self._decide(record, successor, GroupState.DISMISSED, by)
                why = f"from {successor}" if reason is None else f"from {successor}: {reason}"
                await self._resources.note(by, "memory.reinstate", memory_id, reason=why)
                return successor
        raise MemoryInputError("memory_id", "is no memory of this agent that was superseded")

    async def both_hold(
        self, agent_id: str, old_id: str, new_id: str, *, by: str | None = None, reason: str | None = None
    ) -> None:
        """Say that two memories both hold: they are no conflict, and no model decides otherwise.

        One that the other had superseded is reinstated. Raises MemoryInputError.
        """
        backend, known = await self._both(agent_id, old_id, new_id)
        if known[old_id].entry.superseded_by == new_id:
            await reinstate(backend, known[old_id])
        await self._decide(known[old_id], new_id, GroupState.DISMISSED, by)
        why = f"with {new_id}" if reason is None else f"with {new_id}: {reason}"
        await self._resources.note(by, "memory.both_hold", old_id, reason=why)

    async def _both(self, agent_id: str, old_id: str, new_id: str) -> "tuple[WorkerBackend, dict[str, MemoryRecord]]":
        backend = await self._resources.backend()
        known = {each.entry.id: each for each in await backend.get_many(agent_id, [old_id, new_id])}
        for field, memory_id in (("old_id", old_id), ("new_id", new_id)):
            if memory_id not in known:
                raise MemoryInputError(field, "is no memory of this agent")
        return backend, known

    async def _decide(self, old: MemoryRecord, new_id: str, state: GroupState, by: str | None) -> None:
        """Keep what a person decided about a pair."""
        groups, entry = self._ledger.consolidation_groups, old.entry
        pair = ConsolidationGroup(
            company=self._company,
            run_id=BY_HAND,
            agent_id=entry.agent_id,
            category=entry.category,
            strategy=CHANGES,
            state=state,
            source_ids=(entry.id, new_id),
        )
        await self._resources.run(groups.decide_pair, pair, state, by=person(by))

    async def why(self, memory_id: str, *, agent_id: str | None = None, with_text: bool = False) -> MemoryHistory:
        """Return why a memory exists or is gone: what runs did to it, its originals and summaries, at any depth.

        Without an agent the journal names it. Raises MemoryNotFoundError.
        """
        return await trace_memory(
            memory_id,
            backend=await self._resources.backend(),
            ledger=self._ledger,
            company=self._company,
            journal_days=self._resources.policy.memory.consolidation.journal_days,
            agent_id=agent_id,
            with_text=with_text,
            authorities=self._authorities,
        )

    async def publish(self, agent_id: str, request: MemoryStoreRequest) -> str:
        """Publish a text for all agents, and return its id; searches find it at once. Raises MemoryCapabilityError."""
        run, erasures = self._resources.run, self._ledger.erasures
        require_path_name(agent_id)
        shared, watched = await self._shared(), await run(erasures.watch, self._company, [agent_id])
        try:
            return await shared.publish(agent_id, request)
        finally:
            await run(erasures.end_write, watched)

    async def search_shared(
        self, query: MemoryQuery, *, exclude_agent: str | None = None, version: int | None = None
    ) -> tuple[MemoryEntry, ...]:
        """Return what agents published, by meaning and by words, as it is or was at a version of the log.

        Raises MemoryCapabilityError.
        """
        shared = await self._shared()
        asked = query.under(self._authorities)
        return await shared.search_shared(asked, exclude_agent=exclude_agent, version=version)

    async def retract(self, agent_id: str, memory_id: str) -> None:
        """Retract what an agent published; the log and searches of older versions keep it.

        Raises MemoryNotFoundError, MemoryCapabilityError.
        """
        if not await (await self._shared()).retract(agent_id, memory_id):
            raise MemoryNotFoundError(f"{agent_id} has published nothing under {memory_id}, or retracted it before")

    async def shared_log(self, *, after: int = 0, limit: int = 100) -> "tuple[SharedEntry, ...]":
        """Return every publication and every retraction behind a version, in order."""
        return await self._ask(self._ledger.shared_log.lines, after=after, limit=limit)

    async def _shared(self) -> SharedKnowledgeStore:
        backend = await self._resources.backend()
        if not isinstance(backend, SharedKnowledgeStore):
            raise MemoryCapabilityError(f"the backend {backend.backend_name} shares nothing")
        return backend


def _undecided(
    memories: Sequence[MemoryEntry], decided: Collection[tuple[str, ...]], limit: int
) -> tuple[Conflict, ...]:
    """Return the latest pairs of which nobody decided; with the last of them the search for more ends."""
    found = (each for each in possible_conflicts(memories) if (each.older.id, each.newer.id) not in decided)
    return tuple(islice(found, max(limit, 0)))

"""Insert-only writes of store jobs; ids with a tombstone are skipped.

One memory's way: its envelope comes from the queue; its agent's level says whether it is kept, and which id it needs;
ids that a run has removed since it was sent are a late redelivery and are skipped; the rest are written insert-only;
then its agent is known to the scheduler.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from typing import Protocol, Self

from memcore.backends.deletion import Deletion
from memcore.backends.protocol import BatchBackend, scanned
from memcore.backends.succession import inherit, mark_superseded
from memcore.company import CompanyContext
from memcore.config.policy import Policy
from memcore.errors import MemoryConflictError
from memcore.jobs import StoreItem
from memcore.ledger.erasure.erasures import WatchedWrite
from memcore.ledger.erasure.hidden import Hidden
from memcore.ledger.erasure.shared_rows import is_of
from memcore.ledger.ledger import Ledger
from memcore.models.memory import CANARY_OWNER, ConsolidationInterval, MemoryLevel, missing_id
from memcore.models.origin import AUTHORITIES, OWN, Authority, Channel, authority, came_through, may_replace
from memcore.records import SEQUENCE_KEY, Lineage, MemoryRecord, Where
from memcore.retrieval.filters import StoreGuard

#: Looks at the versions under a key before a writer gives up; its job is tried again.
_CHECKS = 5


class Tombstones(Protocol):
    """Returns the ids that have a tombstone; the ledger's journal implements it."""

    def tombstoned(self, sent: Mapping[str, datetime]) -> frozenset[str]:
        """Return those of the ids that were removed at or after they were sent."""
        ...


async def insert_unless_tombstoned(
    backend: BatchBackend, tombstones: Tombstones, records: Sequence[MemoryRecord], *, sent: Mapping[str, datetime]
) -> frozenset[str]:
    """Insert the records that are not stored yet, and return the ids that a tombstone excludes.

    The same memory comes with the same ``created_at`` each time; a removal before it was ``sent`` does not count.
    Raises MemoryStoreError, MemoryConnectionError, MemoryEmbeddingError when nothing is known to be written; writing
    the same records again is harmless.
    """
    before = tombstones.tombstoned({each.entry.id: sent[each.entry.id] for each in records})
    fresh = {each.entry.id: each.entry for each in records if each.entry.id not in before}
    await backend.store_many([each for each in records if each.entry.id in fresh])
    # A run may have removed one of these ids between the check and the write, which then brought it back.
    since = tombstones.tombstoned({memory_id: sent[memory_id] for memory_id in fresh})
    for agent_id in {fresh[memory_id].agent_id for memory_id in since}:
        found = await backend.get_many(agent_id, [each for each in since if fresh[each].agent_id == agent_id])
        # One that was stored anew meanwhile has the same id, and stays.
        returned = [each.entry.id for each in found if each.entry.created_at == fresh[each.entry.id].created_at]
        await backend.delete_many(agent_id, returned)
    return before | since


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What became of a batch: ids that are in the store now, and those that stay removed, as after a late redelivery.

    Skipped are those of agents whose level is none; ``refused`` names the id that an agent's level asks for.
    ``suspect`` are those of the stored ones that others wrote and that have a sign of :mod:`memcore.models.suspicion`.
    ``unknown_supersedes`` says of a memory how many of those that it supersedes are not in the store, or are none that
    it may supersede.
    """

    stored: frozenset[str] = frozenset()
    suspect: frozenset[str] = frozenset()
    tombstoned: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    unknown_supersedes: Mapping[str, int] = field(default_factory=dict)

    def of(self, items: Iterable[StoreItem]) -> "WriteResult":
        """Return what became of these items alone."""
        ids = frozenset(item.id for item in items)
        return WriteResult(
            stored=self.stored & ids,
            suspect=self.suspect & ids,
            tombstoned=self.tombstoned & ids,
            skipped=self.skipped & ids,
            refused={key: missing for key, missing in self.refused.items() if key in ids},
            unknown_supersedes={key: count for key, count in self.unknown_supersedes.items() if key in ids},
        )


@dataclass(frozen=True, eq=False)
class Ingestor:
    """Write batches of memories for any agents of one company.

    ``interval`` and ``level`` are those of an agent that nobody has set up. The guard looks at what is stored, and
    holds nothing up. ``authorities`` are those of the channels.
    """

    backend: BatchBackend
    ledger: Ledger
    _: KW_ONLY
    company: str
    interval: ConsolidationInterval
    level: MemoryLevel
    guard: StoreGuard | None = None
    authorities: Mapping[Channel, Authority] = AUTHORITIES

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        return cls.by_policy(context.backend, context.ledger, company=context.company, policy=context.policy)

    @classmethod
    def by_policy(cls, backend: BatchBackend, ledger: Ledger, *, company: str, policy: Policy) -> Self:
        """Return what writes as a company's policy says."""
        memory = policy.memory
        return cls(
            backend,
            ledger,
            company=company,
            interval=memory.consolidation.interval,
            level=memory.level,
            guard=StoreGuard() if memory.retrieval.non_inferable_only else None,
            authorities=memory.origins.authority,
        )

    async def write(self, items: Sequence[StoreItem]) -> WriteResult:
        """Write the items; when this returns, they are durable and can be found. Raises as the insertion does."""
        watched = self.ledger.erasures.watch(self.company, {item.agent_id for item in items})
        skipped, refused = self._unwanted(items, watched)
        await self._ask_again([item for item in items if watched.is_outlived(item.agent_id, item.sent_at)], watched)
        wanted = [item for item in items if item.id not in skipped and item.id not in refused]
        if not wanted:
            return WriteResult(skipped=skipped, refused=refused)
        try:
            return await self._written(wanted, skipped, refused)
        finally:
            # Also behind an error: a part may be written.
            self.ledger.erasures.end_write(
                watched, lambda erasure: any(is_of(item.model_dump(), erasure) for item in wanted)
            )

    async def _written(
        self, items: Sequence[StoreItem], skipped: frozenset[str], refused: Mapping[str, str]
    ) -> WriteResult:
        names_others = any(item.request.supersedes or item.request.key is not None for item in items)
        hidden = self.ledger.hidden.of(self.company) if names_others else Hidden()
        wanted = [await self._beside(item, hidden) for item in items]
        if self.guard is not None:
            for item in wanted:
                self.guard.check_now(item.agent_id, item.request.metadata.tags)
        sent = {item.id: item.sent_at for item in wanted}
        records = await self._numbered([_record(item) for item in wanted])
        before = self._pointed([item for item in wanted if item.request.key is not None])
        tombstoned = await insert_unless_tombstoned(self.backend, self.ledger.journal, records, sent=sent)
        for item in wanted:
            if item.id in before:
                await self._leave_one_version(item, before[item.id])
        unknown = await self._supersede(
            [each for each in records if each.supersedes and each.entry.id not in tombstoned]
        )
        for asked, item in zip(items, wanted, strict=True):
            if left_out := len(asked.request.supersedes) - len(item.request.supersedes):
                unknown[item.id] = unknown.get(item.id, 0) + left_out
        # Read for each batch: an agent that was removed is registered anew with its next memory.
        agent_ids = sorted({item.agent_id for item in wanted} - {CANARY_OWNER})
        if agent_ids:
            self.ledger.agents.register(self.company, agent_ids, interval=self.interval)
        stored = frozenset(sent) - tombstoned
        return WriteResult(
            stored=stored,
            suspect=stored & {each.entry.id for each in records if came_through(each.entry.origin, {Channel.SUSPECT})},
            tombstoned=tombstoned,
            skipped=skipped,
            refused=refused,
            unknown_supersedes=unknown,
        )

    async def _beside(self, item: StoreItem, hidden: Hidden) -> StoreItem:
        """Return a memory as it may be written: what has more authority than it stays, and it stands beside that.

        Somebody else's words name no memory of more authority as superseded, also none that is on its way still, and
        take no key from one; what is distrusted neither supersedes nor takes a key.
        """
        is_distrusted = bool(hidden.distrusts) and hidden.distrusts_memory(_record(item).entry)
        if authority(item.origin or OWN, self.authorities).reaches(Authority.INFORM) and not is_distrusted:
            return item
        request, agent_id = item.request, item.agent_id
        newest = None
        if request.key is not None:
            newest = self.ledger.keys.of(self.company, agent_id, namespace=request.namespace, key=request.key)
        named = dict.fromkeys((*request.supersedes, *(() if newest is None else (newest,))))
        free = {
            each.entry.id: not is_distrusted
            and may_replace(
                item.origin, each.entry.origin, self.authorities, raised=hidden.with_raised(each.entry).raised
            )
            for each in (await self.backend.get_many(agent_id, [*named]) if named else ())
        }
        changed = {
            "supersedes": tuple(each for each in request.supersedes if free.get(each, False)),
            "key": request.key if newest is None or free.get(newest, True) else None,
        }
        return item.model_copy(update={"request": request.model_copy(update=changed)})

    async def _ask_again(self, redelivered: Sequence[StoreItem], watched: WatchedWrite) -> None:
        """Let an erasure look once more for a worker that died behind its write, and so could not do it itself."""
        for agent_id in sorted({item.agent_id for item in redelivered}):
            made = {item.id: item.created_at for item in redelivered if item.agent_id == agent_id}
            found = await self.backend.get_many(agent_id, sorted(made))
            # What was stored anew since has the same id, and stays.
            if any(each.entry.created_at == made[each.entry.id] for each in found):
                self.ledger.erasures.ask_again(self.company, watched.whole(agent_id))

    def _unwanted(self, items: Sequence[StoreItem], watched: WatchedWrite) -> tuple[frozenset[str], dict[str, str]]:
        # Read for each batch: a changed level takes effect at once, in every worker.
        own = self.ledger.agents.levels(self.company, {item.agent_id for item in items})
        barred = watched.barred
        skipped: set[str] = set()
        refused: dict[str, str] = {}
        for item in items:
            if item.agent_id in barred or watched.is_outlived(item.agent_id, item.sent_at):
                # It is being erased, or was: what was sent before must not come back, and what is sent now waits for
                # the end of it.
                skipped.add(item.id)
                continue
            if item.agent_id == CANARY_OWNER:
                continue
            level = own.get(item.agent_id, self.level)
            if level is MemoryLevel.NONE:
                skipped.add(item.id)
                continue
            missing = missing_id(
                level, category=item.request.category, session_id=item.session_id, project_id=item.project_id
            )
            if missing is not None:
                refused[item.id] = missing
        return frozenset(skipped), refused

    def _pointed(self, keyed: Sequence[StoreItem]) -> dict[str, str | None]:
        """Let the keys lead to these versions, and return where each led before, by the id of the version."""
        return {
            item.id: self.ledger.keys.point(
                self.company,
                item.agent_id,
                namespace=item.request.namespace,
                key=item.request.key or "",
                memory_id=item.id,
                sent_at=item.sent_at,
            )
            for item in sorted(keyed, key=lambda item: item.sent_at)
        }

    async def _leave_one_version(self, item: StoreItem, before: str | None) -> None:
        """Journal and remove what is in the store under the item's key beside the newest version.

        Each writer does so behind its own write. So the last writer finds all, and a version that comes late, or
        whose newer one came first, goes as well. Raises MemoryConflictError where other writers are always in between.
        """
        key, namespace = item.request.key or "", item.request.namespace
        changes = Deletion.over(self.ledger, company=self.company)
        for _ in range(_CHECKS):
            newest = self.ledger.keys.of(self.company, item.agent_id, namespace=namespace, key=key)
            if newest is None or (before is None and newest == item.id):
                return
            wanted = [each for each in (newest, before, item.id) if each is not None]
            there = {each.entry.id for each in await self.backend.get_many(item.agent_id, wanted)}
            if before == item.id or (before is not None and before not in there):
                # A redelivery; or it was removed, an undo brought back the one before, or its writer is not as far yet.
                where = Where(agent_id=item.agent_id, namespaces=frozenset({namespace}), keys=frozenset({key}))
                there |= {each.entry.id async for page in scanned(self.backend, where) for each in page}
            if newest not in there:
                # Its writer is on its way, and does not know of this one; or it was forgotten.
                await changes.delete_many(self.backend, item.agent_id, [item.id])
                return
            if there == {newest}:
                return
            for memory_id in sorted(there - {newest}):
                await inherit(self.backend, item.agent_id, memory_id, newest)
                await changes.succeed(self.backend, item.agent_id, memory_id, newest)
        raise MemoryConflictError("other writers changed this key at the same moment; try again")

    async def _numbered(self, records: Sequence[MemoryRecord]) -> list[MemoryRecord]:
        """Return the records with their places in their sessions, from the number that each has stored on.

        A place serves a search that looks what was said beside a memory, and no more: after a redelivery, or when two
        workers store into one session at once, numbers may be left out or come twice.
        """
        sessions = {
            (each.entry.agent_id, session_id) for each in records if (session_id := each.lineage.session_id) is not None
        }
        following = {
            session: await self.backend.count_where(Where(agent_id=session[0], session_id=session[1]))
            for session in sorted(sessions)
        }
        numbered: dict[str, MemoryRecord] = {}
        for each in sorted(records, key=lambda each: each.entry.created_at):
            session = each.entry.agent_id, each.lineage.session_id or ""
            if session in following:
                numbered[each.entry.id] = replace(each, extra={**each.extra, SEQUENCE_KEY: following[session]})
                following[session] += 1
        return [numbered.get(each.entry.id, each) for each in records]

    async def _supersede(self, successors: Sequence[MemoryRecord]) -> dict[str, int]:
        """Mark what these memories replace, and return by id how many of those are not there, where any is not.

        To mark it again, after a redelivery, changes nothing.
        """
        unknown: dict[str, int] = {}
        for successor in successors:
            # As it is stored: what was taken back since is not marked again by a late redelivery.
            for stored in await self.backend.get_many(successor.entry.agent_id, [successor.entry.id]):
                if missing := len(stored.supersedes) - await mark_superseded(self.backend, stored):
                    unknown[stored.entry.id] = missing
        return unknown


def _record(item: StoreItem) -> MemoryRecord:
    lineage = Lineage(session_id=item.session_id, project_id=item.project_id, task_id=item.task_id)
    return MemoryRecord.of(
        item.id,
        item.agent_id,
        item.request,
        created_at=item.created_at,
        lineage=lineage,
        origin=item.origin or OWN,
    )

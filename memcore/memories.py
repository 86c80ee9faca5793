"""``Memories``: read, change and forget an agent's memories, one by one or by filter; every interface calls it.

A change makes a new version with an id of its own, in the place of the old one, which the journal keeps in full; an old
id leads to the version that is there now. What is forgotten is journaled too. Both are runs that can be undone.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, Unpack

from pydantic import TypeAdapter

from memcore import ids
from memcore.backends.deletion import Deletion, in_part, naming_run, pause
from memcore.backends.factory import WorkerBackend
from memcore.backends.protocol import MAX_PAGE, scanned
from memcore.backends.succession import current
from memcore.client.envelopes import Scope, build_payload
from memcore.clock import Clock, utc_now
from memcore.config.policy import Policy
from memcore.deadline.limits import reading
from memcore.errors import (
    MemoryConflictError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryInputError,
    MemoryNotFoundError,
    MemoryRefusedError,
    MemoryStoreError,
)
from memcore.ingest import Ingestor
from memcore.jobs import StoreItem
from memcore.ledger.erasure.erasures import WatchedWrite
from memcore.ledger.erasure.hidden import Hidden, showing_all
from memcore.ledger.journal import EntryReason
from memcore.ledger.ledger import Ledger
from memcore.ledger.lineage import Move
from memcore.models import memory as models
from memcore.models.base import naming_fields
from memcore.models.memory import (
    KEYED_TAG,
    SELF_EDITED_TAG,
    SUPERSEDED_TAG,
    MemoryCategory,
    MemoryEntry,
    MemoryStoreRequest,
    named_ids,
    refusal,
    require_agent_id,
    require_text,
)
from memcore.models.memory_changes import (
    ANY_VERSION,
    ForgetReceipt,
    ListFields,
    MemoryPage,
    MemoryVersion,
    UpdateFields,
    require_changes,
    require_key,
)
from memcore.models.origin import Origin, current_writer
from memcore.models.suspicion import watched
from memcore.records import (
    ATTRIBUTES_KEY,
    COMPARED_KEY,
    ORIGIN_KEY,
    SEARCH_NOTES_KEY,
    SUPERSEDES_KEY,
    VALIDITY_KEY,
    MemoryRecord,
    Where,
    stored_validity,
)

#: Changes of one memory at the same moment before the caller gets an error.
_ATTEMPTS = 20

#: Looks for the memory of a later writer of the same key before it is written again, and the pause between two.
_LOOKS, _PAUSE_SECONDS = 40, 0.05

#: Most versions that are followed: a memory that was changed more often is found by its newest id alone.
_MAX_VERSIONS = 10_000

_CATEGORY: TypeAdapter[MemoryCategory] = TypeAdapter(MemoryCategory)

#: The ids of a memory's versions, oldest first.
Versions = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Memories:
    """The memories of one company, over an open backend and ledger. Safe in several tasks at once.

    All calls raise MemoryInputError naming a wrong field, and MemoryConnectionError.
    """

    backend: WorkerBackend
    ledger: Ledger
    _: KW_ONLY
    company: str
    policy: Policy
    clock: Clock = utc_now

    @property
    def deadline_seconds(self) -> float:
        """Seconds that a reading call takes at most."""
        return self.policy.memory.retrieval.deadline_seconds

    @reading
    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """Return a memory, or the version that is in its place now; None when the agent has none.

        A maintenance run may merge a memory with others that say the same: then what it became is returned.
        """
        return await self._as_shown(await self._current(agent_id, memory_id))

    @reading
    async def get_by_key(self, agent_id: str, key: str, *, namespace: str = "default") -> MemoryEntry | None:
        """Return the memory with this key of the caller's, None when there is none."""
        return await self._as_shown(await self._of_key(agent_id, key, namespace))

    async def _of_key(self, agent_id: str, key: str, namespace: str) -> MemoryRecord | None:
        require_agent_id(agent_id)
        key, namespace = require_text(key, field="key"), require_text(namespace, field="namespace")
        newest = await asyncio.to_thread(self.ledger.keys.of, self.company, agent_id, namespace=namespace, key=key)
        if newest is None:
            return None
        found = await self._current(agent_id, newest)
        if found is None:
            # An undo brought back a version before.
            where = self._where(agent_id, namespaces=[namespace], keys=[key])
            async for page in scanned(self.backend, where):
                found = page[-1] if page else found
        return found

    @reading
    async def list(
        self, agent_id: str, *, limit: int = 100, cursor: str | None = None, **filters: Unpack[ListFields]
    ) -> MemoryPage:
        """Return 1 to 256 memories that meet all filters, oldest first."""
        if not isinstance(limit, int) or not 1 <= limit <= MAX_PAGE:
            raise MemoryInputError("limit", f"must be a whole number from 1 to {MAX_PAGE}")
        if cursor is not None:
            require_text(cursor, field="cursor")
        page = await self.backend.scan(self._where(agent_id, **filters), cursor=cursor, limit=limit)
        now = self.clock()
        there = [each.entry for each in page.records if each.entry.expires_at is None or each.entry.expires_at > now]
        entries = [each for each in there if each.is_shown(self.policy.memory.origins.authority)]
        shown = await current(self.backend, agent_id, entries, now=now)
        return MemoryPage(entries=tuple(map(self._judged, shown)), cursor=page.cursor)

    @reading
    async def namespaces(self, agent_id: str) -> tuple[str, ...]:
        """Return the namespaces in which the agent has memories, in order."""
        return tuple(sorted(await self.backend.scopes(self._where(agent_id), "namespace")))

    @reading
    async def count(self, agent_id: str, *, category: MemoryCategory | str | None = None) -> int:
        """Return how many memories the agent has."""
        with naming_fields(name="category"):
            wanted = None if category is None else [_CATEGORY.validate_python(category)]
        where = self._where(agent_id, categories=wanted)
        return await self.backend.count_where(where)

    async def put(
        self,
        agent_id: str,
        request: MemoryStoreRequest,
        *,
        scope: Scope | Mapping[str, Any] | None = None,
        only_new: bool = False,
    ) -> MemoryEntry:
        """Write one memory now, in this process, and return it; it can be found when this returns.

        With ``only_new`` MemoryConflictError where its key has a memory: of several at one moment, one is written.
        Without it each replaces what the key has, and the last stays: what that says is returned.

        A store through the queue outlives a store server that is down; this call raises MemoryConnectionError then.
        Raises MemoryInputError for an id in ``supersedes`` that names no memory of the agent; MemoryStoreError where
        the agent keeps no memories, or is being erased.
        """
        for _ in range(_ATTEMPTS):
            item = build_payload(agent_id, request, company=self.company, sent_at=self.clock(), scope=scope)
            if only_new:
                require_key(item.request)
            try:
                found = await self._put(item, only_new=only_new)
            except MemoryConflictError:
                if only_new:
                    raise
                continue
            if found is not None:
                return found
            if item.request.key is None:
                break
        raise MemoryStoreError("the memory was removed by somebody else at the same moment")

    async def _put(self, item: StoreItem, *, only_new: bool) -> MemoryEntry | None:
        """Write one memory, and return what is there then; None where it was removed at once."""
        _refuse_erased(await self._watched(item.agent_id), item.agent_id)
        wanted = models.memory_ids(item.request.supersedes)
        there = {each.entry.id for each in await self.backend.get_many(item.agent_id, wanted)}
        for place, each in enumerate(item.request.supersedes):
            if each not in there:
                raise MemoryInputError(f"supersedes.{place}", "names no memory of this agent")
        if only_new:
            await self.reserve(item)
        # As a worker does it: what is hidden has a key, too, until it is replaced.
        with showing_all():
            written = await self._ingestor.write([item])
        if missing := written.refused.get(item.id):
            raise MemoryInputError(missing, refusal(missing))
        if item.id in written.skipped:
            raise MemoryRefusedError("level none: no memories are kept for this agent; nothing was written")
        namespace, key = item.request.namespace, item.request.key
        for _ in range(_LOOKS):
            # The writer knows the text: it is shown what it wrote, also where nobody else is.
            with showing_all():
                found = await self._standing(await self._current(item.agent_id, item.id))
            if found is None and only_new:
                raise MemoryConflictError("key: another writer was first")
            if found is not None or key is None:
                return found
            # A later version of the key took its place, and is on its way.
            if (found := await self._standing(await self._of_key(item.agent_id, key, namespace))) is not None:
                return found
            await asyncio.sleep(_PAUSE_SECONDS)
        return None

    async def reserve(self, item: StoreItem) -> None:
        """Let a key lead to a memory that is about to be written. Raises MemoryConflictError where it has one."""
        agent_id, namespace = item.agent_id, item.request.namespace
        key = require_key(item.request)
        keys = self.ledger.keys
        before = await asyncio.to_thread(keys.of, self.company, agent_id, namespace=namespace, key=key)

        def claim(memory_id: str, before: str | None) -> bool:
            return keys.claim(
                self.company,
                agent_id,
                namespace=namespace,
                key=key,
                memory_id=memory_id,
                sent_at=item.sent_at,
                before=before,
            )

        there = await self._standing(await self._of_key(agent_id, key, namespace))
        if there is None and await asyncio.to_thread(claim, item.id, before):
            # One that was on its way may have come in between; then the key is its own again.
            came = await self.backend.get_many(agent_id, [] if before in {None, item.id} else [str(before)])
            if not came or await self._standing(came[0]) is None:
                return
            await asyncio.to_thread(claim, came[0].entry.id, item.id)
        raise MemoryConflictError("key: has a memory already")

    async def update(
        self, agent_id: str, memory_id: str, *, expected: str | None = None, **fields: Unpack[UpdateFields]
    ) -> MemoryEntry:
        """Change a memory, and return its new version; the one before is journaled. The same again changes nothing.

        ``expected`` is the id of the version that is to be changed, ``memory_id`` itself where it is left out; ``*`` is
        any: of several at the same moment each is then applied to what the one before it left. Raises
        MemoryConflictError where another version is there, or others are always in between; MemoryNotFoundError when
        the agent has no such memory, MemoryRefusedError while it is being erased, or to a writer that is distrusted.
        """
        for name in fields.keys() - UpdateFields.__annotations__.keys():
            raise MemoryInputError(name, "is not a field that can be changed")
        require_agent_id(agent_id)
        require_text(memory_id, field="memory_id")
        require_changes(fields, now=self.clock())
        watched = await self._watched(agent_id)
        _refuse_erased(watched, agent_id)
        try:
            return await self._updated(agent_id, memory_id, fields, watched, expected=expected)
        finally:
            await asyncio.to_thread(self.ledger.erasures.end_write, watched)

    async def _updated(
        self, agent_id: str, memory_id: str, fields: UpdateFields, watched: WatchedWrite, *, expected: str | None
    ) -> MemoryEntry:
        for attempt in range(1, _ATTEMPTS + 1):
            current = await self._current(agent_id, memory_id)
            if current is None or not current.entry.is_shown(self.policy.memory.origins.authority):
                raise MemoryNotFoundError("memory_id: names no memory of this agent")
            _refuse_erased(watched, agent_id, namespace=current.entry.namespace)
            wanted = self._version(current, fields)
            if wanted is None:
                return self._judged(current.entry)
            if (await asyncio.to_thread(self.ledger.hidden.of, self.company)).distrusts_memory(wanted.entry):
                # Its words would hide those of the others.
                raise MemoryRefusedError("who writes is distrusted: nothing was changed; `memtend distrust list`")
            await self._require_version(current, memory_id if expected is None else expected)
            try:
                changed = await self._changes.replace(
                    self.backend, agent_id, current.entry.id, lambda record: self._version(record, fields)
                )
            except MemoryConflictError:
                if attempt == _ATTEMPTS:
                    raise
                continue
            if changed is None:
                await pause(attempt)
                continue
            entry = self._judged(changed.after.entry)
            if entry.key is not None:
                await asyncio.to_thread(
                    self.ledger.keys.point,
                    self.company,
                    agent_id,
                    namespace=entry.namespace,
                    key=entry.key,
                    memory_id=entry.id,
                    sent_at=entry.updated_at or entry.created_at,
                )
            return entry
        raise MemoryConflictError("memory_id: others change this memory at the same moment; try again")

    async def forget(
        self,
        agent_id: str,
        memory_ids: str | Collection[str] | None = None,
        *,
        everything: bool = False,
        expected: str | None = None,
        **filters: Unpack[ListFields],
    ) -> ForgetReceipt:
        """Forget memories by their ids, or all that meet the filters, in one run that can be undone.

        ``expected`` is the version of a single memory that is to be forgotten; left out, it is the one that is there,
        also of what is changed at the same moment. Raises MemoryConflictError where another is there, or others always
        change one; MemoryInputError without ids, filters or ``everything``.
        """
        has_filter = any(value is not None and value != () for value in filters.values())
        where: Where | None = None
        if (memory_ids is not None) + has_filter + everything != 1:
            raise MemoryInputError("memory_ids", "give ids, or filters, or everything=True: one of them")
        if memory_ids is not None:
            wanted = named_ids(memory_ids)
            if expected is not None and len(wanted) != 1:
                raise MemoryInputError("expected", "is the version of one memory: name that one alone")
            found = [await self._current(agent_id, each) for each in dict.fromkeys(wanted)]
            going: Sequence[str] = [record.entry.id for record in found if record is not None]
            for record in found:
                if record is not None and expected is not None:
                    await self._require_version(record, expected)
        elif expected is not None:
            raise MemoryInputError("expected", "is the version of one memory: name that one alone")
        else:
            where = self._where(agent_id, **filters)
            going = await self._ids(where)
        # The journal keeps in full what goes.
        watched = await self._watched(agent_id)
        try:
            receipt = await self._forgotten(agent_id, going, where, is_expected=expected is not None)
        except BaseException:
            # It names the run: an error behind it must not take its place.
            with suppress(MemoryError):
                await asyncio.to_thread(self.ledger.erasures.end_write, watched)
            raise
        with naming_run(receipt.run_id, receipt.forgotten):
            await asyncio.to_thread(self.ledger.erasures.end_write, watched)
        return receipt

    async def _forgotten(
        self, agent_id: str, going: Sequence[str], where: Where | None, *, is_expected: bool
    ) -> ForgetReceipt:
        """Forget these memories, and what others make of them meanwhile where that meets the filters, too."""
        run_id: str | None = None
        gone: tuple[str, ...] = ()
        for attempt in range(1, _ATTEMPTS + 1):
            run_id, gone = await self._changes.delete_many(self.backend, agent_id, going, run_id=run_id, before=gone)
            if is_expected and going and not gone:
                break
            with naming_run(run_id, gone):
                left = [await self._current(agent_id, each) for each in set(going).difference(gone)]
                going = [record.entry.id for record in left if record is not None]
                if going and where is not None:
                    going = await self._ids(where.model_copy(update={"ids": frozenset(going)}))
            if not going:
                return ForgetReceipt(run_id=run_id, forgotten=gone)
            # Others mark it too, and whoever marks takes the mark of the one before.
            await pause(attempt)
        conflict = MemoryConflictError("memory_id: was changed at the same moment; read it again")
        raise in_part(conflict, run_id, gone=gone)

    @reading
    async def history(self, agent_id: str, memory_id: str) -> tuple[MemoryVersion, ...]:
        """Return what became of a memory, oldest first, by the id of any of its versions.

        Raises MemoryNotFoundError when the agent has and had no such memory.
        """
        require_agent_id(agent_id)
        require_text(memory_id, field="memory_id")
        hidden = await asyncio.to_thread(self.ledger.hidden.of, self.company)
        line = await asyncio.to_thread(self._line, agent_id, memory_id)
        here = {each.entry.id: each for each in await self.backend.get_many(agent_id, models.memory_ids(line))}
        if agent_id in hidden.agents:
            raise MemoryNotFoundError("memory_id: names no memory of this agent, now or before")
        if memory_id not in here and len(line) == 1:
            moves = await asyncio.to_thread(self.ledger.lineage.moves, self.company, agent_id, line)
            if not moves:
                raise MemoryNotFoundError("memory_id: names no memory of this agent, now or before")
        return await asyncio.to_thread(self._events, agent_id, line, here, hidden)

    @cached_property
    def _changes(self) -> Deletion:
        return Deletion.over(self.ledger, company=self.company, clock=self.clock)

    @cached_property
    def _ingestor(self) -> Ingestor:
        return Ingestor.by_policy(self.backend, self.ledger, company=self.company, policy=self.policy)

    async def _watched(self, agent_id: str) -> WatchedWrite:
        return await asyncio.to_thread(self.ledger.erasures.watch, self.company, [require_agent_id(agent_id)])

    async def _ids(self, where: Where) -> Sequence[str]:
        return [record.entry.id async for page in scanned(self.backend, where) for record in page]

    def _where(self, agent_id: str, **filters: Any) -> Where:
        require_agent_id(agent_id)
        for name in filters.keys() - ListFields.__annotations__.keys():
            raise MemoryInputError(name, "is not a known filter")
        given: dict[str, Any] = {name: value for name, value in filters.items() if value is not None}
        renamed = {"since": "created_since", "until": "created_before"}
        with naming_fields():
            return Where.model_validate(
                {"agent_id": agent_id, **{renamed.get(name, name): value for name, value in given.items()}}
            )

    async def _as_shown(self, record: MemoryRecord | None) -> MemoryEntry | None:
        """Return the entry as it stands; None once it has expired, and for a caller who is not shown it."""
        if record is None or not record.entry.is_shown(self.policy.memory.origins.authority):
            return None
        return await self._standing(record)

    async def _standing(self, record: MemoryRecord | None) -> MemoryEntry | None:
        """Return the entry as it stands; None once it has expired."""
        now = self.clock()
        if record is None or (record.entry.expires_at is not None and record.entry.expires_at <= now):
            return None
        return self._judged((await current(self.backend, record.entry.agent_id, [record.entry], now=now))[0])

    def _judged(self, entry: MemoryEntry) -> MemoryEntry:
        return entry.with_authority(self.policy.memory.origins.authority)

    async def _current(self, agent_id: str, memory_id: str) -> MemoryRecord | None:
        """Return what is in the place of a memory: its newest version, or what repeats it word for word."""
        require_agent_id(agent_id)
        require_text(memory_id, field="memory_id")
        met: set[str] = set()
        is_merged = False
        while memory_id not in met and len(met) < _MAX_VERSIONS:
            met.add(memory_id)
            for record in await self.backend.get_many(agent_id, models.memory_ids([memory_id])):
                # A summary that leaves something out is another memory.
                return record if record.is_lossless or not is_merged else None
            following = await asyncio.to_thread(self._successor, agent_id, memory_id)
            if following is None:
                return None
            memory_id, reason = following
            is_merged = is_merged or reason == "consolidated"
        return None

    async def _require_version(self, current: MemoryRecord, expected: str) -> None:
        """Raise MemoryConflictError unless a memory is the expected version, or says the same word for word."""
        if expected in {ANY_VERSION, current.entry.id}:
            return
        agent_id, version, met = current.entry.agent_id, expected, set[str]()
        # Copies of one text that a run has merged are no other version of it.
        while version not in met and len(met) < _MAX_VERSIONS:
            met.add(version)
            following = await asyncio.to_thread(self._successor, agent_id, version)
            if following is None or following[1] != "consolidated":
                break
            version = following[0]
        if version != current.entry.id:
            raise MemoryConflictError(f"memory_id: another version is there now, {current.entry.id}; read that first")

    def _successor(self, agent_id: str, memory_id: str) -> tuple[str, EntryReason] | None:
        """Return what took a memory's place when it last went, and why; None when it went for good."""
        moves = self.ledger.lineage.moves(self.company, agent_id, [memory_id]).get(memory_id, ())
        if not moves or moves[-1].kind != "removed" or moves[-1].reason not in _REPLACING:
            return None
        for exchange in self.ledger.lineage.exchanges([moves[-1].booking_id]).values():
            return (exchange.incoming[0], exchange.reason) if len(exchange.incoming) == 1 else None
        return None

    def _version_after(self, agent_id: str, memory_id: str) -> str | None:
        following = self._successor(agent_id, memory_id)
        return None if following is None or following[1] == "consolidated" else following[0]

    def _predecessor(self, agent_id: str, memory_id: str) -> str | None:
        moves = self.ledger.lineage.moves(self.company, agent_id, [memory_id]).get(memory_id, ())
        came = [move.booking_id for move in moves if move.kind == "created" and move.reason == "updated"]
        for exchange in self.ledger.lineage.exchanges(came[:1]).values():
            return exchange.outgoing[0] if exchange.outgoing else None
        return None

    def _line(self, agent_id: str, memory_id: str) -> Versions:
        """Return the versions of a memory, oldest first."""
        line: Versions = (memory_id,)
        before = self._predecessor(agent_id, memory_id)
        while before is not None and before not in line and len(line) < _MAX_VERSIONS:
            line = (before, *line)
            before = self._predecessor(agent_id, before)
        after = self._version_after(agent_id, memory_id)
        while after is not None and after not in line and len(line) < _MAX_VERSIONS:
            line = (*line, after)
            after = self._version_after(agent_id, after)
        return line

    def _events(
        self, agent_id: str, line: Versions, here: Mapping[str, MemoryRecord], hidden: Hidden
    ) -> tuple[MemoryVersion, ...]:
        moves = self.ledger.lineage.moves(self.company, agent_id, line)
        events: list[MemoryVersion] = []
        for place, memory_id in enumerate(line):
            record = here.get(memory_id) or self._journaled(memory_id, moves.get(memory_id, ()))
            content = None
            if record is not None and not hidden.hides_memory(record.entry):
                content = record.entry.content if record.entry.is_shown(self.policy.memory.origins.authority) else None
            came = next((move for move in moves.get(memory_id, ()) if move.reason == "updated"), None)
            if place and came is not None:
                update = MemoryVersion(
                    event="UPDATE", memory_id=memory_id, content=content, at=came.at, run_id=came.run_id
                )
                events.append(update)
            elif record is not None:
                at = record.entry.created_at
                events.append(MemoryVersion(event="ADD", memory_id=memory_id, content=content, at=at))
        last = line[-1]
        went = [move for move in moves.get(last, ()) if move.kind == "removed"]
        if last not in here and went:
            events.append(
                MemoryVersion(event="DELETE", memory_id=last, content=None, at=went[-1].at, run_id=went[-1].run_id)
            )
        return tuple(events)

    def _journaled(self, memory_id: str, moves: tuple[Move, ...]) -> MemoryRecord | None:
        kept = [move.booking_id for move in moves if move.has_content]
        return self.ledger.lineage.record(kept[-1], memory_id) if kept else None

    def _version(self, record: MemoryRecord, fields: Mapping[str, Any]) -> MemoryRecord | None:
        """Return the next version of a memory; None where the fields change nothing."""
        old, now = record.entry, max(self.clock(), record.entry.created_at)
        metadata = old.metadata.model_dump()
        metadata |= {name: fields[name] for name in ("source", "confidence", "tags") if name in fields}
        if "tags" in fields and old.metadata.tags:
            # Those that memtend itself sets stay.
            metadata["tags"] = (*fields["tags"], *(tag for tag in old.metadata.tags if tag in OWN_TAGS))
        with naming_fields():
            wanted = MemoryStoreRequest.model_validate(
                {
                    "category": fields.get("category", old.category),
                    "namespace": old.namespace,
                    "content": fields.get("content", old.content),
                    "metadata": metadata,
                    "expires_at": fields.get("expires_at", old.expires_at),
                    "attributes": fields.get("attributes", old.attributes),
                    "valid_from": fields.get("valid_from", old.valid_from),
                    "valid_until": fields.get("valid_until", old.valid_until),
                }
            )
        if wanted.expires_at is not None and wanted.expires_at <= now and "expires_at" in fields:
            raise MemoryInputError("expires_at", "lies before now")
        same = all(
            getattr(wanted, name) == getattr(old, name)
            for name in ("category", "content", "metadata", "expires_at", "attributes", "valid_from", "valid_until")
        )
        if same:
            return None
        is_new_text = wanted.content != old.content
        entry = old.model_copy(
            update={
                "id": ids.version_id(memory_id=old.id, at=now.isoformat(), content=wanted.content),
                "category": wanted.category,
                "content": wanted.content,
                "metadata": wanted.metadata,
                "expires_at": wanted.expires_at,
                "created_at": now if is_new_text else old.created_at,
                "updated_at": now,
                "relevance_score": None,
                "scores": None,
                "attributes": wanted.attributes,
                "valid_from": wanted.valid_from,
                "valid_until": wanted.valid_until,
                "raised": None,
            }
        )
        # An edit never raises: what it is made of, the old text and the editor's words, has the least of both.
        origin = watched(Origin.of((old.origin, current_writer().origin())), wanted.content)
        left_out = {ATTRIBUTES_KEY, VALIDITY_KEY, *((SEARCH_NOTES_KEY, COMPARED_KEY) if is_new_text else ())}
        extra = {name: value for name, value in record.extra.items() if name not in left_out}
        if is_new_text and (found := record.found_superseded):
            # That the old text replaced them says nothing of the new one.
            extra[SUPERSEDES_KEY] = [each for each in record.supersedes if each not in found]
        extra[ORIGIN_KEY] = origin.stored()
        if wanted.attributes:
            extra[ATTRIBUTES_KEY] = dict(wanted.attributes)
        if validity := stored_validity(wanted):
            extra[VALIDITY_KEY] = validity
        return replace(record, entry=entry, vectors=None, extra=extra)


#: Why something else is in a memory's place.
_REPLACING = frozenset({"updated", "undone", "consolidated"})

#: Tags that say what memtend knows of a memory: an update of the tags leaves them.
OWN_TAGS = frozenset({KEYED_TAG, SUPERSEDED_TAG, SELF_EDITED_TAG})


def _refuse_erased(watched: WatchedWrite, agent_id: str, *, namespace: str | None = None) -> None:
    """Raise MemoryRefusedError while an agent, or the person of a namespace, is being erased."""
    if agent_id in watched.barred or namespace in watched.erased_people:
        raise MemoryRefusedError("the agent or person is being erased: nothing was written; `memtend erase list`")

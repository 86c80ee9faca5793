"""The in-memory backend, with its shared knowledge: for engines that need nothing durable, and for tests."""

import dataclasses
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from memcore import ids
from memcore.backends.base import RecordBackend, age, age_at, cursor_after, fresh_record
from memcore.backends.deletion import Deletion
from memcore.backends.fusion import best_first
from memcore.backends.protocol import MAX_PAGE
from memcore.clock import Clock, utc_now
from memcore.errors import MemoryConnectionError, MemoryInputError, MemoryStoreError
from memcore.ledger.organization.shared_log import SharedEntry, SharedKind
from memcore.models.attributes import has_attributes
from memcore.models.memory import (
    Excluded,
    MemoryCategory,
    MemoryEntry,
    MemoryMetadata,
    MemoryQuery,
    MemoryStoreRequest,
    excluded_agents,
    memory_ids,
    require_agent_id,
    require_ids,
    require_owner_id,
)
from memcore.models.origin import came_through
from memcore.records import SUCCESSION_KEY, ArchivedCopy, Facet, MemoryRecord, Page, SearchNotes, Where


def is_expired(entry: MemoryEntry, now: datetime) -> bool:
    """Return whether the entry's expiry has come."""
    return entry.expires_at is not None and entry.expires_at <= now


def is_match(where: Where, record: MemoryRecord, mark: str | None) -> bool:
    """Return whether a record meets every condition but the owner's; ``mark`` is the claim mark that it carries."""
    entry, lineage, tags = record.entry, record.lineage, set(record.entry.metadata.tags)
    return (
        (where.categories is None or entry.category in where.categories)
        and (where.namespaces is None or entry.namespace in where.namespaces)
        and (where.ids is None or entry.id in where.ids)
        and entry.id not in where.without_ids
        and set(where.tags) <= tags
        and tags.isdisjoint(where.without_tags)
        and (where.created_since is None or entry.created_at >= where.created_since)
        and (where.created_before is None or entry.created_at < where.created_before)
        and (where.expires_by is None or is_expired(entry, where.expires_by))
        and where.session_id in {None, lineage.session_id}
        and where.project_id in {None, lineage.project_id}
        and where.task_id in {None, lineage.task_id}
        and (where.outside is None or getattr(lineage, where.outside) is None)
        and where.lessons in {None, record.is_lesson}
        and (where.unnoted_by is None or record.noted_by != where.unnoted_by)
        and (where.uncompared_by is None or record.compared_by != where.uncompared_by)
        and where.token in {None, mark}
        and (where.keys is None or entry.key in where.keys)
        and (where.supersedes is None or not where.supersedes.isdisjoint(record.supersedes))
        and has_attributes(entry.attributes, where.attributes)
    )


def is_hit(query: MemoryQuery, entry: MemoryEntry, now: datetime) -> bool:
    """Return whether an entry answers a query: its filters, its text as a substring whatever the case, not expired."""
    return (
        not is_expired(entry, now)
        and (query.text is None or query.text.casefold() in entry.content.casefold())
        and (query.namespaces is None or entry.namespace in query.namespaces)
        and (query.categories is None or entry.category in query.categories)
        and set(query.tags) <= set(entry.metadata.tags)
        and (query.since is None or entry.created_at >= query.since)
        and (query.until is None or entry.created_at < query.until)
        and (query.as_of is None or entry.holds_at(query.as_of))
        and has_attributes(entry.attributes, query.attributes)
        and not came_through(entry.origin, query.hidden_channels)
    )


class InMemoryShared:
    """Keeps the log of shared knowledge until the process ends; a line's place is its version. Thread-safe."""

    def __init__(self, *, company: str, clock: Clock) -> None:
        self._company = company
        self._clock = clock
        self._log: list[SharedEntry] = []
        #: The fact of each id that was published.
        self._facts: dict[str, str] = {}
        self._lock = threading.Lock()

    async def publish(self, agent_id: str, request: MemoryStoreRequest, *, once: bool = False) -> str:
        """Publish under the id of the fact, or anew under another unless only once; return the id."""
        fact = fresh_record(agent_id, request, company=self._company, now=self._clock(), id_of=ids.fact_id).entry
        with self._lock:
            before = [key for key, fact_id in self._facts.items() if fact_id == fact.id]
            if before and (once or self._is_current(before[-1], fact.created_at)):
                return before[-1]
            memory_id = ids.republished_id(fact_id=fact.id, times_before=len(before)) if before else fact.id
            self._facts[memory_id] = fact.id
            self._append(fact.model_copy(update={"id": memory_id}), "publish", at=fact.created_at)
            return memory_id

    async def retract(self, agent_id: str, memory_id: str) -> bool:
        require_agent_id(agent_id)
        with self._lock:
            entry = self._visible(len(self._log)).get(memory_id)
            if entry is None or entry.agent_id != agent_id:
                return False
            self._append(entry, "retract", at=self._clock())
            return True

    async def search_shared(
        self, query: MemoryQuery, *, exclude_agent: Excluded = None, version: int | None = None
    ) -> tuple[MemoryEntry, ...]:
        """Return what matches of a version, newest first, ties by id."""
        left_out, now = excluded_agents(exclude_agent), self._clock()
        with self._lock:
            head = len(self._log)
            at = head if version is None else version
            if not 0 <= at <= head:
                raise MemoryInputError("version", f"is {version}; it must be 0 to {head}, the newest")
            there = self._visible(at).values()
        return best_first((e for e in there if e.agent_id not in left_out and is_hit(query, e, now)), query.limit)

    async def search_shared_sparse(
        self, query: MemoryQuery, *, exclude_agent: Excluded = None, version: int | None = None
    ) -> tuple[MemoryEntry, ...]:
        """Return nothing: there are no keywords here."""
        await self.search_shared(query, exclude_agent=exclude_agent, version=version)
        return ()

    async def shared_version(self) -> int:
        with self._lock:
            return len(self._log)

    def history(self, company: str, memory_id: str) -> tuple[SharedEntry, ...]:  # noqa: ARG002  # it has one company
        """Return all lines of the fact that was once published under this id, in order; none for an unknown id."""
        with self._lock:
            named = self._facts.get(memory_id)
            return tuple(line for line in self._log if named is not None and self._facts[line.memory_id] == named)

    def _append(self, entry: MemoryEntry, kind: SharedKind, *, at: datetime) -> None:
        record = MemoryRecord(entry=entry) if kind == "publish" else None
        version = len(self._log) + 1
        line = SharedEntry(
            version=version, kind=kind, memory_id=entry.id, agent_id=entry.agent_id, at=at, record=record
        )
        self._log.append(line)

    def _visible(self, version: int) -> dict[str, MemoryEntry]:
        there: dict[str, MemoryEntry] = {}
        for line in self._log[:version]:
            if line.record is None:
                there.pop(line.memory_id)
            else:
                there[line.memory_id] = line.record.entry
        return there

    def _is_current(self, memory_id: str, now: datetime) -> bool:
        entry = self._visible(len(self._log)).get(memory_id)
        return entry is not None and not is_expired(entry, now)


#: Most memories of one agent by default: the reference's value, a few tens of megabytes.
DEFAULT_MAX_MEMORIES = 10_000


class InMemoryBackend(RecordBackend):
    """Keeps memories in a dictionary until the process ends; a text query is a substring search, newest first.

    Entries found by text carry no relevance score. Disconnecting keeps the memories; ``clear`` drops an agent's. No job
    and no run can reach the memories of this process, so nothing brings back what is deleted. Safe in several threads
    and event loops at once.
    """

    backend_name = "inmemory"
    supported_categories = frozenset(MemoryCategory)
    supports_graph = False
    supports_temporal = True
    supports_vector_search = False
    supports_shared_access = True

    def __init__(
        self,
        *,
        company: str,
        max_memories: int = DEFAULT_MAX_MEMORIES,
        deletion: Deletion | None = None,
        clock: Clock = utc_now,
    ) -> None:
        super().__init__(company=company, deletion=deletion, clock=clock)
        self.max_memories_per_agent = max_memories
        self._agents: dict[str, dict[str, MemoryRecord]] = {}
        self._owners: dict[str, str] = {}
        self._marks: dict[str, str] = {}
        self._archived: dict[str, dict[str, ArchivedCopy]] = {}
        self._shared = InMemoryShared(company=company, clock=clock)
        # Held for a whole call; no call awaits inside it.
        self._lock = threading.Lock()
        self._is_connected = False

    async def connect(self) -> None:
        """Accept calls from now on."""
        self._is_connected = True

    async def disconnect(self) -> None:
        """Refuse calls from now on; the memories stay."""
        self._is_connected = False
        if self._deletion is not None:
            self._deletion.close()

    async def health_check(self) -> bool:
        return self._is_connected

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    @property
    def vector_space(self) -> str | None:
        """None: it makes no vectors, and keeps those that it is given."""
        return None

    async def retrieve(self, agent_id: str, query: MemoryQuery) -> tuple[MemoryEntry, ...]:
        """Return what matches and has not expired, newest first, ties by id."""
        now = query.as_of or self._clock()
        with self._lock:
            entries = [record.entry for record in self._of(agent_id).values()]
        shown = await self._current(agent_id, entries, query.as_of)
        found = (entry.known_at(query.as_of) for entry in shown if is_hit(query, entry, now))
        return best_first(found, query.limit)

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        with self._lock:
            record = self._of(agent_id).get(memory_id)
        if record is None or is_expired(record.entry, self._clock()):
            return None
        return (await self._current(agent_id, [record.entry]))[0]

    async def clear(self, agent_id: str) -> None:
        """Drop all memories of this agent, archived copies too."""
        await self.delete_where(Where(agent_id=agent_id))
        with self._lock:
            self._archived.pop(agent_id, None)

    async def store_many(self, records: Sequence[MemoryRecord]) -> None:
        """Keep every record whose id is new, as the protocol says. MemoryStoreError at the cap: then none is kept."""
        unique: dict[str, MemoryRecord] = {}
        for each in records:
            unique.setdefault(require_ids(each.entry), each)
        with self._lock:
            self._require_connected()
            fresh = {key: each for key, each in unique.items() if key not in self._owners}
            self._evict_for(fresh.values())
            for memory_id in unique.keys() - fresh.keys():
                own = self._agents[self._owners[memory_id]]
                own[memory_id] = own[memory_id].stated_again(unique[memory_id]) or own[memory_id]
            for memory_id, record in fresh.items():
                agent_id = record.entry.agent_id
                # Relevance belongs to the answer in which an entry was found, not to the entry.
                entry = record.entry.model_copy(update={"relevance_score": None})
                self._agents.setdefault(agent_id, {})[memory_id] = dataclasses.replace(record, entry=entry)
                self._owners[memory_id] = agent_id

    async def get_many(
        self, agent_id: str, ids: Sequence[str], *, with_vectors: bool = False
    ) -> tuple[MemoryRecord, ...]:
        with self._lock:
            own = self._of(agent_id)
            found = [own[memory_id] for memory_id in memory_ids(ids) if memory_id in own]
        return tuple(_shown(record, with_vectors=with_vectors) for record in found)

    async def delete_where(self, where: Where) -> int:
        with self._lock:
            matches = [record.entry.id for record in self._matches(where)]
            self._drop(where.agent_id, matches)
        return len(matches)

    async def count_where(self, where: Where) -> int:
        with self._lock:
            return len(self._matches(where))

    async def scopes(self, where: Where, scope: Facet) -> frozenset[str]:
        with self._lock:
            matches = self._matches(where)
        if scope == "namespace":
            return frozenset(record.entry.namespace for record in matches)
        return frozenset({getattr(record.lineage, scope) for record in matches} - {None})

    async def scan(
        self, where: Where, *, cursor: str | None = None, limit: int = MAX_PAGE, with_vectors: bool = False
    ) -> Page:
        size = max(1, min(limit, MAX_PAGE))
        with self._lock:
            found = sorted(self._matches(where), key=age)
        after = None if cursor is None else age_at(cursor)
        rest = [record for record in found if after is None or age(record) > after]
        page = rest[:size]
        return Page(
            records=tuple(_shown(record, with_vectors=with_vectors) for record in page),
            cursor=cursor_after(page[-1]) if len(rest) > size else None,
        )

    async def set_metadata_many(
        self,
        agent_id: str,
        ids: Sequence[str],
        metadata: MemoryMetadata | None,
        *,
        extra: Mapping[str, Any] | None = None,
    ) -> int:
        now, where = self._clock(), Where(agent_id=agent_id, ids=frozenset(memory_ids(ids)))
        with self._lock:
            found = self._matches(where)
            for record in found:
                times = {"metadata": metadata, "updated_at": max(now, record.entry.created_at)}
                entry = record.entry.model_copy(update={} if metadata is None else times)
                merged = {key: value for key, value in {**record.extra, **(extra or {})}.items() if value is not None}
                if SUCCESSION_KEY not in merged:
                    entry = entry.model_copy(update={"superseded_by": None, "superseded_at": None})
                self._agents[agent_id][entry.id] = dataclasses.replace(record, entry=entry, extra=merged)
        return len(found)

    async def set_search_notes(self, agent_id: str, notes: Mapping[str, SearchNotes]) -> int:
        with self._lock:
            found = self._matches(Where(agent_id=agent_id, ids=frozenset(memory_ids(notes))))
            for record in found:
                self._agents[agent_id][record.entry.id] = record.with_search_notes(notes[record.entry.id])
            return len(found)

    async def claim(self, where: Where, token: str) -> int:
        with self._lock:
            for record in self._matches(where):
                self._marks[record.entry.id] = token
            return sum(self._marks.get(memory_id) == token for memory_id in self._of(where.agent_id))

    async def unclaim(self, agent_id: str) -> None:
        with self._lock:
            for memory_id in self._of(agent_id):
                self._marks.pop(memory_id, None)

    async def index_archived(
        self, agent_id: str, copies: Sequence[ArchivedCopy], *, moved_from: Collection[str] = ()
    ) -> None:
        with self._lock:
            self._require_connected()
            own = self._archived.setdefault(require_agent_id(agent_id), {})
            for copy in copies:
                known = own.setdefault(copy.archival_id, copy)
                if known.summary_id in moved_from:
                    own[copy.archival_id] = dataclasses.replace(known, summary_id=copy.summary_id)

    async def unindex_archived(
        self,
        agent_id: str,
        *,
        summaries: Collection[str] = (),
        originals: Collection[str] = (),
        entries: Collection[str] = (),
    ) -> None:
        with self._lock:
            self._require_connected()
            own = self._archived.get(require_agent_id(agent_id), {})
            for key, copy in list(own.items()):
                if key in entries or copy.summary_id in summaries or copy.record.entry.id in originals:
                    del own[key]

    async def indexed_archived(self, agent_id: str) -> tuple[ArchivedCopy, ...]:
        with self._lock:
            self._require_connected()
            found = sorted(self._archived.get(require_agent_id(agent_id), {}).items())
        return tuple(dataclasses.replace(copy, record=_shown(copy.record, with_vectors=False)) for _, copy in found)

    @property
    def shared_log(self) -> InMemoryShared:
        """What was published and retracted here: no ledger has it."""
        return self._shared

    def _sharing(self) -> InMemoryShared:
        self._require_connected()
        return self._shared

    def _require_connected(self) -> None:
        if not self._is_connected:
            raise MemoryConnectionError("the backend inmemory is not connected: call connect first")

    def _of(self, agent_id: str) -> dict[str, MemoryRecord]:
        self._require_connected()
        return self._agents.get(require_owner_id(agent_id), {})

    def _matches(self, where: Where) -> list[MemoryRecord]:
        own = self._of(where.agent_id)
        return [record for memory_id, record in own.items() if is_match(where, record, self._marks.get(memory_id))]

    def _drop(self, agent_id: str, gone: Iterable[str]) -> None:
        for memory_id in gone:
            del self._agents[agent_id][memory_id], self._owners[memory_id]
            self._marks.pop(memory_id, None)

    def _evict_for(self, fresh: Iterable[MemoryRecord]) -> None:
        for agent_id, number in Counter(record.entry.agent_id for record in fresh).items():
            own = self._of(agent_id)
            if len(own) + number <= self.max_memories_per_agent:
                continue
            # Only at the cap: below it, retention decides about expired memories.
            now = self._clock()
            self._drop(agent_id, [key for key, record in own.items() if is_expired(record.entry, now)])
            if len(own) + number > self.max_memories_per_agent:
                raise MemoryStoreError(
                    f"the backend inmemory holds at most {self.max_memories_per_agent} memories of an agent"
                )


def _shown(record: MemoryRecord, *, with_vectors: bool) -> MemoryRecord:
    return record if with_vectors else dataclasses.replace(record, vectors=None)

"""Shared knowledge of one process: the log is a list, and what a search sees is read off it."""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from memcore import ids
from memcore.backends.owner import Excluded, excluded_agents
from memcore.backends.predicate import is_expired, is_hit
from memcore.backends.record import MemoryRecord
from memcore.errors import MemoryInputError
from memcore.ledger.shared_entry import SharedEntry
from memcore.models import MemoryEntry, MemoryQuery


@dataclass(frozen=True, slots=True)
class _Publication:
    """An entry, and the versions from which and until which it is there."""

    entry: MemoryEntry
    fact_id: str
    since: int
    until: int | None = None
    ended_at: datetime | None = None

    def is_there(self, version: int) -> bool:
        return self.since <= version and (self.until is None or self.until > version)

    def lines(self) -> Iterator[SharedEntry]:
        entry = self.entry
        yield SharedEntry(
            version=self.since,
            kind="publish",
            memory_id=entry.id,
            agent_id=entry.agent_id,
            at=entry.created_at,
            record=MemoryRecord(entry=entry),
        )
        if self.until is not None and self.ended_at is not None:
            yield SharedEntry(
                version=self.until,
                kind="retract",
                memory_id=entry.id,
                agent_id=entry.agent_id,
                at=self.ended_at,
                record=None,
            )


class InMemoryShared:
    """Keep what agents published until the process ends. Safe in several threads."""

    def __init__(self) -> None:
        self._publications: dict[str, _Publication] = {}
        self._head = 0
        self._lock = threading.Lock()

    def publish(self, fact: MemoryEntry, *, once: bool = False) -> str:
        """Publish an entry under the id of its fact, or anew under another unless only once; return the id."""
        with self._lock:
            before = [one for one in self._publications.values() if one.fact_id == fact.id]
            if before and (once or _stands(before[-1], fact.created_at)):
                return before[-1].entry.id
            memory_id = ids.republished_id(fact_id=fact.id, times_before=len(before)) if before else fact.id
            self._head += 1
            entry = fact.model_copy(update={"id": memory_id})
            self._publications[memory_id] = _Publication(entry, fact.id, since=self._head)
            return memory_id

    def retract(self, agent_id: str, memory_id: str, *, now: datetime) -> bool:
        """End what this agent published; False when it has nothing there under this id."""
        with self._lock:
            one = self._publications.get(memory_id)
            if one is None or one.until is not None or one.entry.agent_id != agent_id:
                return False
            self._head += 1
            self._publications[memory_id] = replace(one, until=self._head, ended_at=now)
            return True

    def search(
        self, query: MemoryQuery, *, exclude_agent: Excluded, version: int | None, now: datetime
    ) -> tuple[MemoryEntry, ...]:
        """Return what matches of a version, newest first, ties by id."""
        left_out = excluded_agents(exclude_agent)
        with self._lock:
            at = self._head if version is None else version
            if not 0 <= at <= self._head:
                raise MemoryInputError("version", f"is {version}; it must be 0 to {self._head}, the newest")
            there = [one.entry for one in self._publications.values() if one.is_there(at)]
        return _newest(e for e in there if e.agent_id not in left_out and is_hit(query, e, now))[: query.limit]

    def history(self, company: str, memory_id: str) -> tuple[SharedEntry, ...]:  # noqa: ARG002  # it has one company
        """Return all lines of the fact that was once published under this id, in order; none for an unknown id."""
        with self._lock:
            named = self._publications.get(memory_id)
            if named is None:
                return ()
            lines = [
                line for one in self._publications.values() if one.fact_id == named.fact_id for line in one.lines()
            ]
        return tuple(sorted(lines, key=lambda line: line.version))

    def version(self) -> int:
        """Return the newest version."""
        with self._lock:
            return self._head


def _stands(publication: _Publication, now: datetime) -> bool:
    return publication.until is None and not is_expired(publication.entry, now)


def _newest(entries: Iterable[MemoryEntry]) -> tuple[MemoryEntry, ...]:
    by_id = sorted(entries, key=lambda entry: entry.id)
    return tuple(sorted(by_id, key=lambda entry: entry.created_at, reverse=True))

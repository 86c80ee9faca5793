"""The calls of AsyncMemory that mem0's paths need, over a dictionary; texts are found by the words that they share."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from memcore.client.results import StoreReceipt
from memcore.errors import MemoryNotFoundError
from memcore.models.memory import MemoryCategory, MemoryEntry, MemoryMetadata

START = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Entry(MemoryEntry):
    """A memory with attributes."""

    attributes: Mapping[str, Any] = {}
    session_id: str | None = None


@dataclass(frozen=True)
class Version:
    """One version of a memory."""

    memory_id: str
    content: str | None
    at: datetime
    event: str
    run_id: str | None = None


@dataclass(frozen=True)
class Listed:
    """A page."""

    entries: tuple[Entry, ...]
    cursor: str | None


@dataclass
class FakeMemories:
    """Keeps memories, and writes down what was asked."""

    entries: dict[str, Entry] = field(default_factory=dict)
    versions: dict[str, list[Version]] = field(default_factory=dict)
    successors: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    page: int = 256

    def _now(self) -> datetime:
        return START + timedelta(seconds=sum(map(len, self.versions.values())))

    async def store(self, agent_id: str, content: str, **fields: Any) -> StoreReceipt:
        assert fields.pop("wait") is True
        self.asked.append(("store", {"agent_id": agent_id, "content": content, **fields}))
        key = (agent_id, content, fields.get("namespace"), fields.get("source"))
        memory_id = str(uuid.uuid5(uuid.NAMESPACE_OID, repr(key)))
        if memory_id not in self.entries:
            source = fields.pop("source", None)
            now = self._now()
            self.entries[memory_id] = Entry(
                id=memory_id, agent_id=agent_id, content=content, category=MemoryCategory.SEMANTIC, created_at=now,
                metadata=MemoryMetadata(source=source), **fields,
            )  # fmt: skip
            self.versions[memory_id] = [Version(memory_id, content, now, "ADD")]
        return StoreReceipt(job_ids=("job",), memory_ids=(memory_id,))

    async def search(self, agent_id: str, text: str | None = None, **filters: Any) -> tuple[Entry, ...]:
        self.asked.append(("search", {"agent_id": agent_id, "text": text, **filters}))
        words = set((text or "").lower().split())
        found = []
        for entry in self._of(agent_id, filters):
            shared = words & set(entry.content.lower().split())
            if shared:
                found.append(entry.model_copy(update={"relevance_score": len(shared) / len(words)}))
        return tuple(sorted(found, key=lambda entry: -(entry.relevance_score or 0)))[: filters["limit"]]

    async def get(self, agent_id: str, memory_id: str) -> Entry | None:
        found = self.entries.get(self._current(memory_id))
        return found if found is not None and found.agent_id == agent_id else None

    async def list(self, agent_id: str, *, limit: int, cursor: str | None = None, **filters: Any) -> Listed:
        self.asked.append(("list", {"agent_id": agent_id, **filters}))
        first = int(cursor or 0)
        found = self._of(agent_id, filters)
        size = min(limit, self.page)
        return Listed(tuple(found[first : first + size]), str(first + size) if first + size < len(found) else None)

    async def update(self, agent_id: str, memory_id: str, **fields: Any) -> Entry:
        self.asked.append(("update", {"agent_id": agent_id, "memory_id": memory_id, **fields}))
        before = await self.get(agent_id, memory_id)
        if before is None:
            raise MemoryNotFoundError("no such memory")
        now = self._now()
        if "confidence" in fields:
            fields["metadata"] = before.metadata.model_copy(update={"confidence": fields.pop("confidence")})
        new = before.model_copy(update={**fields, "id": str(uuid.uuid4()), "updated_at": now})
        del self.entries[before.id]
        self.entries[new.id] = new
        self.successors[before.id] = new.id
        self.versions[new.id] = [*self.versions[before.id], Version(new.id, new.content, now, "UPDATE")]
        return new

    async def forget(self, agent_id: str, memory_ids: Collection[str]) -> None:
        self.asked.append(("forget", {"agent_id": agent_id, "memory_ids": sorted(memory_ids)}))
        for memory_id in map(self._current, memory_ids):
            assert self.entries[memory_id].agent_id == agent_id
            content = self.entries.pop(memory_id).content
            self.versions[memory_id].append(Version(memory_id, content, self._now(), "DELETE"))

    async def history(self, agent_id: str, memory_id: str) -> tuple[Version, ...]:
        del agent_id
        return tuple(self.versions.get(self._current(memory_id), ()))

    def _current(self, memory_id: str) -> str:
        while memory_id in self.successors:
            memory_id = self.successors[memory_id]
        return memory_id

    def _of(self, agent_id: str, filters: Mapping[str, Any]) -> Sequence[Entry]:
        namespaces = filters.get("namespaces")
        return [
            entry
            for entry in self.entries.values()
            if entry.agent_id == agent_id
            and (namespaces is None or entry.namespace in namespaces)
            and all(_at(entry.attributes, path) == value for path, value in filters.get("attributes", {}).items())
        ]


def _at(attributes: Mapping[str, Any], path: str) -> Any:
    found: Any = attributes
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found

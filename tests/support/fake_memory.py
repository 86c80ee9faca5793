"""Memories for tests of adapters: one in a dictionary, and the real one over a store inside the process."""

import asyncio
import json
import re
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from memcore.backends.inmemory import InMemoryBackend
from memcore.client.client import MemoryClient
from memcore.client.envelopes import OutgoingJob
from memcore.client.results import JobState, JobStatus
from memcore.config.policy import Policy
from memcore.errors import MemoryConflictError, MemoryInputError, MemoryNotFoundError
from memcore.ingest import Ingestor
from memcore.jobs import StorePayload
from memcore.ledger.ledger import Ledger
from memcore.memories import Memories
from memcore.memory.memory import Memory
from memcore.models.attributes import has_attributes
from memcore.models.execution import ToolDefinition
from memcore.models.memory import ConsolidationInterval, MemoryEntry, MemoryLevel, MemoryStoreRequest
from memcore.models.memory_changes import ForgetReceipt, MemoryPage

COMPANY = "default"

#: ``list`` is a method of the classes below.
Entries: TypeAlias = list[MemoryEntry]


def _text(properties: Sequence[str]) -> dict[str, Any]:
    fields = {name: {"type": "string"} for name in properties}
    return {"type": "object", "properties": fields, "required": [*properties], "additionalProperties": False}


TOOLS = (
    ToolDefinition(name="search_memory", description="Search your memories.", parameters=_text(["query"])),
    ToolDefinition(name="add_memory", description="Keep something.", parameters=_text(["content"])),
)


class FakeClock:
    """Stands still unless it is moved; each look at it is a microsecond later, so that times have an order."""

    def __init__(self) -> None:
        self.at = datetime(2026, 11, 26, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.at += timedelta(microseconds=1)
        return self.at

    def move(self, **by: float) -> None:
        self.at += timedelta(**by)


class FakeMemory:
    """Keeps entries in a dictionary; a search compares words. ``calls`` counts the calls of each method."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.kept: dict[str, MemoryEntry] = {}
        self.calls: Counter[str] = Counter()

    @property
    def entries(self) -> Entries:
        return [*self.kept.values()]

    def put(self, agent_id: str, content: str, *, only_new: bool = False, **fields: Any) -> MemoryEntry:
        self.calls["put"] += 1
        if only_new and self.get_by_key(agent_id, fields["key"], namespace=fields.get("namespace", "default")):
            raise MemoryConflictError("key: has a memory already")
        metadata = {name: fields.pop(name) for name in ("source", "tags", "confidence") if name in fields}
        return self._write(agent_id, {"content": content, "metadata": metadata, **fields})

    def store_many(self, agent_id: str, memories: Iterable[Any], *, wait: bool = False, **fields: Any) -> object:
        self.calls["store_many"] += 1
        assert wait, "adapters read what they wrote"
        for given in memories:
            self._write(agent_id, {**fields, **given})
        return None

    def _write(self, agent_id: str, given: Mapping[str, Any]) -> MemoryEntry:
        scope = ("session_id", "project_id", "task_id")
        plain = {name: value for name, value in given.items() if name not in scope}
        request = MemoryStoreRequest.model_validate({"category": "semantic", **plain})
        if request.key is not None:
            for each in self._matching(agent_id, keys=[request.key], namespaces=[request.namespace]):
                del self.kept[each.id]
        entry = MemoryEntry(
            id=str(uuid.uuid4()),
            agent_id=agent_id,
            created_at=self.clock(),
            **{name: getattr(request, name) for name in ("namespace", "category", "content", "metadata")},
            expires_at=request.expires_at,
            key=request.key,
            attributes=json.loads(json.dumps(dict(request.attributes))),
            session_id=given.get("session_id"),
        )
        self.kept[entry.id] = entry
        return entry

    def search(self, agent_id: str, text: str | None = None, **filters: Any) -> tuple[MemoryEntry, ...]:
        self.calls["search"] += 1
        limit = filters.pop("limit", 10)
        filters.pop("standing", None)
        found = self._matching(agent_id, **filters)
        if text is None:
            return tuple(sorted(found, key=lambda each: each.created_at, reverse=True)[:limit])
        words = set(re.findall(r"\w+", text.casefold()))
        scored = [each.model_copy(update={"relevance_score": _likeness(words, each.content)}) for each in found]
        return tuple(sorted(scored, key=lambda each: -(each.relevance_score or 0.0))[:limit])

    def get_by_key(self, agent_id: str, key: str, *, namespace: str = "default") -> MemoryEntry | None:
        return next(iter(self._matching(agent_id, keys=[key], namespaces=[namespace])), None)

    def list(self, agent_id: str, *, limit: int = 100, cursor: str | None = None, **filters: Any) -> MemoryPage:
        assert 1 <= limit <= 256
        found = sorted(self._matching(agent_id, **filters), key=lambda each: (each.created_at, each.id))
        start = 0 if cursor is None else int(cursor)
        end = start + limit
        return MemoryPage(entries=tuple(found[start:end]), cursor=str(end) if end < len(found) else None)

    def namespaces(self, agent_id: str) -> tuple[str, ...]:
        return tuple(sorted({each.namespace for each in self._matching(agent_id)}))

    def update(self, agent_id: str, memory_id: str, **fields: Any) -> MemoryEntry:
        self.calls["update"] += 1
        before = self.kept.pop(memory_id, None)
        if before is None or before.agent_id != agent_id:
            raise MemoryNotFoundError("memory_id: names no memory of this agent")
        entry = before.model_copy(update={"id": str(uuid.uuid4()), "updated_at": self.clock(), **fields})
        self.kept[entry.id] = entry
        return entry

    def forget(
        self,
        agent_id: str,
        memory_ids: str | Collection[str] | None = None,
        *,
        expected: str | None = None,
        **filters: Any,
    ) -> ForgetReceipt:
        if expected is not None and expected not in self.kept:
            raise MemoryConflictError("memory_id: another version is there now")
        assert (memory_ids is None) is bool(filters)
        found = self._matching(agent_id, **filters)
        if memory_ids is not None:
            ids = {memory_ids} if isinstance(memory_ids, str) else set(memory_ids)
            found = [each for each in found if each.id in ids]
        for each in found:
            del self.kept[each.id]
        return ForgetReceipt(run_id="run" if found else None, forgotten=tuple(each.id for each in found))

    def tools(self, agent_id: str, *, writes: bool = False) -> tuple[ToolDefinition, ...]:
        assert agent_id
        return TOOLS if writes else TOOLS[:1]

    def call_tool(self, agent_id: str, name: str, arguments: Mapping[str, Any], *, writes: bool = False) -> str:
        if name not in {each.name for each in self.tools(agent_id, writes=writes)}:
            return "Error: there is no tool of this name."
        match name:
            case "search_memory":
                found = self.search(agent_id, arguments["query"], limit=3)
                return "\n".join(each.content for each in found) or "Nothing is known."
            case "add_memory":
                if not arguments["content"].strip():
                    raise MemoryInputError("content", "must not be blank")
                self.put(agent_id, arguments["content"])
                return "Kept."
        raise MemoryInputError("name", "names no tool")

    def _matching(
        self,
        agent_id: str,
        *,
        namespaces: Collection[str] | None = None,
        keys: Collection[str] | None = None,
        attributes: Mapping[str, Any] | None = None,
        expires_by: datetime | None = None,
    ) -> Entries:
        """As the real memory: what has expired is met by this filter alone."""
        now = self.clock()
        return [
            each
            for each in self.kept.values()
            if each.agent_id == agent_id
            and (namespaces is None or each.namespace in namespaces)
            and (keys is None or each.key in keys)
            and (each.expires_at is None or each.expires_at > now if expires_by is None else _expires(each, expires_by))
            and has_attributes(each.attributes, attributes or {})
        ]


def _expires(entry: MemoryEntry, by: datetime) -> bool:
    return entry.expires_at is not None and entry.expires_at <= by


def _likeness(words: set[str], content: str) -> float:
    others = set(re.findall(r"\w+", content.casefold()))
    return len(words & others) / max(1, len(words | others))


class _Worker:
    """Takes the place of a client's connection, and does each store job at once."""

    def __init__(self, ingestor: Ingestor) -> None:
        self._ingestor = ingestor
        self._pool = ThreadPoolExecutor(1)

    def send_many(self, _name: str, outgoing_jobs: Iterable[OutgoingJob], **_how: object) -> None:
        for job in outgoing_jobs:
            items = StorePayload.model_validate_json(job.payload).items
            self._pool.submit(asyncio.run, self._ingestor.write(items)).result()

    def send(self, name: str, payload: str, *, job_id: str, **_how: object) -> str:
        raise AssertionError(f"no worker of this test does {name} {job_id} {payload}")

    def status(self, job_id: str) -> JobStatus:
        return JobStatus(job_id=job_id, state=JobState.DONE)

    def close(self) -> None:
        self._pool.shutdown()


class LocalMemory(Memory):
    """The real Memory, over a store inside the process and a ledger in a folder. Close it, and the ledger after it."""

    def __init__(self, ledger: Ledger, clock: FakeClock) -> None:
        self.clock = clock
        self.calls: Counter[str] = Counter()
        self.backend = InMemoryBackend(company=COMPANY, clock=clock)
        asyncio.run(self.backend.connect())
        ingestor = Ingestor(
            self.backend,
            ledger,
            company=COMPANY,
            interval=ConsolidationInterval.DAILY,
            level=MemoryLevel.PERSISTENT,
        )
        client = MemoryClient("redis://127.0.0.1:1/0")
        client._opened = _Worker(ingestor)  # type: ignore[assignment]  # it has what these calls need
        super().__init__(
            client,
            open_backend=lambda: self.backend,
            policy=Policy(),
            open_memories=lambda backend: Memories(
                backend,  # type: ignore[arg-type]  # this one has a batch protocol
                ledger,
                company=COMPANY,
                policy=Policy(),
                clock=clock,
            ),
        )

    @property
    def entries(self) -> Entries:
        found: Entries = []
        for agent_id in sorted(self.backend._agents):
            found += self.list(agent_id, limit=256).entries
        return found

    def put(self, agent_id: str, content: str, **fields: Any) -> MemoryEntry:
        self.calls["put"] += 1
        return super().put(agent_id, content, **fields)

    def store_many(self, agent_id: str, memories: Iterable[Any], **fields: Any) -> Any:
        self.calls["store_many"] += 1
        return super().store_many(agent_id, memories, **fields)

    def update(self, agent_id: str, memory_id: str, **fields: Any) -> MemoryEntry:
        self.calls["update"] += 1
        return super().update(agent_id, memory_id, **fields)


AnyMemory: TypeAlias = FakeMemory | LocalMemory

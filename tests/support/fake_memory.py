"""A Memory inside the process for tests of adapters: the same calls, nothing behind them."""

import json
import re
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from memcore.errors import MemoryInputError, MemoryNotFoundError


@dataclass(frozen=True, kw_only=True)
class FakeMetadata:
    source: str | None = None
    confidence: float = 1.0
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FakeEntry:
    id: str
    agent_id: str
    namespace: str = "default"
    category: str = "semantic"
    content: str = ""
    metadata: FakeMetadata = FakeMetadata()
    created_at: datetime
    updated_at: datetime | None = None
    expires_at: datetime | None = None
    relevance_score: float | None = None
    scores: None = None
    key: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    session_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class FakePage:
    entries: tuple[FakeEntry, ...]
    cursor: str | None


@dataclass(frozen=True, kw_only=True)
class FakeReceipt:
    run_id: str | None
    forgotten: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class FakeTool:
    name: str
    description: str
    parameters: Mapping[str, Any]


def _text(properties: Sequence[str]) -> dict[str, Any]:
    fields = {name: {"type": "string"} for name in properties}
    return {"type": "object", "properties": fields, "required": list(properties), "additionalProperties": False}


TOOLS = (
    FakeTool(name="search_memory", description="Search your memories.", parameters=_text(["query"])),
    FakeTool(name="add_memory", description="Keep something.", parameters=_text(["content"])),
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
        self.entries: dict[str, FakeEntry] = {}
        self.calls: dict[str, int] = {}

    def _count(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1

    def store(self, agent_id: str, content: str, **fields: Any) -> object:
        return self.store_many(agent_id, [{"content": content}], **fields)

    def store_many(self, agent_id: str, memories: Iterable[Any], *, wait: bool = False, **fields: Any) -> object:
        self._count("store_many")
        assert wait, "adapters read what they wrote"
        for given in memories:
            one = {"category": "semantic", **fields, **given}
            metadata = one.pop("metadata", {})
            attributes = dict(one.pop("attributes", {}))
            self._check(one, attributes)
            key, namespace = one.get("key"), one.get("namespace", "default")
            before = None if key is None else self.get_by_key(agent_id, key, namespace=namespace)
            if before is not None:
                del self.entries[before.id]
            now = self.clock()
            entry = FakeEntry(
                id=str(uuid.uuid4()),
                agent_id=agent_id,
                created_at=now if before is None else before.created_at,
                updated_at=None if before is None else now,
                attributes=json.loads(json.dumps(attributes)),
                metadata=FakeMetadata(**{**metadata, "tags": tuple(metadata.get("tags", ()))}),
                **one,
            )
            self.entries[entry.id] = entry
        return None

    def _check(self, one: Mapping[str, Any], attributes: Mapping[str, Any]) -> None:
        if not one["content"].strip():
            raise MemoryInputError("content", "must not be blank")
        if len(one["content"].encode()) > 65_536:
            raise MemoryInputError("content", "is too long")
        if len(json.dumps(attributes, ensure_ascii=False, separators=(",", ":")).encode()) > 8_192:
            raise MemoryInputError("attributes", "are too long")
        for name in (one.get("key"), one.get("namespace")):
            if name is not None and (
                not name or name != name.strip() or len(name) > 256 or re.search(r"[\x00-\x1f]", name)
            ):
                raise MemoryInputError("key", "has a wrong form")

    def search(self, agent_id: str, text: str | None = None, **filters: Any) -> tuple[FakeEntry, ...]:
        self._count("search")
        limit = filters.pop("limit", 10)
        filters.pop("min_evidence", None)
        found = [
            each
            for each in self._matching(agent_id, **filters)
            if each.expires_at is None or each.expires_at > self.clock()
        ]
        if text is None:
            return tuple(sorted(found, key=lambda each: each.created_at, reverse=True)[:limit])
        words = set(re.findall(r"\w+", text.casefold()))
        scored = [replace(each, relevance_score=_likeness(words, each.content)) for each in found]
        scored.sort(key=lambda each: -(each.relevance_score or 0.0))
        return tuple(scored[:limit])

    def get_by_key(self, agent_id: str, key: str, *, namespace: str = "default") -> FakeEntry | None:
        self._count("get_by_key")
        return next(iter(self._matching(agent_id, keys=[key], namespaces=[namespace])), None)

    def list(
        self,
        agent_id: str,
        *,
        namespaces: Collection[str] | None = None,
        attributes: Mapping[str, Any] | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> FakePage:
        self._count("list")
        assert 1 <= limit <= 256
        found = sorted(
            self._matching(agent_id, namespaces=namespaces, attributes=attributes),
            key=lambda each: (each.created_at, each.id),
        )
        start = 0 if cursor is None else int(cursor)
        end = start + limit
        return FakePage(entries=tuple(found[start:end]), cursor=str(end) if end < len(found) else None)

    def namespaces(self, agent_id: str) -> tuple[str, ...]:
        return tuple(sorted({each.namespace for each in self._matching(agent_id)}))

    def update(self, agent_id: str, memory_id: str, **fields: Any) -> FakeEntry:
        self._count("update")
        before = self.entries.pop(memory_id, None)
        if before is None or before.agent_id != agent_id:
            raise MemoryNotFoundError("memory_id: names no memory of this agent")
        entry = replace(before, id=str(uuid.uuid4()), updated_at=self.clock(), **fields)
        self.entries[entry.id] = entry
        return entry

    def forget(
        self,
        agent_id: str,
        memory_ids: str | Collection[str] | None = None,
        *,
        namespaces: Collection[str] | None = None,
        keys: Collection[str] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> FakeReceipt:
        self._count("forget")
        found = self._matching(agent_id, namespaces=namespaces, keys=keys, attributes=attributes)
        if memory_ids is not None:
            ids = {memory_ids} if isinstance(memory_ids, str) else set(memory_ids)
            found = [each for each in found if each.id in ids]
        for each in found:
            del self.entries[each.id]
        return FakeReceipt(run_id="run" if found else None, forgotten=tuple(each.id for each in found))

    def tools(self, agent_id: str) -> tuple[FakeTool, ...]:
        assert agent_id
        return TOOLS

    def call_tool(self, agent_id: str, name: str, arguments: Mapping[str, Any]) -> str:
        match name:
            case "search_memory":
                found = self.search(agent_id, arguments["query"], limit=3)
                return "\n".join(each.content for each in found) or "Nothing is known."
            case "add_memory":
                if not arguments["content"].strip():
                    raise MemoryInputError("content", "must not be blank")
                self.store(agent_id, arguments["content"], wait=True)
                return "Kept."
        raise MemoryInputError("name", "names no tool")

    def _matching(
        self,
        agent_id: str,
        *,
        namespaces: Collection[str] | None = None,
        keys: Collection[str] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> "list[FakeEntry]":
        return [
            each
            for each in self.entries.values()
            if each.agent_id == agent_id
            and (namespaces is None or each.namespace in namespaces)
            and (keys is None or each.key in keys)
            and all(_at(each.attributes, path) == value for path, value in (attributes or {}).items())
        ]


def _at(attributes: Mapping[str, Any], path: str) -> object:
    found: Any = attributes
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _likeness(words: set[str], content: str) -> float:
    others = set(re.findall(r"\w+", content.casefold()))
    return len(words & others) / max(1, len(words | others))

"""``MemtendStore``: LangGraph's long-term store, on memories."""

import asyncio
import heapq
import math
import operator
import re
import threading
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any

from memcore.adapters.protocol import PAGE, MemoryLike, listed, requiring, write
from memcore.adapters.values import (
    AS_TEXT,
    VALUE,
    VALUE_FROM,
    checked_length,
    escaped_name,
    is_plain,
    kept,
    plain_name,
    text_in,
    value_of,
)
from memcore.clock import Clock, utc_now
from memcore.errors import (
    MemoryConflictError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryInputError,
    MemoryNotFoundError,
)
from memcore.models.answers import Shown
from memcore.models.memory import MemoryEntry

with requiring("langgraph"):
    from langgraph.store.base import (
        BaseStore,
        Embeddings,
        GetOp,
        IndexConfig,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        ensure_embeddings,
        get_text_at_path,
        validate_op_namespace,
    )
    from langgraph.store.base.batch import AsyncBatchedBaseStore

#: Most memories that one search by text returns.
_MOST_FOUND = 1_000

#: Most vectors that a store holds: four for each item of a search, 25 MB where a vector has 1,536 numbers.
_MOST_VECTORS = 4_096

#: How much longer than its TTL an item stays: reads need not write each time, and none goes too early.
_GRACE = 0.1

#: Longest TTL in minutes, a hundred years: later times have no form.
_LONGEST_TTL = 60.0 * 24 * 36_525

#: The attributes of an item: which store's it is, its labels by their place, whether texts find it, its TTL in minutes,
#: the fields that its put named.
_STORE, _LABELS, _INDEXED, _TTL, _FIELDS = "store", "labels", "indexed", "ttl", "fields"

#: What an attribute may be named, for a filter to name it.
_FILTERED_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

#: What no key of a filter may have: quotes, backslashes, control characters. They are attempts to leave a query.
_NEVER_IN_FILTERS = re.compile(r"""["'`\\\x00-\x1f\x7f]""")

#: Minutes between two sweeps where nobody says, as LangGraph's stores.
_SWEEP_MINUTES = 5.0


class MemoryFilterError(MemoryInputError, ValueError):
    """A filter of a search has a key or an operator that is refused; nothing was read."""


class MemtendStore(BaseStore):
    """Keep LangGraph's items as the keyed memories of one agent: searchable, journaled, undoable.

    ::

        graph = builder.compile(store=MemtendStore(memory, agent_id="oncall"))

    A put can be read when it returns. Another value under a key is a version of its own; a delete can be undone.
    Searches by text rank as ``Memory.search`` does and look at the best 1,000; searches without one return the oldest
    first. An item with a TTL goes at most a tenth of it late, and never early.

    Args:
        memory: a ``Memory``, or what ``Memory.connect`` returns. It stays open.
        agent_id: whose memories the items are.
        root: name before all namespaces, without a dot: two roots of one agent are two stores.
        fields: paths of the values that texts are compared with, unless a put names others; all of a value by default.
        index: as LangGraph's stores take it. A search by text then orders the best 1,000 by their cosine in ``embed``,
            which embeds what this store has not embedded before; ``fields`` in it count before the argument.
        ttl: as LangGraph's stores take it. Expired items are never returned, so ``omit_expired`` changes nothing;
            maintenance removes them, and ``sweep_ttl`` earlier.
        category: of the memories.
        session_id, project_id: where they are made; agents of level session or project need them.

    Raises:
        MemoryInputError: a value is not JSON or takes more than 56 KiB, or a key or a namespace has more than 256
            characters (labels joined with dots behind the root; a special character counts three or more).
        MemoryFilterError: a key of a filter has quotes, backslashes or control characters, or an operator is unknown.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: MemoryLike,
        *,
        agent_id: str,
        root: str = "langgraph",
        fields: Sequence[str] = ("$",),
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        category: str = "semantic",
        session_id: str | None = None,
        project_id: str | None = None,
        clock: Clock = utc_now,
    ) -> None:
        if not root or escaped_name(root, also=".") != root:
            raise MemoryInputError("root", "must be a name without dots, percent signs and control characters")
        self._memory = memory
        self._agent_id = agent_id
        self._root = root
        self._fields = tuple((index or {}).get("fields") or fields)
        self.index_config = index
        self.embeddings = ensure_embeddings(index.get("embed")) if index else None
        self._vectors: dict[str, array[float]] = {}
        self.ttl_config = ttl
        self._category = category
        scope = {"session_id": session_id, "project_id": project_id}
        self._scope = {name: value for name, value in scope.items() if value is not None}
        self._clock = clock
        self._sweeper: threading.Thread | None = None
        self._sweeper_ends = threading.Event()

    def setup(self) -> None:
        """Ask memtend for an answer; there is nothing to set up. Raises MemoryConnectionError."""
        self._memory.namespaces(self._agent_id)

    def sweep_ttl(self) -> int:
        """Forget the items that have expired, in one run, and return how many; maintenance does so some time later."""
        gone = self._memory.forget(self._agent_id, attributes={_STORE: self._root}, expires_by=self._clock())
        return len(gone.forgotten)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        """Sweep in a thread, at the interval of this call or of ``ttl``, or every 5 minutes; stop it before the memory.

        Nothing starts without ``ttl``, or a second time. A sweep that memtend does not answer is made at the next time.
        """
        if self.ttl_config is None or self._sweeper is not None:
            return
        minutes = sweep_interval_minutes or self.ttl_config.get("sweep_interval_minutes") or _SWEEP_MINUTES
        self._sweeper_ends.clear()

        def sweep() -> None:
            while not self._sweeper_ends.wait(minutes * 60):
                with suppress(MemoryError):
                    self.sweep_ttl()

        self._sweeper = threading.Thread(target=sweep, name="memtend-ttl-sweeper", daemon=True)
        self._sweeper.start()

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """End the thread, and return whether it ended within these seconds; wait for it where they are left out."""
        self._sweeper_ends.set()
        if self._sweeper is not None:
            self._sweeper.join(timeout)
            if self._sweeper.is_alive():
                return False
            self._sweeper = None
        return True

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer each operation; reads see what was there before the batch, and of two puts to a key the last counts.

        Raises as the class says, and MemoryConnectionError or MemoryStoreError when memtend cannot be reached.
        """
        return self._batch(ops, None)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer each operation in a thread; see batch."""
        return await asyncio.to_thread(self._batch, ops, asyncio.get_running_loop())

    def _batch(self, ops: Iterable[Op], loop: asyncio.AbstractEventLoop | None) -> list[Result]:
        results: list[Result] = []
        puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        for op in ops:
            validate_op_namespace(op)
            match op:
                case GetOp():
                    results.append(self._get(op))
                case SearchOp():
                    results.append(self._search(op, loop))
                case ListNamespacesOp():
                    results.append(self._list(op))
                case PutOp():
                    puts[op.namespace, op.key] = op
                    results.append(None)
                case _:
                    raise TypeError(f"{type(op).__name__} is no operation of a store")
        self._write(puts.values())
        return results

    def _write(self, puts: Collection[PutOp]) -> None:
        written = [self._request(op) for op in puts if op.value is not None]
        deleted: dict[str, list[str]] = {}
        for op in puts:
            if op.value is None:
                deleted.setdefault(self._namespace(op.namespace), []).append(_key(op.key))
        for namespace, keys in deleted.items():
            self._memory.forget(self._agent_id, namespaces=[namespace], keys=keys, attributes={_STORE: self._root})
        write(self._memory, self._agent_id, written, **self._scope)

    def _request(self, op: PutOp) -> dict[str, Any]:
        """Return the memory that keeps an item."""
        value = dict(op.value or {})
        attributes: dict[str, Any] = {
            _STORE: self._root,
            _LABELS: {str(place): escaped_name(label) for place, label in enumerate(op.namespace)},
        }
        text = "" if op.index is False else self._text(value, op.index)
        if text:
            attributes[_INDEXED] = True
        if op.index:
            attributes[_FIELDS] = list(op.index)
        expires_at = None
        if op.ttl is not None:
            if not op.ttl > 0:
                raise MemoryInputError("ttl", "must be more than 0 minutes")
            attributes[_TTL] = ttl = min(float(op.ttl), _LONGEST_TTL)
            expires_at = self._expiry(ttl)
        made = kept(value, text=text or f"item {_key(op.key)}", attributes=attributes)
        return {
            "content": made.content,
            "category": self._category,
            "namespace": self._namespace(op.namespace),
            "key": _key(op.key),
            "attributes": made.attributes,
            "expires_at": expires_at,
            "source": self._root,
        }

    def _text(self, value: dict[str, Any], index: Sequence[str] | None) -> str:
        """Return what an item says in the fields that are indexed."""
        texts: list[str] = []
        for path in self._fields if index is None else index:
            texts += [text_in(value)] if path == "$" else get_text_at_path(value, path)
        return "\n".join(text for text in texts if text.strip())

    def _get(self, op: GetOp) -> Item | None:
        entry = self._memory.get_by_key(self._agent_id, _key(op.key), namespace=self._namespace(op.namespace))
        if entry is None or not self._is_item(entry):
            return None
        if op.refresh_ttl:
            self._refresh(entry)
        return Item(**self._fields_of(entry))

    def _search(self, op: SearchOp, loop: asyncio.AbstractEventLoop | None) -> list[SearchItem]:
        is_ranked = op.query is not None and op.query.strip() != ""
        for name in op.filter or {}:
            if _NEVER_IN_FILTERS.search(name):
                raise MemoryFilterError(
                    "filter", "Invalid filter key: it must have no quotes, backslashes and control characters"
                )
        offset, limit = max(op.offset, 0), max(op.limit, 0)
        if not is_ranked:
            found = self._oldest(op, offset + limit)
        elif self.embeddings is None:
            found = self._ranked(op, offset + limit)
        else:
            found = self._embedded(op.query or "", self._ranked(op, _MOST_FOUND), self.embeddings, loop)
        items: list[SearchItem] = []
        for entry in found[offset : offset + limit]:
            if op.refresh_ttl:
                self._refresh(entry)
            items.append(SearchItem(**self._fields_of(entry), score=entry.relevance_score if is_ranked else None))
        return items

    def _ranked(self, op: SearchOp, wanted: int) -> list[MemoryEntry]:
        """Return items with a text, best first: as many as are wanted, or all that match among the best 1,000."""
        matching: dict[str, MemoryEntry] = {}
        for attributes in self._filters(op, {_INDEXED: True}):
            limit = min(max(wanted, 1), _MOST_FOUND)
            while True:
                found = self._memory.search(
                    self._agent_id, op.query, attributes=attributes, standing=Shown.ANY, limit=limit
                )
                matches = [entry for entry in found if self._matches(entry, op.filter)]
                if len(matches) >= wanted or len(found) < limit or limit == _MOST_FOUND:
                    break
                limit = min(limit * 4, _MOST_FOUND)
            matching.update((entry.id, entry) for entry in matches)
        return _best_first(matching.values())

    def _embedded(
        self,
        query: str,
        found: Collection[MemoryEntry],
        embeddings: Embeddings,
        loop: asyncio.AbstractEventLoop | None,
    ) -> list[MemoryEntry]:
        """Return the items that have a text, by the greatest cosine that one of theirs has with a query."""
        texts = {entry.id: self._texts(entry) for entry in found}
        needed = dict.fromkeys(chain.from_iterable(texts.values()))
        if not needed:
            return []
        held = self._vectors
        new = [text for text in needed if text not in held]

        async def embedded() -> tuple[list[float], list[list[float]]]:
            return await embeddings.aembed_query(query), await embeddings.aembed_documents(new) if new else []

        if loop is None:
            asked, made = embeddings.embed_query(query), embeddings.embed_documents(new) if new else []
        else:  # What an embedder awaits belongs to the loop of the caller.
            asked, made = asyncio.run_coroutine_threadsafe(embedded(), loop).result()
        vectors = dict(zip(new, map(_unit, made), strict=True))
        vectors |= {text: held[text] for text in needed if text in held}
        self._vectors = dict(islice((vectors | held).items(), _MOST_VECTORS))
        question = _unit(asked)
        near = {text: sum(map(operator.mul, question, vector)) for text, vector in vectors.items()}
        return _best_first(
            entry.model_copy(update={"relevance_score": max(near[text] for text in texts[entry.id])})
            for entry in found
            if texts[entry.id]
        )

    def _texts(self, entry: MemoryEntry) -> list[str]:
        """Return the texts of an item that an embedder compares."""
        value = value_of(entry)
        paths = entry.attributes.get(_FIELDS, self._fields)
        return [text for path in paths for text in get_text_at_path(value, path) if text.strip()]

    def _oldest(self, op: SearchOp, wanted: int) -> list[MemoryEntry]:
        """Return the items that match, oldest first, as many as are wanted."""
        page = PAGE if op.filter else min(max(wanted, 1), PAGE)
        pages = [
            listed(self._memory, self._agent_id, attributes=attributes, page=page)
            for attributes in self._filters(op, {})
        ]
        found: dict[str, MemoryEntry] = {}
        for entry in heapq.merge(*pages, key=lambda entry: (entry.created_at, entry.id)):
            if len(found) >= wanted:
                break
            if self._matches(entry, op.filter):
                found[entry.id] = entry
        return list(found.values())

    def _filters(self, op: SearchOp, beside: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return filters of attributes; all items that match one of an operation's are found by one of these."""
        wanted = {_STORE: self._root, **beside}
        wanted |= {f"{_LABELS}.{place}": escaped_name(label) for place, label in enumerate(op.namespace_prefix)}
        texts = {
            f"{VALUE}.{name}": value
            for name, value in (op.filter or {}).items()
            if isinstance(value, str) and is_plain(value) and _FILTERED_NAME.fullmatch(name)
        }
        # A value that is kept as JSON text has no fields to filter by.
        return [wanted | texts, wanted | {AS_TEXT: True}] if texts else [wanted]

    def _matches(self, entry: MemoryEntry, wanted: Mapping[str, Any] | None) -> bool:
        if not self._is_item(entry):
            return False
        if not wanted:
            return True
        value = value_of(entry)
        return all(is_match(_field(value, name), condition) for name, condition in wanted.items())

    def _list(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        found = {
            labels
            for namespace in self._memory.namespaces(self._agent_id)
            if (labels := self._labels(namespace)) is not None
            and all(is_below(condition, labels) for condition in op.match_conditions or ())
        }
        if op.max_depth is not None:
            found = {labels[: op.max_depth] for labels in found}
        return sorted(found)[op.offset : op.offset + op.limit]

    def _is_item(self, entry: MemoryEntry) -> bool:
        """Return whether a memory is an item of this store that has not expired."""
        is_ours = entry.attributes.get(_STORE) == self._root and not entry.attributes.keys().isdisjoint(
            {VALUE, VALUE_FROM}
        )
        return is_ours and (entry.expires_at is None or entry.expires_at > self._clock())

    def _fields_of(self, entry: MemoryEntry) -> dict[str, Any]:
        return {
            "value": value_of(entry),
            "key": plain_name(entry.key or ""),
            "namespace": self._labels(entry.namespace) or (),
            "created_at": entry.created_at,
            "updated_at": entry.updated_at or entry.created_at,
        }

    def _refresh(self, entry: MemoryEntry) -> None:
        """Let an item's TTL begin again, if less than that is left."""
        ttl = entry.attributes.get(_TTL)
        if ttl is None or entry.expires_at is None or entry.expires_at >= self._clock() + timedelta(minutes=ttl):
            return
        try:
            self._memory.update(self._agent_id, entry.id, expires_at=self._expiry(ttl))
        except (MemoryNotFoundError, MemoryConflictError):
            return  # It was deleted or written since it was read.

    def _expiry(self, ttl: float) -> datetime:
        return self._clock() + timedelta(minutes=ttl * (1 + _GRACE))

    def _namespace(self, labels: Sequence[str]) -> str:
        return checked_length(".".join([self._root, *map(escaped_name, labels)]), "namespace")

    def _labels(self, namespace: str) -> tuple[str, ...] | None:
        """Return the labels of a namespace of this store, None of any other."""
        root, *labels = namespace.split(".")
        return tuple(map(plain_name, labels)) if root == self._root else None


class AsyncMemtendStore(AsyncBatchedBaseStore):
    """MemtendStore in the place of LangGraph's AsyncPostgresStore or AsyncSqliteStore; make it in a running event loop.

    What is awaited at the same moment is one batch. Calls without ``await`` raise asyncio.InvalidStateError in that
    loop, which they would stop; in other threads they work.

    Args:
        memory: as MemtendStore takes it.
        how: MemtendStore's other arguments.
    """

    supports_ttl = True

    def __init__(self, memory: MemoryLike, **how: Any) -> None:
        super().__init__()
        self._store = MemtendStore(memory, **how)
        self.ttl_config = self._store.ttl_config
        self.index_config, self.embeddings = self._store.index_config, self._store.embeddings

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """See MemtendStore.abatch."""
        return await self._store.abatch(ops)

    async def setup(self) -> None:
        """See MemtendStore.setup."""
        await asyncio.to_thread(self._store.setup)

    async def sweep_ttl(self) -> int:
        """See MemtendStore.sweep_ttl."""
        return await asyncio.to_thread(self._store.sweep_ttl)

    async def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        """See MemtendStore.start_ttl_sweeper."""
        self._store.start_ttl_sweeper(sweep_interval_minutes)

    async def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109  # LangGraph's name
        """See MemtendStore.stop_ttl_sweeper."""
        return await asyncio.to_thread(self._store.stop_ttl_sweeper, timeout)


def _best_first(found: Iterable[MemoryEntry]) -> list[MemoryEntry]:
    return sorted(found, key=lambda entry: -(entry.relevance_score or 0.0))


def _unit(vector: Sequence[float]) -> "array[float]":
    """Return a vector of length 1, or of zeros: the product of two is their cosine."""
    length = math.hypot(*vector) or 1.0
    return array("f", (each / length for each in vector))


def _field(value: Mapping[str, Any], name: str) -> Any:
    """Return what a value has under a name; where it has none, under the names between its dots."""
    if name in value:
        return value[name]
    found: Any = value
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _key(key: str) -> str:
    return checked_length(escaped_name(key), "key")


def is_below(condition: MatchCondition, labels: Sequence[str]) -> bool:
    """Return whether a namespace begins or ends as a condition says, in which ``*`` is any label."""
    path = condition.path
    if condition.match_type not in {"prefix", "suffix"}:
        raise ValueError(f"{condition.match_type!r} is no way to match: use prefix or suffix")
    part = labels[: len(path)] if condition.match_type == "prefix" else labels[-len(path) :]
    return len(part) == len(path) and all(wanted in {"*", label} for wanted, label in zip(path, part, strict=True))


def is_match(value: Any, wanted: Any) -> bool:
    """Return whether a value is what a filter wants: equal, or as its operators say; mappings may have more names."""
    match wanted:
        case Mapping() if any(name.startswith("$") for name in wanted):
            return all(_holds(value, operator, operand) for operator, operand in wanted.items())
        case Mapping():
            return isinstance(value, Mapping) and all(is_match(value.get(name), each) for name, each in wanted.items())
        case list() | tuple():
            return (
                isinstance(value, list)
                and len(value) == len(wanted)
                and all(is_match(found, each) for found, each in zip(value, wanted, strict=True))
            )
        case _:
            return bool(value == wanted)


def _holds(value: Any, operator: str, operand: Any) -> bool:
    match operator:
        case "$eq":
            return bool(value == operand)
        case "$ne":
            return bool(value != operand)
        case "$gt":
            return _order(value, operand) == 1
        case "$gte":
            return _order(value, operand) in {0, 1}
        case "$lt":
            return _order(value, operand) == -1
        case "$lte":
            return _order(value, operand) in {-1, 0}
        case _:
            raise MemoryFilterError("filter", f"{operator} is no operator: use $eq, $ne, $gt, $gte, $lt or $lte")


def _order(value: Any, operand: Any) -> int | None:
    """Return -1, 0 or 1 as a value is less, equal or more: numbers by size, texts by alphabet; None for any other."""
    left: Any = _number(value)
    right: Any = _number(operand)
    if left is None or right is None:
        if not isinstance(value, str) or not isinstance(operand, str):
            return None
        left, right = value, operand
    elif math.isnan(left) or math.isnan(right):
        return None
    return int(left > right) - int(left < right)


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None

"""The memories of a key as mem0's clients see them: add, find, list, change and delete, over memtend's agents."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memcore.deadline.limits import limited_parts
from memcore.errors import MemoryConflictError, MemoryInputError, MemoryNotFoundError
from memcore.ledger.access.keys import Verb
from memcore.memory.async_memory import AsyncMemory
from memcore.models.answers import Shown, Standing
from memcore.models.memory import MemoryEntry
from memcore.models.memory_changes import MemoryVersion
from memcore.service.memories import MemoryOperations
from ops.http.access import Caller
from ops.http.mem0.filters import ANYTHING, UNNAMED, Comparison, Condition, Every, equal_metadata, equals, parsed
from ops.http.mem0.models import AddBody, FeedbackBody, Identified, ListBody, SearchBody, UpdateBody
from ops.http.mem0.people import People
from ops.http.mem0.translation import (
    OWN,
    Identity,
    as_attribute,
    attributes_of,
    entities_of,
    expiry_of,
    history_of_entry,
    metadata_of,
    new_memories,
    own_of,
    record_of_entry,
    stored_records,
)

#: The agent of calls that name none, where the key is for several.
DEFAULT_AGENT = "mem0"

#: Most agents that one search asks.
MAX_AGENTS = 64

#: Agents that are asked for an id at once.
_AT_ONCE = 16

#: Most memories of a page of the core's list, and of a search.
_PAGE, _MOST_FOUND = 256, 1_000

#: How many more memories are looked for than asked for, where conditions remain that the store does not know.
_WIDER = 5

#: What negative feedback leaves of a memory's confidence, at most.
_CONFIDENCE = {"NEGATIVE": 0.5, "VERY_NEGATIVE": 0.2}

#: Changes of one memory at the same moment before the client gets an error.
_ATTEMPTS = 20

#: How many memories are removed in one run.
_REMOVED_AT_ONCE = 1_000


@dataclass(frozen=True, kw_only=True)
class Mem0Api:
    """mem0's calls for one key.

    Attributes:
        memories: what an engine does with the company's.
        operations: what a person does with them: the audit has what is forgotten.
        people: what conversations left of people.
        caller: whose key it is.
        known_agents: returns the ids of the company's agents behind one, in order.
    """

    memories: AsyncMemory
    operations: MemoryOperations
    people: People
    caller: Caller
    known_agents: Callable[[str | None], Awaitable[Sequence[str]]]

    @property
    def default_agent(self) -> str:
        """The agent of calls that name none: the only one of the key, or ``mem0``."""
        agents = self.caller.agents
        return next(iter(agents)) if agents is not None and len(agents) == 1 else DEFAULT_AGENT

    async def add(self, body: AddBody) -> dict[str, Any]:
        """Keep messages: what a language model draws from them, or the texts as they are.

        Texts are kept as they are with ``infer`` false, where no model is connected, for nobody in particular, and with
        what facts do not carry: metadata, an app or an expiry. No text is lost: turns that no model was asked about in
        time are kept, and what comes of them is found later.
        """
        identity = Identity.of(body)
        if not identity.is_known:
            raise MemoryInputError("user_id", "give a user_id, agent_id, app_id or run_id: whose memory is it?")
        agent_id = identity.agent_id or self.default_agent
        self.caller.require(Verb.WRITE, agent_id=agent_id)
        plain = not (body.metadata or body.app_id or body.expiration_date)
        has_subject = identity.user_id is not None or identity.run_id is not None
        if body.infer and plain and has_subject and self.people.can_infer:
            return await self.people.add(agent_id, body.messages, user_id=identity.user_id, session_id=identity.run_id)
        new = new_memories(body)
        stored = await asyncio.gather(*(self.memories.put(agent_id, each.content, **each.fields) for each in new))
        return {"results": stored_records(zip((entry.id for entry in stored), new, strict=True))}

    async def search(self, body: SearchBody) -> dict[str, Any]:
        """Return what matches a question, best first, with scores; facts about the people named stand among it."""
        condition = self._condition(body)
        wanted = body.limit or body.top_k
        found = await asyncio.gather(
            *(self._found(agent_id, body.query, condition, wanted) for agent_id in self._reached(condition, Verb.READ))
        )
        records = [record for part in found for record in part]
        least = body.threshold or 0.0
        best = sorted((one for one in records if one["score"] >= least), key=lambda one: -one["score"])[:wanted]
        return {"results": best if body.fields is None else [_chosen(one, body.fields) for one in best]}

    async def listed(self, body: ListBody, *, page: int, page_size: int) -> tuple[list[dict[str, Any]], int]:
        """Return a page of what matches, memories oldest first and facts behind them, and how many match in all."""
        condition = self._condition(body)
        first, count, results = (page - 1) * page_size, 0, list[dict[str, Any]]()
        # Clients list by POST, too.
        with limited_parts():
            for agent_id in self._reached(condition, Verb.READ):
                async for record in self._matching(agent_id, condition):
                    if first <= count < first + page_size:
                        results.append(record if body.fields is None else _chosen(record, body.fields))
                    count += 1
        return results, count

    async def get(self, memory_id: str) -> dict[str, Any]:
        """Return a memory or a fact by its id. Raises MemoryNotFoundError."""
        if (entry := await self._located(memory_id, Verb.READ)) is not None:
            return record_of_entry(entry)
        return (await self.people.get(memory_id, sees=self._reads)).record

    async def update(self, memory_id: str, body: UpdateBody) -> dict[str, Any]:
        """Change a memory, and return it as it is then, under the id of its new version.

        Raises MemoryNotFoundError; MemoryCapabilityError for a fact, which says what a person said.
        """

        def fields_of(entry: MemoryEntry) -> dict[str, Any]:
            fields: dict[str, Any] = {}
            if body.content is not None:
                fields["content"] = body.content
            if body.metadata is not None:
                metadata = {**metadata_of(entry.attributes), **body.metadata}
                fields["attributes"] = attributes_of(metadata, _plain_own(entry))
            if "expiration_date" in body.model_fields_set:
                fields["expires_at"] = None if body.expiration_date is None else expiry_of(body.expiration_date)
            return fields

        return record_of_entry(await self._changed(memory_id, fields_of))

    async def delete(self, memory_id: str) -> None:
        """Forget a memory or a fact; a run or a person can bring it back. Raises MemoryNotFoundError."""
        if (entry := await self._located(memory_id, Verb.WRITE)) is not None:
            await self.operations.forget(entry.agent_id, [entry.id], by=self.caller.name)
            return
        kept = await self.people.get(memory_id, sees=self._reads)
        self.caller.require(Verb.WRITE, agent_id=kept.owner.agent_id)
        await self.people.forget(kept, by=self.caller.name)

    async def delete_matching(self, body: Identified) -> int:
        """Forget everything that matches, and return how many; the filters must name whose memories they are."""
        condition = self._condition(body)
        if all(UNNAMED in (condition.named(field) or {UNNAMED}) for field in Identified.entities):
            raise MemoryInputError("user_id", "give a user_id, agent_id, app_id or run_id: whose memories are they?")
        reached = self._reached(condition, Verb.WRITE)
        return sum([await self._forget(agent_id, condition) for agent_id in reached])

    async def delete_entity(self, kind: str, name: str) -> int:
        """Forget everything of a user, an agent, an app or a run, with every agent of the key."""
        field = f"{kind}_id"
        if field not in Identified.entities:
            raise MemoryInputError("entity_type", "must be user, agent, app or run")
        if kind == "agent" and name == ANYTHING:
            return await self.reset()
        condition = Every(tuple(equals(**{field: name})))
        agents = [name] if kind == "agent" else await self._every_agent()
        for agent_id in agents:
            self.caller.require(Verb.WRITE, agent_id=agent_id)
        return sum([await self._forget(agent_id, condition) for agent_id in agents])

    async def reset(self) -> int:
        """Forget everything of every agent of the key, and return how many."""
        agents = await self._every_agent()
        for agent_id in agents:
            self.caller.require(Verb.MAINTAIN, agent_id=agent_id)
        return sum([await self._forget(agent_id, Every(())) for agent_id in agents])

    async def history(self, memory_id: str) -> list[dict[str, Any]]:
        """Return what became of a memory or a fact, oldest first. Raises MemoryNotFoundError."""
        async for agent_id in self._candidates(Verb.READ):
            versions = await self._versions(agent_id, memory_id)
            if versions:
                entry = await self.memories.get(agent_id, memory_id)
                identity = {"agent_id": agent_id} if entry is None else record_of_entry(entry)
                return history_of_entry(memory_id, versions, identity=identity)
        return await self.people.history(memory_id, sees=self._reads)

    async def entities(self) -> list[dict[str, Any]]:
        """Return the users, agents, apps and runs of the key's agents, with how many memories each has."""
        records = []
        for agent_id in await self._every_agent():
            self.caller.require(Verb.READ, agent_id=agent_id)
            records += [record async for record in self._matching(agent_id, Every(()))]
        return entities_of(records)

    async def feedback(self, body: FeedbackBody) -> dict[str, Any]:
        """Keep what a person thinks of a memory with it; what is negative lowers its confidence."""
        said = {"feedback": body.feedback, "feedback_reason": body.feedback_reason}

        def fields_of(entry: MemoryEntry) -> dict[str, Any]:
            own = _plain_own(entry)
            own.update({name: value for name, value in said.items() if value is not None})
            if body.feedback is None:
                for name in said:
                    own.pop(name, None)
            fields: dict[str, Any] = {"attributes": attributes_of(metadata_of(entry.attributes), own)}
            if (most := _CONFIDENCE.get(body.feedback or "")) is not None:
                fields["confidence"] = min(most, entry.metadata.confidence)
            return fields

        changed = await self._changed(body.memory_id, fields_of)
        return {"id": changed.id, "memory_id": body.memory_id, **said}

    async def _changed(self, memory_id: str, fields_of: Callable[[MemoryEntry], dict[str, Any]]) -> MemoryEntry:
        """Change what is in the place of a memory now: mem0's ids stay, so any version's is that of today.

        Raises MemoryNotFoundError; MemoryCapabilityError for a fact; MemoryConflictError where others always change it.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            entry = await self._located(memory_id, Verb.WRITE)
            if entry is None:
                await self.people.get(memory_id, sees=self._reads)
                raise self.people.unchangeable
            fields = fields_of(entry)
            try:
                return await self.memories.update(entry.agent_id, entry.id, **fields) if fields else entry
            except MemoryConflictError:
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError("unreachable")  # pragma: no cover  # the last attempt returns or raises

    def _condition(self, body: Identified) -> Every:
        more: list[Condition] = []
        if isinstance(body, (SearchBody, ListBody)) and body.categories:
            more.append(Comparison("categories", "in", tuple(body.categories)))
        if isinstance(body, SearchBody) and body.metadata:
            more.append(Comparison("metadata", "contains", body.metadata))
        if isinstance(body, ListBody):
            for name, operator, value in (("start_date", "gte", body.start_date), ("end_date", "lte", body.end_date)):
                if value is not None:
                    more += parsed({"created_at": {operator: value}}, field=name).parts
        return Every((*parsed(body.filters).parts, *_named(body), *more))

    def _reached(self, condition: Every, verb: Verb) -> list[str]:
        """Return the agents that filters are about: those that they name, or the default one."""
        named = condition.named("agent_id")
        if named is None:
            named = frozenset({UNNAMED})
        if ANYTHING in named:
            if self.caller.agents is None:
                raise MemoryInputError("filters.agent_id", "must name agents: the key is for all of the company")
            named = self.caller.agents
        agents = sorted({name or self.default_agent for name in named})
        if len(agents) > MAX_AGENTS:
            raise MemoryInputError("filters.agent_id", f"names {len(agents)} agents; the limit is {MAX_AGENTS}")
        for agent_id in agents:
            self.caller.require(verb, agent_id=agent_id)
        return agents

    async def _found(self, agent_id: str, query: str, condition: Every, wanted: int) -> list[dict[str, Any]]:
        # The filters are held against what was found, and the best may be among what they leave out.
        narrowed: dict[str, Any] = {"standing": Shown.ANY}
        if (namespaces := _namespaces(condition)) is not None:
            narrowed["namespaces"] = namespaces
        if attributes := _attributes(condition):
            narrowed["attributes"] = attributes
        records: list[dict[str, Any]] = []
        for limit in dict.fromkeys((min(wanted * _WIDER, _MOST_FOUND), _MOST_FOUND)):
            entries = await self.memories.search(agent_id, query, limit=limit, **narrowed)
            scored = [({**record_of_entry(each), "score": each.relevance_score or 0.0}, each) for each in entries]
            matching = [(record, each) for record, each in scored if condition.matches(record)]
            standing = [record for record, each in matching if each.standing is not Standing.ABSENT]
            records = standing or [record for record, _ in matching]
            if len(matching) >= wanted or len(entries) < limit:
                break
        facts = await self.people.found(
            agent_id, query, users=_values(condition, "user_id"), runs=_values(condition, "run_id")
        )
        return records + [record for record in facts if condition.matches(record)]

    async def _matching(self, agent_id: str, condition: Every) -> AsyncIterator[dict[str, Any]]:
        async for entry in self._entries(agent_id, condition):
            record = record_of_entry(entry)
            if condition.matches(record):
                yield record
        users, runs = _values(condition, "user_id"), _values(condition, "run_id")
        for kept in await self.people.listed(agent_id, users=users, runs=runs):
            if condition.matches(kept.record):
                yield kept.record

    async def _entries(self, agent_id: str, condition: Every) -> AsyncIterator[MemoryEntry]:
        narrowed: dict[str, Any] = {}
        if (namespaces := _namespaces(condition)) is not None:
            narrowed["namespaces"] = namespaces
        if attributes := _attributes(condition, with_runs=False):
            narrowed["attributes"] = attributes
        cursor: str | None = None
        while True:
            page = await self.memories.list(agent_id, limit=_PAGE, cursor=cursor, **narrowed)
            for entry in page.entries:
                yield entry
            cursor = page.cursor
            if cursor is None:
                return

    async def _forget(self, agent_id: str, condition: Every) -> int:
        found = [
            entry.id async for entry in self._entries(agent_id, condition) if condition.matches(record_of_entry(entry))
        ]
        for at in range(0, len(found), _REMOVED_AT_ONCE):
            ids = found[at : at + _REMOVED_AT_ONCE]
            await self.operations.forget(agent_id, ids, by=self.caller.name)
        users, runs = _values(condition, "user_id"), _values(condition, "run_id")
        kept = [
            one for one in await self.people.listed(agent_id, users=users, runs=runs) if condition.matches(one.record)
        ]
        for one in kept:
            await self.people.forget(one, by=self.caller.name)
        return len(found) + len(kept)

    async def _located(self, memory_id: str, verb: Verb) -> MemoryEntry | None:
        """Return a memory of an agent of the key; None where none has it."""
        waiting: list[str] = []
        async for agent_id in self._candidates(verb):
            waiting.append(agent_id)
            if len(waiting) == _AT_ONCE or agent_id == self.default_agent:
                if (found := await self._first(memory_id, waiting)) is not None:
                    return found
                waiting = []
        return await self._first(memory_id, waiting)

    async def _first(self, memory_id: str, agents: Iterable[str]) -> MemoryEntry | None:
        found = await asyncio.gather(*(self.memories.get(agent_id, memory_id) for agent_id in agents))
        return next((entry for entry in found if entry is not None), None)

    async def _versions(self, agent_id: str, memory_id: str) -> tuple[MemoryVersion, ...]:
        try:
            return await self.memories.history(agent_id, memory_id)
        except MemoryNotFoundError:
            return ()

    async def _candidates(self, verb: Verb) -> AsyncIterator[str]:
        """Yield the agents that may have an id: the default one first."""
        first = self.default_agent
        if self.caller.sees(first):
            self.caller.require(verb, agent_id=first)
            yield first
        for agent_id in await self._every_agent():
            if agent_id != first:
                self.caller.require(verb, agent_id=agent_id)
                yield agent_id

    async def _every_agent(self) -> list[str]:
        if self.caller.agents is not None:
            return sorted(self.caller.agents)
        found: list[str] = []
        while page := await self.known_agents(found[-1] if found else None):
            found += page
        return found

    def _reads(self, agent_id: str) -> bool:
        return self.caller.sees(agent_id)


def _named(body: Identified) -> list[Condition]:
    identity = Identity.of(body)
    return equals(user_id=identity.user_id, agent_id=identity.agent_id, app_id=identity.app_id, run_id=identity.run_id)


def _values(condition: Every, field: str) -> frozenset[str] | None:
    """Return the only values of a field that matches have; None where it may be any."""
    values = condition.named(field)
    return None if values is None or values & {ANYTHING, UNNAMED, None} else values


def _namespaces(condition: Every) -> frozenset[str] | None:
    users = _values(condition, "user_id")
    return None if users is None else frozenset(Identity(user_id=user).namespace for user in users)


def _attributes(condition: Every, *, with_runs: bool = True) -> dict[str, Any]:
    """Return what a store can narrow by: metadata that all matches have, and the app and the run."""
    found = {path: value for name, value in equal_metadata(condition).items() if (path := as_attribute(name))}
    for field in ("app_id", "run_id") if with_runs else ("app_id",):
        values = _values(condition, field)
        if values is not None and len(values) == 1:
            found[f"{OWN}.{field}"] = next(iter(values))
    return found


def _plain_own(entry: MemoryEntry) -> dict[str, Any]:
    """Return mem0's own fields of a memory, without the metadata among them."""
    return {name: value for name, value in own_of(entry.attributes).items() if name != "metadata"}


def _chosen(record: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name in {"id", "score"} or name in fields}

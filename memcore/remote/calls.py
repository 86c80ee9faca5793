"""The calls of Memory as requests: arguments are checked here as Memory checks them, and answers become its results."""

import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from pydantic_core import to_jsonable_python

from memcore.client.envelopes import Scope, checked, checked_scope, portions
from memcore.client.results import (
    AppliedReceipt,
    DistillReceipt,
    JobReceipt,
    JobStatus,
    StoreReceipt,
    TurnReceipt,
)
from memcore.clock import utc_now
from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.jobs import ApplicationOutcome
from memcore.memory.conversation import TOKEN_BUDGET, checked_least, checked_owner
from memcore.memory.fields import checked_query, checked_question, named_as_given, split_fields, with_fields
from memcore.models.asking import EVENT_OF, Answer, AskEvent, MemoryQuestion
from memcore.models.base import Frozen
from memcore.models.conversation import LayerCounts
from memcore.models.execution import ChatMessage, ExecutionTrace, PreparedMessages, ToolDefinition
from memcore.models.memory import (
    MemoryEntry,
    MemoryQuery,
    MemoryStoreRequest,
    is_uuid,
    named_ids,
    require_agent_id,
    require_path_name,
    require_prompt,
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
from memcore.remote.requests import Call, known, of_this_release

#: Filters of a list as parameters, which are given once for each value.
_SINGULAR = {"namespaces": "namespace", "categories": "category", "tags": "tag", "keys": "key"}

_PLURAL = {parameter: name for name, parameter in _SINGULAR.items()}

#: Most memories of one request, and most bytes of their JSON: half of what the server reads.
_BATCH, _BATCH_BYTES = 256, 512 * 1024


class LoadedTurn(Frozen):
    """What is remembered of a person, as the server prepared it for a prompt.

    Attributes:
        prepared: the messages.
        reasons: why there is less than there might be.
        degraded: the parts that did not answer.
    """

    prepared: tuple[ChatMessage, ...] = ()
    reasons: tuple[str, ...] = ()
    degraded: tuple[str, ...] = ()

    def messages(self) -> tuple[ChatMessage, ...]:
        """Return the messages to put between the system prompt and the turn, or nothing where there is nothing."""
        return self.prepared


def new_key() -> str:
    """Return a name for a request that no other request has."""
    return str(uuid.uuid4())


def store(
    agent_id: str, content: str, fields: Mapping[str, Any], *, key: str, only_new: bool = False
) -> Call[StoreReceipt]:
    """Return the request that stores one memory."""
    request, scope = split_fields(fields)
    with named_as_given():
        made = checked(MemoryStoreRequest, {**request, "content": content}, name="request")
        ends_with = checked_scope(scope)
    if only_new:
        require_key(made)
    body = {**_memory(made), **_said(ends_with)}
    return _storing(_path(agent_id, "memories"), body, key=key, only_new=only_new)


def store_many(
    agent_id: str,
    memories: Iterable[str | MemoryStoreRequest | Mapping[str, Any]],
    fields: Mapping[str, Any],
    *,
    key: str,
) -> Iterator[Call[StoreReceipt]]:
    """Return the requests that store many memories; all are checked before the first is returned."""
    request, scope = split_fields(fields)
    with named_as_given():
        made = [
            _memory(checked(MemoryStoreRequest, each, name=f"requests.{place}", prefix=f"requests.{place}"))
            for place, each in enumerate(with_fields(memories, request))
        ]
        ends_with = _said(checked_scope(scope))
    parts = portions(made, size=_bytes, most=_BATCH, most_size=_BATCH_BYTES)
    path = _path(agent_id, "memories:batch")
    return (_storing(path, {"memories": part, **ends_with}, key=f"{key}-{number}") for number, part in enumerate(parts))


def joined(receipts: Iterable[StoreReceipt]) -> StoreReceipt:
    """Return one receipt for several."""
    all_of_them = list(receipts)
    return StoreReceipt(
        job_ids=tuple(job for each in all_of_them for job in each.job_ids),
        memory_ids=tuple(memory for each in all_of_them for memory in each.memory_ids),
    )


def search(agent_id: str, text: str | None, filters: Mapping[str, Any]) -> Call[tuple[MemoryEntry, ...]]:
    """Return the request that searches."""
    query = checked_query(text, filters)
    return Call(method="POST", path=_path(agent_id, "search"), body=_said(query), read=_found)


def ask(agent_id: str, question: str, fields: Mapping[str, Any]) -> Call[Answer]:
    """Return the request that asks a question."""
    asked = checked_question(question, fields)
    return Call(
        method="POST",
        path=_path(agent_id, "ask"),
        body=_said(asked),
        read=lambda given: known(Answer, given),
        work_seconds=asked.timeout_seconds,
    )


def ask_stream(agent_id: str, question: str, fields: Mapping[str, Any]) -> Call[Answer]:
    """Return the same request for the parts of the answer, which are read by ``part_of``."""
    whole = ask(agent_id, question, fields)
    return replace(whole, path=f"{whole.path}/events")


_PARTS = {name: kind for kind, name in EVENT_OF.items()}


def part_of(event: str, given: Any) -> AskEvent | None:
    """Return a part of an answer; None for an event of a later release."""
    with of_this_release():
        return known(_PARTS[event], given) if event in _PARTS else None


def get(agent_id: str, memory_id: str) -> Call[MemoryEntry | None] | None:
    """Return the request that reads one memory; None for what is no memory's id."""
    path = _memory_path(agent_id, memory_id)
    return None if path is None else Call(method="GET", path=path, read=_entry_if_any, is_optional=True)


def prepare(
    agent_id: str,
    text: str,
    *,
    token_budget: int,
    categories: Collection[str] | None = None,
    require_all: bool = False,
    time_zone: str | None = None,
    min_authority: str | None = None,
) -> Call[PreparedMessages]:
    """Return the request that prepares a prompt."""
    require_prompt(text, token_budget)
    query = checked_query(None, {"categories": categories, "time_zone": time_zone, "min_authority": min_authority})
    wanted = None if query.categories is None else sorted(query.categories)
    body = {"text": text, "token_budget": token_budget, "categories": wanted}
    if require_all:
        body["require_all"] = True
    body |= _present({"time_zone": query.time_zone, "min_authority": query.min_authority})
    return Call(method="POST", path=_path(agent_id, "context"), body=body, read=_prepared)


def load_turn(
    agent_id: str,
    text: str,
    *,
    user_id: str | None = None,
    session_id: str | None = None,
    token_budget: int = TOKEN_BUDGET,
    is_first_turn: bool | None = None,
    min_authority: str | None = None,
) -> Call[LoadedTurn]:
    """Return the request for what is remembered of a person."""
    checked_owner(agent_id, user_id, session_id)
    require_prompt(text, token_budget)
    body = {"text": text, "user_id": user_id, "session_id": session_id, "token_budget": token_budget}
    body["is_first_turn"] = is_first_turn
    body |= _present({"min_authority": checked_least(min_authority)})
    return Call(method="POST", path=_path(agent_id, "conversations/load"), body=body, read=_loaded)


def set_recall(agent_id: str, is_on: bool, *, user_id: str | None = None, session_id: str | None = None) -> Call[None]:
    """Return the request that turns recall on or off."""
    checked_owner(agent_id, user_id, session_id)
    body = {"is_on": is_on, "user_id": user_id, "session_id": session_id}
    return Call(method="PUT", path=_path(agent_id, "conversations/recall"), body=body, read=_nothing)


def conversation_status(
    agent_id: str, *, user_id: str | None = None, session_id: str | None = None
) -> Call[LayerCounts]:
    """Return the request for how much is kept of a person."""
    checked_owner(agent_id, user_id, session_id)
    params = {"user_id": user_id, "session_id": session_id}
    path = _path(agent_id, "conversations/status")
    return Call(method="GET", path=path, params=_present(params), read=lambda given: known(LayerCounts, given))


def distill(
    agent_id: str, trace: ExecutionTrace | Mapping[str, Any], *, scope: Mapping[str, Any], key: str
) -> Call[DistillReceipt]:
    """Return the request that sends how a task went."""
    made = checked(ExecutionTrace, trace, name="trace", prefix="trace")
    with named_as_given():
        ends_with = checked_scope(scope)
    return Call(
        method="POST",
        path=_path(agent_id, "distill"),
        body={"trace": made.model_dump(mode="json", exclude_defaults=True), **_said(ends_with)},
        read=lambda given: DistillReceipt(job_id=given["operation_id"], trace_id=given["trace_id"]),
        idempotency_key=key,
    )


def applied(
    agent_id: str, skill_id: str, outcome: ApplicationOutcome, *, task_id: str | None, key: str
) -> Call[AppliedReceipt]:
    """Return the request that reports an applied skill."""
    if not is_uuid(skill_id):
        raise MemoryInputError("skill_id", "must be the id under which the skill or lesson was found: a UUID")
    return Call(
        method="POST",
        path=_path(agent_id, f"skills/{skill_id}/applied"),
        body=_present({"outcome": outcome, "task_id": task_id}),
        read=lambda given: known(AppliedReceipt, given),
        idempotency_key=key,
    )


def extract_turn(
    agent_id: str,
    *,
    key: str,
    session_id: str,
    user_text: str,
    assistant_text: str = "",
    user_id: str | None = None,
    turn: str | None = None,
    at: datetime | None = None,
) -> Call[TurnReceipt]:
    """Return the request that sends a turn of a conversation."""
    checked_owner(agent_id, user_id, session_id)
    if not str(user_text).strip():
        raise MemoryInputError("user_text", "must not be blank")
    said = {"session_id": session_id, "user_text": user_text, "assistant_text": assistant_text}
    return Call(
        method="POST",
        path=_path(agent_id, "conversations/turns"),
        body=_present({**said, "user_id": user_id, "turn": turn, "at": at}),
        read=lambda given: TurnReceipt(job_id=given["operation_id"], turn_id=given["turn_id"]),
        idempotency_key=key,
    )


def end_conversation(
    agent_id: str, *, session_id: str, user_id: str | None, at: datetime | None, key: str
) -> Call[JobReceipt]:
    """Return the request that ends a session."""
    checked_owner(agent_id, user_id, session_id)
    return Call(
        method="POST",
        path=_path(agent_id, "conversations/sessions/end"),
        body=_present({"session_id": session_id, "user_id": user_id, "at": at}),
        read=lambda given: JobReceipt(job_id=given["operation_id"]),
        idempotency_key=key,
    )


def list_(agent_id: str, *, limit: int, cursor: str | None, filters: Mapping[str, Any]) -> Call[MemoryPage] | None:
    """Return the request for a page of memories; None where a filter allows no value."""
    given = _filters(filters)
    if any(given.get(name) == [] for name in ("namespaces", "categories", "keys")):
        return None
    params = {**{_SINGULAR.get(name, name): value for name, value in given.items()}, "limit": limit, "cursor": cursor}
    if attributes := params.pop("attributes", None):
        # The one filter that is no list of names.
        params["attributes"] = json.dumps(dict(checked_query(None, {"attributes": attributes}).attributes))
    return Call(method="GET", path=_path(agent_id, "memories"), params=_present(params), read=_page, arguments=_PLURAL)


def namespaces(agent_id: str) -> Call[tuple[str, ...]]:
    """Return the request for an agent's namespaces."""
    return Call(method="GET", path=_path(agent_id, "namespaces"), read=lambda given: tuple(given["namespaces"]))


def count(agent_id: str, *, category: str | None = None) -> Call[int]:
    """Return the request for how many memories an agent has."""
    params = _present({"category": category})
    return Call(method="GET", path=_path(agent_id, "memories:count"), params=params, read=lambda given: given["count"])


def update(
    agent_id: str, memory_id: str, fields: Mapping[str, Any], *, expected: str | None = None
) -> Call[MemoryEntry]:
    """Return the request that changes a memory: the same again changes nothing."""
    for name in fields.keys() - UpdateFields.__annotations__.keys():
        raise MemoryInputError(name, "is not a field that can be changed")
    path = _memory_path(agent_id, memory_id)
    with named_as_given():
        # The server looks at its own clock.
        require_changes(fields, now=utc_now() if path is None else None)
    if path is None:
        raise MemoryNotFoundError("memory_id: names no memory of this agent")
    # None is a value here: it takes a source or an end away.
    body = to_jsonable_python({name: _listed(value) for name, value in fields.items()})
    conditions = {} if expected is None else {"If-Match": f'"{expected}"'}
    return Call(
        method="PATCH", path=path, body=body, read=lambda given: known(MemoryEntry, given), conditions=conditions
    )


def forget(
    agent_id: str,
    memory_ids: str | Collection[str] | None,
    *,
    everything: bool,
    filters: Mapping[str, Any],
    key: str,
    expected: str | None = None,
) -> Call[ForgetReceipt]:
    """Return the request that forgets memories; under its key it is done once, and answered with the same run."""
    given = _filters(filters)
    if (memory_ids is not None) + any(value != [] for value in given.values()) + everything != 1:
        raise MemoryInputError("memory_ids", "give ids, or filters, or everything=True: one of them")
    body = dict(given)
    if memory_ids is not None:
        body["memory_ids"] = named_ids(memory_ids)
    if everything:
        body["everything"] = True
    if expected is not None:
        body["expected"] = expected
    return Call(
        method="POST",
        path=_path(agent_id, "memories:forget"),
        body=_present(body),
        read=lambda answer: known(ForgetReceipt, answer),
        idempotency_key=key,
    )


def history(agent_id: str, memory_id: str) -> Call[tuple[MemoryVersion, ...]]:
    """Return the request for what became of a memory."""
    path = _memory_path(agent_id, memory_id, "/history")
    if path is None:
        raise MemoryNotFoundError("memory_id: names no memory of this agent, now or before")
    return Call(method="GET", path=path, read=_versions)


def tools(agent_id: str | None = None, *, writes: bool = False) -> Call[tuple[ToolDefinition, ...]]:
    """Return the request for the definitions of tools. Raises MemoryInputError without an agent: a key is for some."""
    if agent_id is None:
        raise MemoryInputError("agent_id", "is missing: over HTTP a key is asked whether it is for the agent")

    def read(given: Any) -> tuple[ToolDefinition, ...]:
        return tuple(known(ToolDefinition, each) for each in given["tools"])

    return Call(method="GET", path=_path(agent_id, "tools"), params={"writes": writes}, read=read)


def call_tool(
    agent_id: str, name: str, arguments: Mapping[str, Any] | str | None = None, *, writes: bool = False
) -> Call[str]:
    """Return the request that calls a tool; a text that is written twice is one memory."""
    body = {"name": name, "arguments": arguments, "writes": writes}
    return Call(
        method="POST",
        path=_path(agent_id, "tools:call"),
        body=_present(body),
        read=lambda given: str(given["answer"]),
    )


def operation(operation_id: str) -> Call[JobStatus]:
    """Return the request for how far an operation is; its id stands for that of a job."""

    def read(given: Any) -> JobStatus:
        return known(JobStatus, {**given, "job_id": operation_id})

    return Call(method="GET", path=f"/v1/operations/{_name(operation_id, field='jobs')}", read=read)


def _path(agent_id: str, rest: str) -> str:
    return f"/v1/agents/{_name(require_agent_id(agent_id), field='agent_id')}/{rest}"


def _name(given: str, *, field: str) -> str:
    return quote(require_path_name(given, field=field), safe="")


def _memory_path(agent_id: str, memory_id: str, rest: str = "") -> str | None:
    """Return the path of a memory; None for what is no memory's id, and so has none."""
    path = _path(agent_id, f"memories/{require_text(memory_id, field='memory_id')}{rest}")
    return path if is_uuid(memory_id) else None


def _storing(path: str, body: Mapping[str, Any], *, key: str, only_new: bool = False) -> Call[StoreReceipt]:
    def read(given: Any) -> StoreReceipt:
        return StoreReceipt(job_ids=(given["operation_id"],), memory_ids=tuple(given["memory_ids"]))

    conditions = {"If-None-Match": ANY_VERSION} if only_new else {}
    return Call(method="POST", path=path, body=body, read=read, idempotency_key=key, conditions=conditions)


def _memory(request: MemoryStoreRequest) -> dict[str, Any]:
    """Return a memory's fields beside each other, as the server takes them."""
    fields = request.model_dump(mode="json", exclude_unset=True)
    return {**{name: value for name, value in fields.items() if name != "metadata"}, **fields.get("metadata", {})}


def _said(given: Scope | MemoryQuery | MemoryQuestion) -> dict[str, Any]:
    fields: dict[str, Any] = given.model_dump(mode="json", exclude_unset=True)
    return {name: value for name, value in fields.items() if value is not None}


def _present(fields: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = to_jsonable_python({name: value for name, value in fields.items() if value is not None})
    return found


def _filters(given: Mapping[str, Any]) -> dict[str, Any]:
    for name in given.keys() - ListFields.__annotations__.keys():
        raise MemoryInputError(name, "is not a known filter")
    return {name: _listed(value) for name, value in given.items() if value is not None}


def _listed(value: Any) -> Any:
    """Return names in a set as a list, in order: two equal requests are written alike."""
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value


def _bytes(body: Mapping[str, Any]) -> int:
    return len(json.dumps(body, ensure_ascii=True))


def _page(given: Any) -> MemoryPage:
    return MemoryPage(entries=_found(given), cursor=given.get("cursor"))


def _versions(given: Any) -> tuple[MemoryVersion, ...]:
    return tuple(known(MemoryVersion, each) for each in given["versions"])


def _found(given: Any) -> tuple[MemoryEntry, ...]:
    return tuple(known(MemoryEntry, each) for each in given["memories"])


def _entry_if_any(given: Any) -> MemoryEntry | None:
    return None if given is None else known(MemoryEntry, given)


def _messages(given: Any) -> tuple[ChatMessage, ...]:
    return tuple(known(ChatMessage, each) for each in given["messages"])


def _prepared(given: Any) -> PreparedMessages:
    return PreparedMessages.of(_messages(given), degraded=given.get("degraded", ()))


def _loaded(given: Any) -> LoadedTurn:
    return LoadedTurn(
        prepared=_messages(given),
        reasons=tuple(given.get("reasons", ())),
        degraded=tuple(given.get("degraded", ())),
    )


def _nothing(_given: Any) -> None:
    return None

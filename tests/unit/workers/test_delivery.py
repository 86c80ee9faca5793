import json
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kombu import compression
from kombu.message import Message
from support.execution_traces import trace
from support.malformed_messages import SECRET, valid, written

from memcore.client.envelopes import OutgoingJob, build_payload, store_jobs
from memcore.errors import MemoryInputError
from memcore.jobs import (
    MAX_MESSAGE_BYTES,
    MAX_PAYLOAD_BYTES,
    MAX_QUERIES,
    MAX_QUESTION_CHARS,
    MAX_SHOWN,
    MAX_USES,
    DistillPayload,
    QueryPayload,
    Queue,
    RecordedQuery,
    Use,
    UsePayload,
)
from memcore.models.memory import MAX_CONTENT_BYTES, MAX_KEY_CHARS, MemoryCategory, MemoryStoreRequest
from workers.consumer import check_message, hide_arguments, refuse_compressed

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def delivered(*, body: Any = None, headers: dict[str, Any] | None = None, **changed: Any) -> Message:
    """Return the message of a store job as a channel of kombu's hands it over, with some of it changed."""
    raw = json.loads(valid("job-1"))
    info = {"exchange": "", "routing_key": "memory.store.0"}
    sent = [[SECRET], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
    fields = {
        "body": json.dumps(sent if body is None else body).encode(),
        "headers": {**raw["headers"], **(headers or {})},
        "properties": {"correlation_id": "job-1", "reply_to": "", "priority": 0},
        "delivery_info": info,
        "content_type": "application/json",
        "content_encoding": "utf-8",
    }
    return Message(**{**fields, **changed})


def test_what_our_client_sends_is_read() -> None:
    check_message(delivered(), may_expire=False)
    soon = (datetime.now(UTC) + timedelta(seconds=60)).isoformat()
    check_message(
        delivered(headers={"eta": soon, "retries": 3, "timelimit": [25.0, 20], "traceparent": "00-1"}), may_expire=False
    )
    check_message(delivered(headers={"expires": soon}, body=[[], {}, {}]), may_expire=True)
    check_message(delivered(body=[[], {"payload": "{}"}, {}]), may_expire=False)


def test_an_object_is_a_payload_too() -> None:
    for body in ([[{"company": "acme"}], {}, {}], [[], {"payload": {}}, {}]):
        check_message(delivered(body=body), may_expire=False)


@pytest.mark.parametrize("depth", [700, 1_500])
def test_an_object_that_a_job_may_not_be_able_to_write_is_refused(depth: int) -> None:
    # A worker's child may be deeper in its calls than the loop that looks at the message.
    nested: dict[str, Any] = {}
    for _ in range(depth):
        nested = {"a": nested}
    with pytest.raises(MemoryInputError, match="must call a job with one payload"):
        check_message(message_of(nested), may_expire=False)


def message_of(payload: dict[str, Any]) -> Any:
    """A message whose body is decoded already: the decoder has a limit of its own."""
    message = delivered()
    message._decoded_cache = [[payload], {}, {}]
    return message


def test_arguments_that_another_client_quotes_are_shown_to_nobody() -> None:
    headers = {"argsrepr": repr([SECRET]), "kwargsrepr": repr({"payload": SECRET}), "id": "job-1"}
    hide_arguments(headers)
    assert headers == {"argsrepr": "...", "kwargsrepr": "...", "id": "job-1"}
    ours = {"argsrepr": "2 memories", "kwargsrepr": ""}
    hide_arguments(ours)
    assert ours == {"argsrepr": "2 memories", "kwargsrepr": ""}


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (lambda: delivered(headers={"id": [SECRET]}), "headers.id"),
        (lambda: delivered(headers={"id": "\x1b[31m"}), "headers.id"),
        (lambda: delivered(headers={"timelimit": SECRET}), "headers.timelimit"),
        (lambda: delivered(headers={"timelimit": [-1, None]}), "headers.timelimit.0"),
        (lambda: delivered(headers={"timelimit": [float("nan"), None]}), "headers.timelimit.0"),
        (lambda: delivered(headers={"retries": 2**63}), "headers.retries"),
        (lambda: delivered(headers={"eta": SECRET}), "headers.eta"),
        (lambda: delivered(headers={"eta": "0001-01-01T00:00:00+14:00"}), "headers.eta"),
        (lambda: delivered(headers={"eta": "9999-12-31T23:59:59-12:00"}), "headers.eta"),
        (lambda: delivered(headers={"expires": "2020-01-01T00:00:00"}), "headers.expires"),
        (lambda: delivered(headers={"get": SECRET}), "headers"),
        (lambda: delivered(headers={"headers": SECRET}), "headers.headers"),
        (lambda: delivered(headers={"origin": "\ud800"}), "headers.origin"),
        (lambda: delivered(properties={"correlation_id": [SECRET]}), "properties.correlation_id"),
        (lambda: delivered(delivery_info={"routing_key": [SECRET]}), "delivery_info.routing_key"),
        (lambda: delivered(content_type="application/data"), "content_type"),
        (lambda: delivered(content_encoding="zlib"), "content_encoding"),
        (lambda: delivered(body=[[SECRET], {}]), "body"),
        (lambda: delivered(body={"args": [SECRET], "kwargs": {}}), "body"),
        (lambda: delivered(body=7), "body"),
        (lambda: delivered(body=[[SECRET, SECRET], {}, {}]), "body"),
        (lambda: delivered(body=[["\ud800"], {}, {}]), "body"),
        (lambda: delivered(body=[["a\0b"], {}, {}]), "body"),
        (lambda: delivered(body=[[[SECRET]], {}, {}]), "body"),
        (lambda: delivered(body=[[{}], {"payload": {}}, {}]), "body"),
        (lambda: delivered(body=[[{}], {}, {"callbacks": [{"task": SECRET}]}]), "body"),
        (lambda: delivered(body=[[], {SECRET: "{}"}, {}]), "body"),
        (lambda: delivered(body=[[], {}, {"chord": {"task": SECRET}}]), "body"),
        (lambda: Message(body=b"[" * 100_000, headers=delivered().headers, content_type="application/json",
                         content_encoding="utf-8"), "body"),
        (lambda: Message(body=b"\xff" + SECRET.encode(), headers=delivered().headers, content_type="application/json",
                         content_encoding="utf-8"), "body"),
    ],
)  # fmt: skip
def test_what_no_client_of_ours_could_have_written_is_refused_by_field_and_not_quoted(
    message: Callable[[], Message], field: str
) -> None:
    with pytest.raises(MemoryInputError) as refused:
        check_message(message(), may_expire=False)
    assert refused.value.field == field
    assert SECRET not in str(refused.value)


def test_a_message_above_the_limit_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Message, "decode", lambda _: pytest.fail("decoded"))
    with pytest.raises(MemoryInputError, match=f"body: has .* bytes; the limit is {MAX_MESSAGE_BYTES}"):
        check_message(delivered(body="x" * MAX_MESSAGE_BYTES), may_expire=False)


def test_nothing_is_unpacked_before_it_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "_decoders", dict(compression._decoders))
    refuse_compressed()
    bomb = zlib.compress(b"0" * 10_000_000)
    message = Message(body=bomb, headers={"compression": "zlib"})
    assert message.body == bomb
    assert message.errors


def stored(character: str) -> str:
    content = character * (MAX_CONTENT_BYTES // len(character.encode()))
    request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=content)
    items = [build_payload("a" * MAX_KEY_CHARS, request, company="acme", sent_at=NOW) for _ in range(200)]
    return max((job.payload for job in store_jobs("acme", items, queue=Queue.STORE)), key=len)


def distilled(character: str) -> str:
    size = MAX_PAYLOAD_BYTES // len(json.dumps(character, ensure_ascii=False)[1:-1].encode()) - 2_000
    large = trace(output=character * size)
    made = DistillPayload(company="acme", agent_id="a", trace_id="t", trace=large, sent_at=large.ended_at)
    return made.model_dump_json()


def used(character: str) -> str:
    # A name holds no control characters.
    key = character if character.isprintable() else '"'
    use = Use(agent_id=key * MAX_KEY_CHARS, memory_id="0" * 36, uses=2**31 - 1, last_used_at=NOW)
    return UsePayload(company="acme", batch_id="b", uses=(use,) * MAX_USES).model_dump_json()


def asked(character: str) -> str:
    key = character if character.isprintable() else '"'
    query = RecordedQuery(
        agent_id=key * MAX_KEY_CHARS,
        question=key * MAX_QUESTION_CHARS,
        memory_ids=("0" * 36,) * MAX_SHOWN,
        asked_at=NOW,
    )
    return QueryPayload(company="acme", queries=(query,) * MAX_QUERIES).model_dump_json()


@pytest.mark.parametrize("character", ["x", '"', "\\", "\x01", "é", "日", "😀"])
@pytest.mark.parametrize("payload", [stored, distilled, used, asked])
def test_the_largest_message_of_our_clients_is_below_the_limit(payload: Callable[[str], str], character: str) -> None:
    text = payload(character)
    outgoing_job = OutgoingJob(job_id="j", queue="memory.store.0", payload=text, summary="1")
    assert len(written(outgoing_job)) < MAX_MESSAGE_BYTES * 3 // 4

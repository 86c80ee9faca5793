"""Requests over HTTP: what is sent, when it is sent again, and which error an answer becomes."""

import json
import logging
import random
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from support.execution_traces import trace

from memcore import errors
from memcore.models.memory import MemoryCategory, MemoryStoreRequest
from memcore.remote.async_remote_memory import AsyncRemoteMemory
from memcore.remote.connection import AsyncConnection, Connection
from memcore.remote.problems import RemoteRefusedError
from memcore.remote.remote_memory import RemoteMemory
from memcore.remote.requests import ATTEMPTS, Address

ADDRESS = Address(url="http://api:1/base/", key="mt_secret")
MEMORY_ID = "3f0c7a52-8f0e-5c6c-9a55-0d6f7a1b2c31"
STORED = {"operation_id": "op.1", "memory_ids": [MEMORY_ID]}
ENTRY = {
    "id": MEMORY_ID,
    "agent_id": "oncall",
    "category": "semantic",
    "content": "Payments page at 500.",
    "created_at": "2026-01-01T00:00:00Z",
    "valid_until": "2026-02-01T00:00:00Z",
    "key": "page",
    "attributes": {"a": [1]},
    "field_of_a_later_release": 1,
}


class Server:
    """Answers one request after the other with what a test says, and keeps what came."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers: Iterator[httpx.Response | Exception] = iter(answers)
        self.came: list[httpx.Request] = []
        self.pauses: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.came.append(request)
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def memory(self) -> RemoteMemory:
        transport = httpx.MockTransport(self)
        connection = Connection(ADDRESS, transport=transport, sleep=self.pauses.append, dice=random.Random(1))
        return RemoteMemory(connection, new_key=lambda: "k", monotonic=lambda: sum(self.pauses))

    def async_memory(self) -> AsyncRemoteMemory:
        async def sleep(seconds: float) -> None:
            self.pauses.append(seconds)

        transport = httpx.MockTransport(self)
        connection = AsyncConnection(ADDRESS, transport=transport, sleep=sleep, dice=random.Random(1))
        return AsyncRemoteMemory(connection, new_key=lambda: "k", monotonic=lambda: sum(self.pauses))

    @property
    def body(self) -> Any:
        return json.loads(self.came[-1].content)


def ok(value: Any, status: int = 200) -> httpx.Response:
    return httpx.Response(status, json=value)


def problem(status: int, code: str, detail: str = "no", **more: Any) -> httpx.Response:
    return httpx.Response(status, json={"status": status, "domain_code": code, "detail": detail, **more})


def test_a_store_says_what_memory_would_have_sent_and_has_a_key_of_its_own() -> None:
    server = Server(ok(STORED, 202))
    receipt = server.memory().store(
        "on call/1", "Payments page.", tags=["b", "a"], source="s", key="page", attributes={"n": 1}, session_id="s-1"
    )
    (came,) = server.came
    assert (receipt.job_ids, receipt.memory_ids) == (("op.1",), (MEMORY_ID,))
    assert came.url.raw_path == b"/base/v1/agents/on%20call%2F1/memories"
    assert came.headers["Authorization"] == "Bearer mt_secret"
    assert came.headers["Idempotency-Key"] == "k"
    assert server.body == {
        "category": "semantic",
        "content": "Payments page.",
        "tags": ["b", "a"],
        "source": "s",
        "key": "page",
        "attributes": {"n": 1},
        "session_id": "s-1",
    }


def test_many_memories_travel_in_portions_with_keys_of_their_own() -> None:
    server = Server(ok(STORED, 202), ok({"operation_id": "op.2", "memory_ids": ["x"]}, 202))
    last = MemoryStoreRequest(category=MemoryCategory.SOCIAL, content="Ada is kind.")
    many: list[str | MemoryStoreRequest] = [*(f"Text {number}" for number in range(256)), last]
    receipt = server.memory().store_many("oncall", many, namespace="n", task_id="t")
    assert receipt.job_ids == ("op.1", "op.2")
    assert [came.headers["Idempotency-Key"] for came in server.came] == ["k-0", "k-1"]
    assert server.body == {"memories": [{"category": "social", "content": "Ada is kind."}], "task_id": "t"}


WRONG: list[tuple[Callable[[Any], Any], str]] = [
    (lambda memory: memory.store("oncall", " "), "content"),
    (lambda memory: memory.store(" ", "x"), "agent_id"),
    (lambda memory: memory.store("oncall", "x", mood="sad"), "mood"),
    (lambda memory: memory.store("oncall", "x", confidence=7), "confidence"),
    (lambda memory: memory.store_many("oncall", ["x", " "]), "memories.1.content"),
    (lambda memory: memory.search("oncall", "x", limit=0), "limit"),
    (lambda memory: memory.prepare("oncall", "x", token_budget=9, categories=["gossip"]), "categories.0"),
    (lambda memory: memory.load_turn("oncall", "x", user_id=" "), "user_id"),
    (lambda memory: memory.list("oncall", mood="sad"), "mood"),
    (lambda memory: memory.update("oncall", MEMORY_ID, namespace="n"), "namespace"),
    (lambda memory: memory.forget("oncall"), "memory_ids"),
    (lambda memory: memory.forget("oncall", [MEMORY_ID], tags=["x"]), "memory_ids"),
    (lambda memory: memory.in_mode("loud"), "mode"),
    (lambda memory: memory.tools(), "agent_id"),
    (lambda memory: memory.extract_turn("oncall", session_id="s", user_text=" "), "user_text"),
    # httpx would take the part out of the path, and ask for another one.
    (lambda memory: memory.store("..", "x"), "agent_id"),
    (lambda memory: memory.search(".", "x"), "agent_id"),
    (lambda memory: memory.forget("..", [MEMORY_ID]), "agent_id"),
    (lambda memory: memory.wait([".."]), "jobs"),
]


@pytest.mark.parametrize(("call", "field"), WRONG)
def test_a_wrong_argument_is_refused_before_anything_is_sent(call: Callable[[Any], Any], field: str) -> None:
    server = Server()
    with pytest.raises(errors.MemoryInputError) as caught:
        call(server.memory())
    assert caught.value.field == field
    assert server.came == []


def test_an_entry_has_all_that_is_known_of_it_and_a_later_releases_fields_do_no_harm() -> None:
    server = Server(ok({"memories": [ENTRY]}))
    (found,) = server.memory().search("oncall", "payments", categories=["semantic"], limit=3)
    assert (found.key, dict(found.attributes)) == ("page", {"a": [1]})
    assert found.valid_until is not None
    assert server.body == {"text": "payments", "categories": ["semantic"], "limit": 3}


ANSWERS = [
    (problem(422, "invalid", "tags: too many", field="tags"), errors.MemoryInputError, "tags: too many"),
    (problem(404, "not_found"), errors.MemoryNotFoundError, "no"),
    (problem(501, "not_supported"), errors.MemoryCapabilityError, "no"),
    (problem(403, "denied"), RemoteRefusedError, "no"),
    (problem(401, "unauthorized"), RemoteRefusedError, "no"),
    (problem(413, "too_large"), RemoteRefusedError, "no"),
    (problem(500, "internal"), RemoteRefusedError, "no"),
    (httpx.Response(500, text="<html>"), RemoteRefusedError, "the server answered with status 500"),
    (httpx.Response(302, headers={"Location": "http://x/"}), errors.MemoryConfigError, "another address"),
    (httpx.Response(200, text="<html>"), errors.MemoryConfigError, "another form"),
    (ok({"memories": [{"id": "x"}]}), errors.MemoryConfigError, "another form"),
    (ok([1]), errors.MemoryConfigError, "another form"),
]


@pytest.mark.parametrize(("answer", "kind", "said"), ANSWERS)
def test_an_answer_becomes_memtends_own_error(answer: httpx.Response, kind: type[Exception], said: str) -> None:
    server = Server(answer)
    with pytest.raises(kind, match=said) as caught:
        server.memory().search("oncall", "x")
    assert type(caught.value) is kind
    assert len(server.came) == 1
    if isinstance(caught.value, RemoteRefusedError):
        assert caught.value.status == answer.status_code


def test_a_memory_that_is_not_there_is_none_and_what_is_no_id_is_not_asked_for() -> None:
    server = Server(problem(404, "not_found"))
    memory = server.memory()
    assert memory.get("oncall", MEMORY_ID) is None
    assert memory.get("oncall", "../../admin") is None
    with pytest.raises(errors.MemoryNotFoundError):
        memory.update("oncall", "../x", content="y")
    assert len(server.came) == 1


PASSING: list[httpx.Response | Exception] = [
    problem(429, "rate_limited"),
    problem(503, "unavailable"),
    httpx.Response(502, text="bad gateway"),
    httpx.ConnectError("refused"),
    httpx.ReadTimeout("slow"),
    httpx.RemoteProtocolError("gone"),
]


@pytest.mark.parametrize("trouble", PASSING)
def test_passing_trouble_is_tried_again_with_the_same_key(trouble: httpx.Response | Exception) -> None:
    server = Server(trouble, trouble, ok(STORED, 202))
    assert server.memory().store("oncall", "x").memory_ids == (MEMORY_ID,)
    assert [came.headers["Idempotency-Key"] for came in server.came] == ["k"] * 3
    assert [came.content for came in server.came] == [server.came[0].content] * 3
    assert 0.05 <= server.pauses[0] <= 0.1 <= server.pauses[1] <= 0.2


LASTING: list[tuple[httpx.Response | Exception, type[errors.MemoryError]]] = [
    (problem(429, "rate_limited"), errors.MemoryQueueFullError),
    (problem(503, "unavailable"), errors.MemoryConnectionError),
    (httpx.ConnectError("refused"), errors.MemoryConnectionError),
]


@pytest.mark.parametrize(("trouble", "kind"), LASTING)
async def test_trouble_that_lasts_ends_with_an_error_that_can_be_retried(
    trouble: httpx.Response | Exception, kind: type[errors.MemoryError]
) -> None:
    server = Server(*[trouble] * ATTEMPTS)
    with pytest.raises(kind) as caught:
        await server.async_memory().search("oncall", "x")
    assert caught.value.is_retryable
    assert len(server.came) == ATTEMPTS


def test_a_server_says_how_long_to_wait_and_nobody_waits_for_minutes() -> None:
    patient = Server(httpx.Response(429, headers={"Retry-After": "3"}, json={}), ok({"memories": []}))
    assert patient.memory().search("oncall", "x") == ()
    assert 3 < patient.pauses[0] <= 3.1
    hurried = Server(httpx.Response(429, headers={"Retry-After": "600"}, json={}))
    with pytest.raises(errors.MemoryQueueFullError):
        hurried.memory().search("oncall", "x")
    assert hurried.pauses == []


def test_forgetting_is_done_once_however_often_it_is_sent() -> None:
    answer = ok({"run_id": "r", "forgotten": [MEMORY_ID]})
    server = Server(httpx.ReadTimeout("slow"), answer)
    assert server.memory().forget("oncall", keys={"b", "a"}).run_id == "r"
    assert [came.headers["Idempotency-Key"] for came in server.came] == ["k", "k"]
    assert server.body == {"keys": ["a", "b"]}


def test_a_list_names_each_value_of_its_filters() -> None:
    server = Server(ok({"memories": [ENTRY], "cursor": "next"}))
    memory = server.memory()
    page = memory.list("oncall", keys=["a", "b"], tags=("t",), attributes={"value.n": 1}, limit=5)
    assert (len(page.entries), page.cursor) == (1, "next")
    query = server.came[0].url.params
    assert query.multi_items() == [
        ("key", "a"), ("key", "b"), ("tag", "t"), ("limit", "5"), ("attributes", '{"value.n": 1}'),
    ]  # fmt: skip
    assert memory.list("oncall", namespaces=[]).entries == ()
    assert len(server.came) == 1


def operation(state: str, **more: Any) -> httpx.Response:
    return ok({"operation_id": "op.1", "state": state, "is_finished": state in {"done", "dead"}, **more})


async def test_a_store_that_waits_asks_until_its_operation_has_ended() -> None:
    server = Server(ok(STORED, 202), operation("pending"), operation("running"), operation("done"))
    await server.async_memory().store("oncall", "x", wait=True)
    assert [came.url.path for came in server.came[1:]] == ["/base/v1/operations/op.1"] * 3


def test_a_store_that_was_given_up_or_takes_too_long_says_so() -> None:
    given_up = Server(ok(STORED, 202), operation("dead", reason="level none"))
    with pytest.raises(errors.MemoryStoreError, match="level none"):
        given_up.memory().store("oncall", "x", wait=True)
    late = Server(ok(STORED, 202), *[operation("pending")] * 10_000)
    with pytest.raises(TimeoutError):
        late.memory().store("oncall", "x", wait=True)


@pytest.mark.parametrize("trouble", [problem(503, "unavailable"), problem(401, "unauthorized")])
def test_no_task_fails_for_what_could_not_be_sent(trouble: httpx.Response, caplog: pytest.LogCaptureFixture) -> None:
    server = Server(*[trouble] * 100)
    with caplog.at_level(logging.WARNING):
        assert server.memory().distill("oncall", trace("t-1")) is None
        assert server.memory().extract_turn("oncall", session_id="s", user_text="I like tea.") is None
        assert server.memory().end_conversation("oncall", session_id="s") is None
        assert server.memory().applied("oncall", MEMORY_ID, "success") is None
    assert [record.getMessage() for record in caplog.records] == ["memory.remote.lost"] * 4
    assert "tea" not in caplog.text


CANNOT: list[Callable[[Any], Any]] = [
    lambda memory: memory.client,
    lambda memory: memory.add("I like tea.", agent_id="oncall", user_id="ada"),
    lambda memory: memory.in_mode("incognito"),
    lambda memory: memory.mem0("oncall"),
]


@pytest.mark.parametrize("call", CANNOT)
def test_what_http_cannot_do_says_what_to_use(call: Callable[[Any], Any]) -> None:
    with pytest.raises(errors.MemoryCapabilityError, match=r"^\w+: .*: "):
        call(Server().memory())


async def test_conversations_are_this_memorys_where_nothing_is_hidden() -> None:
    memory, other = Server().memory(), Server().async_memory()
    assert memory.in_mode("local") is memory
    assert await other.in_mode("synced") is other


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"url": "api:8321"}, "url"),
        ({"url": "ftp://api"}, "url"),
        ({"url": "http://"}, "url"),
        ({"url": "http://user:pass@api"}, "url"),
        ({"url": "http://api?key=1"}, "url"),
        ({"url": "http://api", "key": "mt_\n"}, "key"),
        ({"url": "http://api", "timeout_seconds": 0}, "timeout_seconds"),
    ],
)
def test_an_address_that_cannot_be_one_is_refused(given: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.MemoryInputError) as caught:
        RemoteMemory.connect(**given)
    assert caught.value.field == field


def test_the_key_is_not_in_what_is_printed() -> None:
    assert "mt_secret" not in repr(ADDRESS)


PASSAGE = {
    "memory_id": MEMORY_ID,
    "text": "Payments page at 500.",
    "category": "semantic",
    "date": "2026-01-01",
    "whose": "own",
}
SENTENCE = {"text": "Payments page at 500.", "memory_ids": [MEMORY_ID]}
WHOLE = {"passages": [PASSAGE], "answered_by": "model", "sentences": [SENTENCE], "field_of_a_later_release": 1}


def events(*parts: tuple[str, Any]) -> httpx.Response:
    text = "".join(f": ping\n\nevent: {name}\ndata: {json.dumps(given)}\n\n" for name, given in parts)
    return httpx.Response(200, text=text, headers={"Content-Type": "text/event-stream"})


def test_a_question_says_what_was_said_and_waits_as_long_as_the_model_may_take() -> None:
    server = Server(ok(WHOLE))
    answer = server.memory().ask("oncall", "When?", timeout_seconds=90, categories=["semantic"])
    assert (answer.text, answer.passages[0].memory_id) == ("Payments page at 500.", MEMORY_ID)
    assert server.came[0].url.path == "/base/v1/agents/oncall/ask"
    assert server.body == {"question": "When?", "timeout_seconds": 90.0, "categories": ["semantic"]}
    assert server.came[0].extensions["timeout"]["read"] == 120.0


def test_the_parts_of_an_answer_are_read_as_they_come_and_those_of_a_later_release_passed_over() -> None:
    given = (("passages", {"passages": [PASSAGE]}), ("mood", 1), ("sentence", SENTENCE), ("answer", WHOLE))
    server = Server(problem(503, "unavailable"), events(*given))
    parts = [*server.memory().ask_stream("oncall", "When?")]
    assert [type(each).__name__ for each in parts] == ["FoundPassages", "AnswerSentence", "Answer"]
    assert [came.url.path for came in server.came] == ["/base/v1/agents/oncall/ask/events"] * 2


async def test_the_async_one_reads_the_same_parts() -> None:
    memory = Server(httpx.ConnectError("no"), events(("sentence", SENTENCE), ("answer", WHOLE))).async_memory()
    parts = [each async for each in await memory.ask_stream("oncall", "When?")]
    assert [type(each).__name__ for each in parts] == ["AnswerSentence", "Answer"]
    with pytest.raises(RemoteRefusedError):
        await Server(problem(403, "denied")).async_memory().ask_stream("oncall", "When?")


def test_events_that_break_off_or_cannot_be_read_are_errors() -> None:
    class Breaking(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield f"event: sentence\ndata: {json.dumps(SENTENCE)}\n\n".encode()
            raise httpx.RemoteProtocolError("gone")

    parts = Server(httpx.Response(200, stream=Breaking())).memory().ask_stream("oncall", "When?")
    assert type(next(parts)).__name__ == "AnswerSentence"
    with pytest.raises(errors.MemoryConnectionError, match="broken off"):
        next(parts)
    for unread in ({"passages": 5}, 7):
        with pytest.raises(errors.MemoryConfigError, match="another form"):
            list(Server(events(("answer", unread))).memory().ask_stream("oncall", "When?"))
    with pytest.raises(RemoteRefusedError):
        Server(problem(403, "denied")).memory().ask_stream("oncall", "When?")

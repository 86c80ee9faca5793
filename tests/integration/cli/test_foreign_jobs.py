"""Jobs that a Celery app without memtend sends: done, or refused with a result; none is waited for in vain."""

import gc
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from celery import Celery, chord
from support.command_line import CommandLine
from support.running_stack import StackAddress

STORE = "memory.store.write"

#: Seconds until a result must be there, on a crowded machine.
LIMIT = 120


@pytest.fixture
def app(stack: StackAddress, memtend: CommandLine) -> Iterator[Celery]:
    settings = stack.settings
    made = Celery("theirs", broker=settings.broker_url, backend=settings.result_url, set_as_current=False)
    yield made
    # An open result that outlives its app warns when it is collected.
    gc.collect()
    made.close()
    memtend.purge_dead_letters()


def payload(company: str) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat()
    request = {"content": f"A foreign memory, {uuid.uuid4()}.", "category": "semantic"}
    item = {"id": str(uuid.uuid4()), "agent_id": "foreign", "request": request, "created_at": now, "sent_at": now}
    return {"company": company, "items": [item]}


def test_an_object_or_text_by_place_or_by_name_is_stored(app: Celery, stack: StackAddress) -> None:
    one, two, three = (payload(stack.settings.company) for _ in range(3))
    sent = (
        app.send_task(STORE, args=[one], queue="memory.store"),
        app.send_task(STORE, args=[json.dumps(two)], queue="memory.store"),
        app.send_task(STORE, kwargs={"payload": three}, queue="memory.store", countdown=0.1),
    )
    done = {"outcome": "done", "facts": {"stored": 1, "buried": 0}}
    assert [job.get(timeout=LIMIT) for job in sent] == [done] * 3
    assert "A foreign memory" not in stack.log("worker-store")


def test_a_payload_that_breaks_a_limit_is_dead_and_says_why(app: Celery, stack: StackAddress) -> None:
    job = app.send_task(STORE, args=[{"company": stack.settings.company}], queue="memory.store")
    assert job.get(timeout=LIMIT) == {"outcome": "dead", "reason": "items: is missing"}


@pytest.mark.parametrize(
    "given", [{"args": [1, 2]}, {"args": [["a"]]}, {"kwargs": {"agent_id": "a"}}, {"args": [None]}]
)
def test_what_is_no_payload_fails(app: Celery, given: dict[str, Any]) -> None:
    job = app.send_task(STORE, **given, queue="memory.store")
    assert "must call a job with one payload" in str(job.get(timeout=LIMIT, propagate=False))
    assert job.state == "FAILURE"


def test_callbacks_and_an_end_of_waiting_are_refused(app: Celery, stack: StackAddress) -> None:
    given = {"args": [payload(stack.settings.company)], "queue": "memory.store"}
    sent = [
        app.send_task(STORE, **given, link=app.signature("theirs.next")),
        app.send_task(STORE, **given, link_error=app.signature("theirs.next")),
        app.send_task(STORE, **given, expires=60),
    ]
    found = [str(job.get(timeout=LIMIT, propagate=False)) for job in sent]
    assert [job.state for job in sent] == ["FAILURE"] * 3
    assert [text.count("callbacks") for text in found] == [1, 1, 0]


def test_a_chord_of_our_jobs_fails_as_a_whole(app: Celery, stack: StackAddress) -> None:
    header = [
        app.signature(STORE, args=[payload(stack.settings.company)], options={"queue": "memory.store"})
        for _ in range(2)
    ]
    body: Any = chord(header, app=app)(app.signature("theirs.sum", options={"queue": "theirs"}))
    body.get(timeout=LIMIT, propagate=False)
    assert body.state == "FAILURE"


def test_the_doctor_names_jobs_that_no_worker_reads(app: Celery, memtend: CommandLine) -> None:
    def seen() -> dict[str, Any]:
        return next(each for each in memtend("doctor", "--json").value if each["check"] == "queue celery")

    assert seen()["ok"]
    app.send_task(STORE, args=[{}], ignore_result=True)
    try:
        assert (seen()["ok"], seen()["seen"]) == (False, "1 jobs wait, and no worker reads it")
    finally:
        app.control.purge()
    assert seen()["ok"]

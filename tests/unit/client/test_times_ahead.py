"""A time at which something happened lies at most minutes ahead of the sender's clock; one to come lies anywhere."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.execution_traces import trace
from support.memories import NOW

from memcore.client.envelopes import (
    ImportRecord,
    build_experience_payload,
    build_payload,
    build_record_payload,
    build_trace_payload,
)
from memcore.errors import MemoryInputError
from memcore.jobs import CloseSessionPayload
from memcore.models.memory import MemoryStoreRequest

REQUEST = MemoryStoreRequest.model_validate({"category": "semantic", "content": "x"})
CLOSE = CloseSessionPayload(company="acme", agent_id="ada", subject="mia", session_id="s", at=NOW)
FEEDBACK = {"label": "helpful", "source": "person"}

#: What takes a time of the past, by the field that is named.
CALLS: dict[str, tuple[str, Callable[[datetime], Any]]] = {
    "memory": (
        "created_at",
        lambda at: build_payload("ada", REQUEST, company="acme", sent_at=NOW, created_at=at),
    ),
    "import": (
        "created_at",
        lambda at: ImportRecord(agent_id="ada", created_at=at, **REQUEST.model_dump()).dated(NOW),
    ),
    "experience": (
        "created_at",
        lambda at: build_experience_payload(
            "ada", {"prompt": "p", "output": "o", "created_at": at}, company="acme", now=NOW
        ),
    ),
    "trace": ("trace.ended_at", lambda at: build_trace_payload("ada", trace(ended_at=at), company="acme", now=NOW)),
    "feedback": ("at", lambda at: build_record_payload("feedback", {**FEEDBACK, "at": at}, CLOSE, record_id=None)),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("ahead", [timedelta(minutes=6), timedelta(days=400)])
def test_a_time_ahead_of_the_clock_is_refused_by_name(call: str, ahead: timedelta) -> None:
    field, build = CALLS[call]
    with pytest.raises(MemoryInputError, match="lies more than 5 minutes ahead of the clock") as refused:
        build(NOW + ahead)
    assert refused.value.field == field


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("ahead", [timedelta(minutes=4), timedelta(days=-4000)])
def test_clocks_that_differ_a_little_and_old_times_are_taken(call: str, ahead: timedelta) -> None:
    CALLS[call][1](NOW + ahead)


def test_a_time_to_come_may_lie_anywhere() -> None:
    request = REQUEST.model_copy(update={"expires_at": NOW + timedelta(days=4000)})
    build_payload("ada", request, company="acme", sent_at=NOW)

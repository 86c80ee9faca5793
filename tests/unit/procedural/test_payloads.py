from typing import Any

import pytest
from pydantic import ValidationError
from support.lessons import FAILURE

from memcore.procedural.proposer import FailureAnalysisPayload, SuccessPayload
from memcore.procedural.records import MAX_ERROR_CHARS, sanitised


def failure(**changed: Any) -> FailureAnalysisPayload:
    return FailureAnalysisPayload.model_validate({**FAILURE.model_dump(), **changed})


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("no space left on device", "no space left on device"),
        ("two\nlines\tand\x00 a \x1b[31mcolour", "two lines and a [31mcolour"),
        ("no host postgresql://ada:hunter2@db:5432/x", "no host postgresql://***@db:5432/x"),
        ("401: password=hunter2, user=ada", "401: password=***, user=ada"),
        ('{"api_key": "hunter2 hunter3", "n": 1}', '{"api_key": ***, "n": 1}'),
        ("ACCESS_TOKEN: hunter2", "ACCESS_TOKEN: ***"),
        ("sent Bearer hunter2 to it", "sent Bearer *** to it"),
        ("key sk-abcdefghij0123456789abcdefghij0123 is wrong", "key *** is wrong"),
        ("mail to ada@example.org failed", "mail to *** failed"),
        ("/usr/lib/python3.11/site-packages/urllib3/connectionpool.py: 404", None),
        ("unreadable \u202etxt.exe\u202c", "unreadable txt.exe"),
        ("", ""),
    ],
)
def test_an_error_message_is_one_line_without_what_looks_secret(message: str, shown: str | None) -> None:
    assert sanitised(message) == (message if shown is None else shown)


@pytest.mark.parametrize("message", ["x " * 5_000, "é" * 10_000, "a" * 1_000_000, "token=" * 100_000])
def test_an_error_message_has_at_most_200_characters(message: str) -> None:
    assert len(sanitised(message)) <= MAX_ERROR_CHARS == 200


def test_a_payload_cannot_be_made_with_a_message_that_was_not_cleaned() -> None:
    made = failure(error_message="password=hunter2\n" + "x " * 300)
    assert made.error_message is not None
    assert made.error_message.startswith("password=*** x")
    assert len(made.error_message) == 200
    assert failure(error_message="\x00 \n").error_message is None


@pytest.mark.parametrize("field", ["messages", "conversation", "prompt", "output", "turns", "steps"])
def test_there_is_no_place_for_a_conversation(field: str) -> None:
    with pytest.raises(ValidationError):
        failure(**{field: "hello"})
    with pytest.raises(ValidationError):
        SuccessPayload.model_validate({"task_id": "t", "turn_count": 1, field: "hello"})


def test_of_a_tool_call_the_name_alone_is_kept_in_order_and_as_often_as_it_was_called() -> None:
    calls = ("shell", 'search(query="what Ada said")', "shell", "{}", "mcp:files/read", "x" * 300)
    assert failure(tool_calls_made=calls).tool_calls_made == (
        *("shell", "search", "shell", "unnamed", "mcp:files/read", "x" * 128),
    )


def test_retries_stay_below_their_limit_if_there_is_one() -> None:
    with pytest.raises(ValidationError, match="retry_count"):
        failure(retry_count=4, max_retries=3)
    assert failure(retry_count=4, max_retries=None).retry_count == 4
    assert failure().error_category == "unknown"

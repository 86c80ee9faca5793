from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError
from support.execution_traces import trace
from support.memories import DAWN

from memcore.models.execution import MAX_NOTE_CHARS, MAX_TITLE_CHARS, MAX_TURNS, TerminationReason, Turn


def test_tools_and_tokens_are_those_of_all_turns_in_their_order() -> None:
    made = trace(turns=(Turn(tokens=3, tools=("b", "a")), Turn(tokens=4), Turn(tools=("b",))))
    assert made.tools == ("b", "a", "b")
    assert made.tokens == 7


@pytest.mark.parametrize("reason", TerminationReason)
def test_whatever_did_not_succeed_has_a_category(reason: TerminationReason) -> None:
    made = trace(termination_reason=reason)
    named = trace(termination_reason=reason, error_category="disk")
    if reason is TerminationReason.COMPLETED:
        assert made.failure is named.failure is None
        return
    assert made.failure == ("unknown" if reason is TerminationReason.ERROR else str(reason))
    assert named.failure == "disk"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"task_id": " "}, "task_id"),
        ({"task_id": "a\0"}, "task_id"),
        ({"task_title": "x" * (MAX_TITLE_CHARS + 1)}, "task_title"),
        ({"task_description": "x" * (MAX_NOTE_CHARS + 1)}, "task_description"),
        ({"error_message": "x" * (MAX_NOTE_CHARS + 1)}, "error_message"),
        ({"turns": (Turn(),) * (MAX_TURNS + 1)}, "turns"),
        ({"turns": ({"tokens": -1},)}, "tokens"),
        ({"turns": ({"tools": [" "]},)}, "tools"),
        ({"quality": 10.5}, "quality"),
        ({"quality": float("nan")}, "quality"),
        ({"retries": -1}, "retries"),
        ({"steps": ("look", " ")}, "steps"),
        ({"termination_reason": "bored"}, "termination_reason"),
        ({"ended_at": DAWN.replace(tzinfo=None)}, "ended_at"),
        ({"started_at": DAWN + timedelta(seconds=1)}, "ended_at"),
        ({"messages": ["what the user said"]}, "messages"),
    ],
)
def test_what_breaks_a_limit_is_refused_by_name_and_without_its_text(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        trace(**fields)
    assert field in str(refused.value)
    assert "xxx" not in str(refused.value)

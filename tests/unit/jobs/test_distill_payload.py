"""What travels of a finished task."""

import json
from typing import Any

import pytest
from hypothesis import given
from pydantic import ValidationError
from support.execution_traces import TRACES, trace
from support.memories import NOW

from memcore.jobs import MAX_PAYLOAD_BYTES, DistillPayload, is_newer
from memcore.ledger.learning.trajectories import Trajectory
from memcore.models.execution import ExecutionTrace


def payload(made: ExecutionTrace, **more: Any) -> DistillPayload:
    fields: dict[str, Any] = {"company": "acme", "agent_id": "ada", "trace_id": "trace", "sent_at": NOW}
    return DistillPayload(trace=made, **{**fields, **more})


@given(made=TRACES)
def test_any_trace_arrives_as_it_was_sent_and_leaves_a_trajectory(made: ExecutionTrace) -> None:
    text = payload(made).model_dump_json()
    assert not is_newer(text)
    arrived = DistillPayload.model_validate_json(text)
    assert arrived == payload(made)
    kept = Trajectory.of(arrived.trace, trace_id="trace", agent_id="ada")
    assert (kept.tools, kept.tokens, kept.turn_count) == (made.tools, made.tokens, len(made.turns))
    assert (kept.error_category is None) == made.termination_reason.is_success
    assert Trajectory.model_validate_json(kept.model_dump_json()) == kept


def test_a_trace_right_at_the_limit_travels_and_one_byte_more_does_not() -> None:
    frame = len(trace(output="x").model_dump_json()) - 1
    assert payload(trace(output="x" * (MAX_PAYLOAD_BYTES - frame)))
    with pytest.raises(ValidationError, match="the limit is 1048576"):
        payload(trace(output="x" * (MAX_PAYLOAD_BYTES - frame + 1)))


def test_text_that_is_no_unicode_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="trace: must be valid Unicode text"):
        payload(trace(output="\ud800"))


def test_no_field_can_be_smuggled_in() -> None:
    fields = json.loads(payload(trace()).model_dump_json())
    for place in (fields, fields["trace"]):
        place["scope"] = "org"
        with pytest.raises(ValidationError, match="scope"):
            DistillPayload.model_validate_json(json.dumps(fields))
        del place["scope"]

import json
import logging
from typing import Any

import pytest
from support.execution_traces import trace
from support.memories import NOW

from memcore import MemoryClient
from memcore.client.envelopes import Scope, build_trace_payload
from memcore.errors import MemoryConnectionError, MemoryInputError, MemoryQueueFullError
from memcore.jobs import MAX_PAYLOAD_BYTES, DistillPayload
from memcore.models.execution import ExecutionTrace
from memcore.models.origin import Channel, Origin, Writer, writing_as


def payload_built(
    agent_id: str = "ada", made: ExecutionTrace | None = None, *, company: str = "acme", **more: Any
) -> DistillPayload:
    return build_trace_payload(agent_id, made or trace(), company=company, now=NOW, **more)


def test_the_same_trace_has_one_id_whenever_it_is_sent_and_any_other_has_another() -> None:
    first = payload_built()
    assert payload_built(" ada ", scope=Scope(session_id="s")).trace_id == first.trace_id
    others = [
        payload_built("bob"),
        payload_built(company="globex"),
        payload_built(made=trace("t-2")),
        payload_built(made=trace(retries=1)),
        payload_built(made=trace(output="x")),
        payload_built(made=trace(ended_at=NOW)),
    ]
    assert len({first.trace_id, *(each.trace_id for each in others)}) == 7


def test_it_is_stamped_by_its_door_and_a_processs_own_is_a_job_of_the_first_version() -> None:
    own = payload_built()
    with writing_as(Writer(principal="k1", limit=Channel.PERSON)):
        stamped = payload_built()
    assert stamped.origin == Origin(channels=(Channel.AGENT,), principals=("k1",))
    assert (own.version, stamped.version) == (1, 6)
    # A release before refuses a field that it does not know.
    assert "origin" not in json.loads(own.model_dump_json())
    assert DistillPayload.model_validate_json(stamped.model_dump_json()) == stamped
    # Else a trusted trace would be lost behind the same one of a key that is trusted no more.
    assert own.trace_id != stamped.trace_id


def test_session_and_project_travel() -> None:
    made = payload_built(scope=Scope(session_id="s", project_id="p"))
    assert (made.session_id, made.project_id, made.sent_at) == ("s", "p", NOW)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"agent_id": "a\0"}, "agent_id"),
        ({"company": " "}, "company"),
        ({"made": trace(output="x" * MAX_PAYLOAD_BYTES)}, "trace"),
        ({"made": trace(output="\ud800")}, "trace"),
    ],
)
def test_what_breaks_a_limit_is_refused_by_name_and_without_its_text(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(MemoryInputError) as refused:
        payload_built(**fields)
    assert refused.value.field == field
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("trouble", [MemoryConnectionError("gone"), MemoryQueueFullError("full")], ids=type)
def test_a_broker_that_does_not_take_it_fails_no_task(trouble: Exception, caplog: pytest.LogCaptureFixture) -> None:
    class Away:
        def send_many(self, *_args: object, **_more: object) -> None:
            raise trouble

    made = payload_built(made=trace(output="a secret"))
    client = MemoryClient("redis://127.0.0.1:1/0", company="acme", clock=lambda: NOW)
    client._opened = Away()  # type: ignore[assignment]  # it has what this call needs
    with caplog.at_level(logging.WARNING):
        assert client.distill("ada", made.trace) is None
    (line,) = caplog.records
    assert line.message == "memory.distill.lost"
    assert {"ada", made.trace_id, type(trouble).__name__} <= set(map(str, vars(line).values()))
    assert "secret" not in str(vars(line))

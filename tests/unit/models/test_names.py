"""Ids and names: what a caller gives holds no character that acts on a terminal, and what stands can still be read."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from memcore import MemoryClient, Scope
from memcore.client.envelopes import ImportRecord
from memcore.errors import MemoryInputError
from memcore.jobs import Use
from memcore.ledger.agents import AgentSpec
from memcore.ledger.organization.audit import Confirmation
from memcore.models.approval import Decision
from memcore.models.base import escaped
from memcore.models.execution import ExecutionTrace, TerminationReason
from memcore.models.memory import (
    MemoryCategory,
    MemoryMetadata,
    MemoryStoreRequest,
    one_line,
    require_agent_id,
    require_path_name,
)
from memcore.models.organization import OrgFactAuthor, OrgFactWriteRequest

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SKILL = "11111111-1111-1111-1111-111111111111"
REQUEST = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="tea")
TRACE = ExecutionTrace(task_id="t", task_title="brew", termination_reason=TerminationReason.COMPLETED, ended_at=NOW)

#: A clear screen, a line of its own, DEL, a C1 escape, a turned direction, a line separator.
HOSTILE = ("a\x1b[2Jb", "a\nb", "a\tb", "a\x7fb", "a\x9b31mb", "a\u202eb", "a\u2028b", "a\u2066b", "a\u200fb")

Send = Callable[[MemoryClient, str], Any]

AGENT_CALLS: dict[str, Send] = {
    "store": lambda client, agent: client.store(agent, REQUEST),
    "store_many": lambda client, agent: client.store_many(agent, [REQUEST]),
    "maintain_now": lambda client, agent: client.maintain_now(agent),
    "record_experience": lambda client, agent: client.record_experience(agent, prompt="p", output="o"),
    "distill": lambda client, agent: client.distill(agent, TRACE),
    "applied": lambda client, agent: client.applied(agent, SKILL, "success"),
}
RUN_CALLS: dict[str, Send] = {
    "undo": lambda client, agent: client.undo(agent, "r"),
    "restore": lambda client, agent: client.restore(agent, "m"),
    "end_session": lambda client, agent: client.end_session(agent, "s"),
    "end_project": lambda client, agent: client.end_project(agent, "p"),
    "end_task": lambda client, agent: client.end_task(agent, "t"),
}
MODELS: dict[str, Callable[[str], Any]] = {
    "company": lambda name: MemoryClient("redis://127.0.0.1:1/0", company=name).store("ada", REQUEST),
    "session_id": lambda name: Scope(session_id=name),
    "project_id": lambda name: Scope(project_id=name),
    "task_id": lambda name: Scope(task_id=name),
    "namespace": lambda name: MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="x", namespace=name),
    "metadata": lambda name: MemoryStoreRequest(
        category=MemoryCategory.SEMANTIC, content="x", metadata=MemoryMetadata(tags=("good", name))
    ),
    "agent_id": lambda name: ImportRecord(category=MemoryCategory.SEMANTIC, content="x", agent_id=name),
    "role": lambda name: AgentSpec(company="c", agent_id="ada", role=name),
    "name": lambda name: OrgFactAuthor(is_human=True, name=name),
    "tags": lambda name: OrgFactWriteRequest.model_validate({"content": "x", "category": "adr", "tags": [name]}),
    "by": lambda name: Decision(by=name),
    "actor": lambda name: Confirmation(actor=name, confirm=True, reason="r"),
    "memory_id": lambda name: Use(agent_id="ada", memory_id=name, uses=1, last_used_at=NOW),
}


@pytest.fixture
def client() -> MemoryClient:
    # Nobody listens there: what is not refused before it is sent ends as a MemoryConnectionError.
    return MemoryClient("redis://127.0.0.1:1/0")


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("call", AGENT_CALLS)
def test_a_client_sends_no_agent_id_with_a_control_character(client: MemoryClient, call: str, name: str) -> None:
    with pytest.raises(MemoryInputError, match=r"agent_id: must not contain the control character U\+"):
        AGENT_CALLS[call](client, name)


@pytest.mark.parametrize("call", [*AGENT_CALLS, *RUN_CALLS])
def test_a_client_sends_no_reserved_agent_id(client: MemoryClient, call: str) -> None:
    with pytest.raises(MemoryInputError, match="agent_id: must not begin with '__'; such ids are reserved"):
        (AGENT_CALLS | RUN_CALLS)[call](client, "__shared__")


@pytest.mark.parametrize("name", [".", "..", " .. "])
@pytest.mark.parametrize("call", AGENT_CALLS)
def test_a_client_sends_nothing_for_an_agent_that_no_path_can_name(client: MemoryClient, call: str, name: str) -> None:
    with pytest.raises(MemoryInputError, match=r"agent_id: must not be '\.' or '\.\.'"):
        AGENT_CALLS[call](client, name)


@pytest.mark.parametrize("name", [".", ".."])
def test_no_new_agent_has_dots_alone_for_an_id_and_what_an_older_release_took_can_still_be_used(name: str) -> None:
    makers = (MODELS["agent_id"], require_path_name, lambda agent_id: AgentSpec(company="c", agent_id=agent_id))
    for make in makers:
        with pytest.raises((MemoryInputError, ValidationError), match=r"(?s)agent_id.*must not be '\.' or '\.\.'"):
            make(name)
    assert require_agent_id(name) == name
    assert Use(agent_id=name, memory_id="m", uses=1, last_used_at=NOW).agent_id == name


@pytest.mark.parametrize("name", ["...", ".ada", "a/../b", "a.", "%2E"])
def test_dots_beside_other_characters_are_taken(name: str) -> None:
    assert AgentSpec(company="c", agent_id=name).agent_id == name


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("field", MODELS)
def test_no_name_that_is_given_holds_a_control_character(field: str, name: str) -> None:
    with pytest.raises((MemoryInputError, ValidationError)) as refused:
        MODELS[field](name)
    error = refused.value
    reported = str(MemoryInputError.of(error) if isinstance(error, ValidationError) else error)
    assert reported.startswith(field)
    assert "must not contain the control character U+" in reported


@pytest.mark.parametrize("name", ["Zoë", "أمينة", "नीति\u200dका", "李 小龙", "ops:night/2", "👩\u200d💻", "  padded  "])
def test_names_of_any_script_are_taken(name: str) -> None:
    assert Scope(session_id=name).session_id == name.strip()


@given(st.text())
def test_what_is_escaped_is_one_line_and_what_is_one_line_stays(text: str) -> None:
    assert one_line(escaped(text)) == escaped(text)
    assert escaped(escaped(text)) == escaped(text)
    try:
        one_line(text)
    except ValueError:
        assert escaped(text) != text
    else:
        assert escaped(text) == text

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from memcore.models.organization import (
    OperationLogEntry,
    OperationLogSnapshot,
    OrgFactAuthor,
    OrgFactWriteRequest,
    OrgMemoryQuery,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "fields",
    [
        {"is_human": True},
        {"is_human": True, "name": "Grace"},
        {"agent_id": "ada", "seniority": "junior"},
        {"agent_id": "ada", "seniority": "lead", "autonomy_level": "semi"},
    ],
)
def test_an_author_is_a_person_or_an_agent_with_its_standing(fields: dict[str, Any]) -> None:
    assert OrgFactAuthor.model_validate(fields).is_human is fields.get("is_human", False)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"is_human": True, "agent_id": "ada"}, "agent_id"),
        ({"is_human": True, "seniority": "lead"}, "seniority"),
        ({"is_human": True, "autonomy_level": "full"}, "autonomy_level"),
        ({}, "agent_id"),
        ({"agent_id": "ada"}, "seniority"),
        ({"seniority": "lead"}, "agent_id"),
        ({"agent_id": " ", "seniority": "lead"}, "agent_id"),
        ({"agent_id": "ada", "seniority": "lead", "name": "Ada"}, "name"),
    ],
)
def test_no_author_is_both_or_neither(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        OrgFactAuthor.model_validate(fields)


def test_a_publication_has_a_text_and_a_retraction_has_none() -> None:
    line = {"operation_id": "o", "fact_id": "f", "timestamp": NOON, "version": 1}
    OperationLogEntry.model_validate({**line, "operation_type": "PUBLISH", "content": "x"})
    OperationLogEntry.model_validate({**line, "operation_type": "RETRACT"})
    for wrong in ({"operation_type": "PUBLISH"}, {"operation_type": "RETRACT", "content": "x"}):
        with pytest.raises(ValidationError, match="content"):
            OperationLogEntry.model_validate({**line, **wrong})
    with pytest.raises(ValidationError, match="version"):
        OperationLogEntry.model_validate({**line, "operation_type": "RETRACT", "version": 0})


def test_nothing_is_retracted_before_it_was_made() -> None:
    state = {"fact_id": "f", "content": "x", "category": "adr", "created_at": NOON, "version": 2}
    OperationLogSnapshot.model_validate({**state, "retracted_at": NOON})
    with pytest.raises(ValidationError, match="retracted_at"):
        OperationLogSnapshot.model_validate({**state, "retracted_at": NOON - timedelta(seconds=1)})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"content": " "}, "content"),
        ({"content": "x" * 65_537}, "content"),
        ({"category": "gossip"}, "category"),
        ({"tags": tuple(map(str, range(65)))}, "tags"),
    ],
)
def test_a_fact_keeps_the_limits_of_a_memory(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        OrgFactWriteRequest.model_validate({"content": "x", "category": "adr", **fields})


@pytest.mark.parametrize("limit", [0, 101])
def test_a_query_asks_for_1_to_100_facts(limit: int) -> None:
    with pytest.raises(ValidationError, match="limit"):
        OrgMemoryQuery(limit=limit)

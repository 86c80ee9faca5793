"""A model's draft of a lesson, field by field."""

import json
from typing import Any

import pytest
from pydantic import ValidationError
from support.lessons import ANSWER, answer
from support.memories import NOW

from memcore.procedural.records import (
    NOT_THE_MODELS,
    RESERVED,
    ProceduralMemoryProposal,
    ProceduralMemoryScope,
    ProposalDraft,
)

FORBIDDEN: dict[str, Any] = {
    "scope": "org",
    "supersedes": ["m1"],
    "superseded_by": "m2",
    "application_count": 99,
    "last_applied_at": NOW.isoformat(),
    "id": "mine",
    "agent_id": "bob",
    "source": "admin",
    "metadata": {"tags": ["core"]},
    "refused": [],
}


@pytest.mark.parametrize("field", FORBIDDEN)
def test_a_field_that_is_not_the_models_is_dropped_by_name_and_the_rest_kept(field: str) -> None:
    draft = ProposalDraft.model_validate_json(answer(**{field: FORBIDDEN[field]}))
    assert draft.refused == (field,)
    assert draft.proposal() == ProceduralMemoryProposal.model_validate(ANSWER)


def test_all_of_them_together_change_nothing_either() -> None:
    draft = ProposalDraft.model_validate_json(answer(**FORBIDDEN))
    assert draft.refused == tuple(sorted(FORBIDDEN))
    made = draft.proposal()
    assert made.scope is ProceduralMemoryScope.AGENT
    assert (made.supersedes, made.superseded_by, made.application_count, made.last_applied_at) == ((), None, 0, None)


def test_every_field_of_a_kept_lesson_is_the_models_or_refused() -> None:
    assert set(ProceduralMemoryProposal.model_fields) - NOT_THE_MODELS == set(ANSWER)


@pytest.mark.parametrize(
    "tag", [*sorted(RESERVED), "Non-Inferable", "propagated:ada", "speaker:bob", "x" * 65, "", "-a"]
)
def test_a_tag_that_only_code_gives_is_dropped_and_the_others_kept(tag: str) -> None:
    draft = ProposalDraft.model_validate_json(answer(tags=["disk", tag, "import"]))
    assert draft.tags == ("disk", "import")
    assert draft.refused == ("tags",)


def test_an_answer_that_asks_for_nothing_forbidden_has_nothing_refused() -> None:
    assert ProposalDraft.model_validate_json(answer()).refused == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"execution_steps": ["x"] * 10_000},
        {"tags": ["x"] * 21},
        {"tags": [1]},
        {"tags": "disk"},
        {"discovery": None},
        {"confidence": 7},
        {"unheard_of": 1},
        {"Scope": "org"},
    ],
)
def test_what_breaks_a_bound_or_is_unknown_makes_the_answer_malformed(changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ProposalDraft.model_validate_json(answer(**changed))


@pytest.mark.parametrize("text", ["[]", "null", '"x"', "{}", "3", json.dumps([ANSWER])])
def test_what_is_no_lesson_is_malformed(text: str) -> None:
    with pytest.raises(ValidationError):
        ProposalDraft.model_validate_json(text)


def test_the_schema_shows_a_model_what_it_may_say_and_nothing_else() -> None:
    schema = ProposalDraft.model_json_schema()
    assert set(schema["properties"]) == set(ANSWER)
    assert schema["additionalProperties"] is False
    assert schema["properties"]["execution_steps"]["maxItems"] == 50
    assert schema["properties"]["discovery"]["maxLength"] == 600

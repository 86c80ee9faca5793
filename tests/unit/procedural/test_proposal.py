from typing import Any

import pytest
from pydantic import ValidationError
from support.lessons import ANSWER
from support.memories import NOW

from memcore.errors import MemoryInputError
from memcore.procedural.records import DisclosureTier, ProceduralMemoryProposal, ProceduralMemoryScope, disclosed


def proposal(**changed: Any) -> ProceduralMemoryProposal:
    return ProceduralMemoryProposal.model_validate({**ANSWER, **changed})


def test_a_lesson_is_private_and_never_applied_until_somebody_says_otherwise() -> None:
    made = proposal()
    assert made.scope is ProceduralMemoryScope.AGENT
    assert (made.supersedes, made.superseded_by, made.application_count, made.last_applied_at) == ((), None, 0, None)


@pytest.mark.parametrize(
    "changed",
    [
        {"discovery": "x" * 600},
        {"condition": "x" * 2_000, "action": "x" * 2_000, "rationale": "x" * 2_000},
        {"execution_steps": ["x" * 500] * 50},
        {"execution_steps": []},
        {"confidence": 0},
        {"confidence": 1},
        {"tags": [f"t{i}" for i in range(20)]},
        {"supersedes": ["a"], "superseded_by": "b"},
        {"application_count": 3, "last_applied_at": NOW},
    ],
)
def test_what_lies_on_a_bound_is_within_it(changed: dict[str, Any]) -> None:
    proposal(**changed)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"discovery": "x" * 601}, "discovery"),
        ({"discovery": " \x1c "}, "discovery"),
        ({"condition": "x" * 2_001}, "condition"),
        ({"action": ""}, "action"),
        ({"rationale": "a\0b"}, "rationale"),
        ({"execution_steps": ["x"] * 51}, "execution_steps"),
        ({"execution_steps": ["x" * 501]}, "execution_steps.0"),
        ({"execution_steps": ["日" * 500] * 50}, "execution_steps"),
        ({"confidence": 1.01}, "confidence"),
        ({"confidence": float("nan")}, "confidence"),
        ({"tags": [f"t{i}" for i in range(21)]}, "tags"),
        ({"tags": ["non-inferable"]}, "tags.0"),
        ({"application_count": -1}, "application_count"),
        ({"supersedes": ["a", "b"], "superseded_by": "b"}, "superseded_by"),
        ({"scope": "world"}, "scope"),
        ({"owner": "ada"}, "owner"),
    ],
)
def test_what_lies_beyond_is_refused_by_its_name(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        proposal(**changed)
    assert MemoryInputError.of(caught.value).field == field


def test_a_tag_stands_once_and_a_step_on_one_line() -> None:
    made = proposal(tags=["a", "b", "a"], execution_steps=["look\n at   the disk"])
    assert made.tags == ("a", "b")
    assert made.execution_steps == ("look at the disk",)


def test_each_tier_shows_its_own_part() -> None:
    made = proposal()
    shown = {tier: disclosed(made, tier) for tier in DisclosureTier}
    assert shown[DisclosureTier.DISCOVERY] == made.discovery
    for text in (made.condition, made.action, made.rationale):
        assert [tier for tier, content in shown.items() if text in content] == [DisclosureTier.ACTIVATION]
    assert shown[DisclosureTier.EXECUTION].splitlines() == [
        f"{number}. {step}" for number, step in enumerate(made.execution_steps, start=1)
    ]
    assert disclosed(proposal(execution_steps=[]), DisclosureTier.EXECUTION) == ""

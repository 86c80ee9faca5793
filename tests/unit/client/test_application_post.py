"""Applications in their envelope: what has one id, and what is refused before anything is sent."""

from typing import Any

import pytest
from support.memories import NOW

from memcore.client.envelopes import build_application_payload
from memcore.errors import MemoryInputError
from memcore.jobs import AppliedPayload

SKILL = "6f1c1f6e-3a0b-5c53-9d0e-6d656d74656e"


def payload_built(
    agent_id: str = "ada", skill_id: str = SKILL, outcome: Any = "success", task_id: str | None = "t"
) -> str:
    payload = build_application_payload(agent_id, skill_id, outcome, task_id=task_id, company="acme", now=NOW)
    assert (payload.skill_id, payload.outcome, payload.applied_at) == (skill_id, outcome, NOW)
    assert AppliedPayload.model_validate_json(payload.model_dump_json()) == payload
    return payload.application_id


def test_a_task_applies_a_skill_once_whatever_it_says_of_it() -> None:
    assert (
        len(
            {
                payload_built(),
                payload_built(),
                payload_built(outcome="failure"),
                payload_built(" ada "),
                payload_built(task_id=" t "),
            }
        )
        == 1
    )
    others = [
        payload_built("bob"),
        payload_built(skill_id=f"{SKILL[:-1]}0"),
        payload_built(task_id="u"),
        payload_built(task_id=None),
    ]
    assert len({payload_built(), *others, payload_built(task_id=None)}) == 6


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"skill_id": "latest"}, "^skill_id: must be the id under which"),
        ({"skill_id": SKILL.upper()}, "^skill_id: "),
        ({"agent_id": " "}, "^agent_id: must not be blank"),
        ({"outcome": "maybe"}, "^outcome: must be 'success' or 'failure'"),
        ({"task_id": "\0"}, "^task_id: "),
        ({"task_id": "t" * 257}, "^task_id: must have at most 256"),
    ],
)
def test_what_breaks_a_limit_is_refused(changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(MemoryInputError, match=problem):
        payload_built(**changed)

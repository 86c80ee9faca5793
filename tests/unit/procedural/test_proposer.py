import logging
from datetime import timedelta
from typing import Any

import pytest
from support.fake_teacher import FakeTeacher
from support.lessons import ANSWER, CANARY, FAILURE, SUCCESS, answer
from support.memories import NOW

from memcore.config.learning import ProceduralMemoryConfig
from memcore.errors import (
    AnswerMissingError,
    BudgetExceededError,
    MalformedAnswerError,
    ProviderError,
    ProviderUnavailableError,
    RetryExhaustedError,
)
from memcore.procedural.proposer import (
    PURPOSE_FAILURE,
    PURPOSE_SUCCESS,
    FailureAnalysisPayload,
    SuccessPayload,
    propose,
)
from memcore.procedural.records import ProceduralMemoryProposal, ProposalDraft
from memcore.telemetry.events import Event

CONFIG = ProceduralMemoryConfig(model="proposer-small", temperature=0.1, max_tokens=700)


async def proposed_by(
    model: FakeTeacher, payload: FailureAnalysisPayload | SuccessPayload, *, agent_id: str = "ada"
) -> ProposalDraft:
    return await propose(model, CONFIG, payload, company="acme", agent_id=agent_id)


async def test_a_failure_becomes_a_proposal_by_a_model_of_its_own() -> None:
    model = FakeTeacher(always=answer())
    proposed = await proposed_by(model, FAILURE)
    assert proposed.proposal() == ProceduralMemoryProposal.model_validate(ANSWER)
    assert proposed.refused == ()
    (request,), (by,) = model.asked, model.for_whom
    assert (request.model, request.temperature, request.max_tokens) == ("proposer-small", 0.1, 700)
    assert (by.company, by.agent_id, by.run_id, by.purpose) == ("acme", "ada", None, PURPOSE_FAILURE)


async def test_a_success_is_paid_for_under_a_purpose_of_its_own() -> None:
    model = FakeTeacher(always=answer())
    await proposed_by(model, SUCCESS)
    assert model.for_whom[0].purpose == PURPOSE_SUCCESS


async def test_the_same_execution_is_the_same_question_and_another_is_another() -> None:
    model = FakeTeacher(always=answer())
    for agent_id, payload in (("ada", FAILURE), ("ada", FAILURE), ("bob", FAILURE), ("ada", SUCCESS)):
        await proposed_by(model, payload, agent_id=agent_id)
    other = FAILURE.model_copy(update={"retry_count": 2})
    await proposed_by(model, other)
    assert sorted(model.keys.values()) == [1, 1, 1, 2]


async def test_what_a_model_may_not_set_is_refused_by_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    model = FakeTeacher(always=answer(scope="org", supersedes=[CANARY], tags=["disk", "pinned"]))
    proposed = await proposed_by(model, FAILURE)
    assert proposed.refused == ("scope", "supersedes", "tags")
    assert proposed.proposal() == ProceduralMemoryProposal.model_validate({**ANSWER, "tags": ["disk"]})
    (refusal,) = [each for each in caplog.records if each.msg == Event.PROCEDURAL_MEMORY_PROPOSAL_FIELDS_REFUSED]
    assert refusal.fields == ("scope", "supersedes", "tags")  # type: ignore[attr-defined]  # given in extra
    assert CANARY not in "".join(str(vars(each)) for each in caplog.records)


@pytest.mark.parametrize("bad", ["tea", "{", answer(execution_steps=["x"] * 10_000), answer(unheard_of=1)])
async def test_a_malformed_answer_is_asked_for_once_more(bad: str) -> None:
    model = FakeTeacher(script=[bad, answer()])
    await proposed_by(model, FAILURE)
    assert len(model.asked) == 2

    model = FakeTeacher(always=bad)
    with pytest.raises(MalformedAnswerError):
        await proposed_by(model, FAILURE)
    assert len(model.asked) == 2


@pytest.mark.parametrize(("policy", "asked"), [({}, None), ({"model": "large"}, "large")])
async def test_the_policys_model_is_asked_or_that_of_all_steps(policy: dict[str, Any], asked: str | None) -> None:
    model = FakeTeacher(always=answer())
    config = ProceduralMemoryConfig.model_validate(policy)
    await propose(model, config, FAILURE, company="acme", agent_id="ada")
    assert [each.model for each in model.asked] == [asked]


@pytest.mark.parametrize(
    "error",
    [
        RetryExhaustedError("away"),
        ProviderUnavailableError("busy"),
        ProviderError("the key is wrong"),
        BudgetExceededError("spent", until=NOW + timedelta(days=1)),
        AnswerMissingError("asked elsewhere"),
        RecursionError(),
    ],
)
async def test_trouble_of_the_model_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        await proposed_by(FakeTeacher(always=error), FAILURE)


async def test_a_code_fence_around_the_answer_is_tolerated() -> None:
    model = FakeTeacher(always=f"```json\n{answer()}\n```")
    await proposed_by(model, FAILURE)
    assert len(model.asked) == 1

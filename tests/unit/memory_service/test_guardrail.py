"""The guardrail triple, the status, and the errors that tell programs what kind they are."""

from typing import Any

import pytest
from pydantic import ValidationError

from memcore import errors
from memcore.errors import MemoryBackendUnsupportedError, MemoryInputError
from memcore.ledger.organization.audit import Confirmation
from memcore.models.finetune import FineTuneStage, FineTuneStatus

GIVEN = {"actor": " grace ", "confirm": True, "reason": "it is wrong"}


def test_the_audits_line_has_the_three() -> None:
    note = Confirmation.model_validate(GIVEN).note("finetune.cancel", "run")
    assert (note.actor, note.action, note.subject, note.reason) == (
        "person:grace",
        "finetune.cancel",
        "run",
        "it is wrong",
    )


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"actor": None}, "actor: "),
        ({"actor": " "}, "actor: must not be blank"),
        ({"actor": "a" * 129}, "actor: must have at most 128"),
        ({"confirm": False}, "confirm: must be True"),
        ({"confirm": "true"}, "confirm: must be True"),
        ({"confirm": 1}, "confirm: must be True"),
        ({"confirm": None}, "confirm: must be True"),
        ({"reason": ""}, "reason: must not be blank"),
        ({"reason": "r" * 2001}, "reason: must have at most 2000"),
        ({"mood": "good"}, "mood: is not a known field"),
    ],
)
def test_what_is_wrong_is_named(changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(MemoryInputError, match=f"^{problem}"):
        Confirmation.model_validate(GIVEN | changed)


@pytest.mark.parametrize("missing", ["actor", "confirm", "reason"])
def test_what_is_missing_is_named(missing: str) -> None:
    with pytest.raises(MemoryInputError, match=f"^{missing}: is missing"):
        Confirmation.model_validate({name: value for name, value in GIVEN.items() if name != missing})


@pytest.mark.parametrize(
    "state",
    [
        {"run_id": "r"},
        {"progress": 0.5},
        {"error": "no"},
        {"stage": "training"},
        {"run_id": "r", "stage": "failed"},
        {"run_id": "r", "stage": "training", "error": "no"},
        {"run_id": "r", "stage": "training", "progress": 1.5},
    ],
)
def test_a_status_holds_together(state: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        FineTuneStatus.model_validate(state)
    assert FineTuneStatus().stage is FineTuneStage.IDLE


def test_an_unsupported_backend_says_why_and_that_stays() -> None:
    error = MemoryBackendUnsupportedError("no vectors")
    assert (error.reason, str(error), error.domain_code, error.is_retryable) == (
        "no vectors",
        "no vectors",
        "not_supported",
        False,
    )
    with pytest.raises(AttributeError):
        error.reason = "another"  # type: ignore[misc]  # what is tested
    with pytest.raises(ValueError, match="blank"):
        MemoryBackendUnsupportedError(" ")


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.MemoryError, "internal"),
        (errors.MemoryInputError, "invalid"),
        (errors.MemoryCapabilityError, "not_supported"),
        (errors.FineTuneRunNotFoundError, "not_found"),
        (errors.FineTuneRunNotResumableError, "conflict"),
        (errors.FineTuneRunActiveError, "conflict"),
        (errors.CheckpointNotFoundError, "not_found"),
        (errors.CheckpointRollbackUnavailableError, "conflict"),
        (errors.CheckpointRollbackCorruptError, "internal"),
    ],
)
def test_an_error_says_its_kind_without_its_words(kind: type[errors.MemoryError], code: str) -> None:
    assert kind.domain_code == code
    assert not kind.is_retryable

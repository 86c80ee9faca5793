"""What travels when a fine-tune run is to be started, or carried on: which, and of a new one the plan."""

from typing import Any, Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from memcore.jobs.payload import Payload
from memcore.models import Key


def _least_version(fields: dict[str, Any]) -> Literal[1, 3]:
    return 1 if fields.get("plan") is None else 3


class FineTunePayload(Payload):
    """One stage of a fine-tune run.

    Attributes:
        run_id: the run; its row names the next stage.
        plan: the plan as JSON, where an engine starts the run and its row is missing; None for a run that has its row.
        version: 3 with a plan, which older workers put back; 1 without.
    """

    run_id: Key
    plan: dict[str, Any] | None = None
    version: Literal[1, 3] = Field(default_factory=_least_version)

    @model_validator(mode="after")
    def _names_a_folder(self) -> Self:
        # A run's files lie in a folder of its name.
        if self.plan is not None and not _is_uuid(self.run_id):
            raise ValueError("run_id: must be a UUID where a plan comes with it")
        return self


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False

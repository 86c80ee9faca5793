"""Putting an experience into its envelope: its id and its time are fixed here, once, before anything is sent."""

from collections.abc import Iterable
from datetime import datetime
from typing import Required, TypedDict

from pydantic import ValidationError

from memcore import ids
from memcore.errors import MemoryInputError
from memcore.experience_models import DETAILED_TAG, DetailedExperience
from memcore.jobs.experience_payload import ExperiencePayload
from memcore.models import MemoryMetadata

#: Stands for the id until the other fields have been checked.
_UNNAMED = "unnamed"


class ExperienceFields(TypedDict, total=False):
    """What an engine says of an experience.

    Attributes:
        prompt: what the agent was asked.
        output: what it answered.
        verification_feedback: what a check said of the answer.
        reasoning_trace: the steps between, in order.
        task_id: the task it belongs to.
        metadata: source, confidence, tags.
        created_at: when it happened; now when left out.
    """

    prompt: Required[str]
    output: Required[str]
    verification_feedback: str | None
    reasoning_trace: Iterable[str]
    task_id: str | None
    metadata: MemoryMetadata
    created_at: datetime


def seal_experience(agent_id: str, fields: ExperienceFields, *, company: str, now: datetime) -> ExperiencePayload:
    """Return the experience in its envelope, tagged, with its deterministic id.

    Raises:
        MemoryInputError: naming the field and the limit.
    """
    metadata = fields.get("metadata", MemoryMetadata())
    tags = (DETAILED_TAG, *(tag for tag in metadata.tags if tag != DETAILED_TAG))
    try:
        made = DetailedExperience(
            id=_UNNAMED,
            agent_id=agent_id,
            prompt=fields["prompt"],
            output=fields["output"],
            verification_feedback=fields.get("verification_feedback"),
            reasoning_trace=tuple(fields.get("reasoning_trace", ())),
            metadata=metadata.model_copy(update={"tags": tags}),
            created_at=fields.get("created_at", now),
            source_task_id=fields.get("task_id"),
        )
        payload = ExperiencePayload(company=company, experience=made)
    except ValidationError as error:
        raise MemoryInputError.of(error) from None
    # From the checked fields, as a memory's id.
    experience_id = ids.experience_id(
        company=company,
        agent_id=made.agent_id,
        task_id=made.source_task_id,
        texts=(made.prompt, made.output, made.verification_feedback or "", *made.reasoning_trace),
    )
    return payload.model_copy(update={"experience": made.model_copy(update={"id": experience_id})})

"""What travels when an engine tells what its agents went through, and when raw experience is to be compressed."""

from typing import Literal, Self

from pydantic import TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticSerializationError

from memcore.experience_models import DetailedExperience
from memcore.jobs.payload import Payload
from memcore.jobs.payloads import MAX_PAYLOAD_BYTES
from memcore.models import MAX_KEY_CHARS, Key

_KEY: TypeAdapter[str] = TypeAdapter(Key)


class ExperiencePayload(Payload):
    """One raw experience; as JSON it has at most 1 MiB."""

    version: Literal[1] = 1
    experience: DetailedExperience

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        # The model is the reference's and knows no limits; the tables and the broker do.
        for name in ("id", "agent_id", "source_task_id"):
            value = getattr(self.experience, name)
            try:
                _KEY.validate_python(value or "-")
            except ValidationError:
                raise ValueError(f"{name}: must have at most {MAX_KEY_CHARS} characters and no NUL") from None
        try:
            size = len(self.experience.model_dump_json().encode())
        except PydanticSerializationError:
            raise ValueError("experience: must be valid Unicode text") from None
        if size > MAX_PAYLOAD_BYTES:
            raise ValueError(f"experience: has {size} bytes as JSON; the limit is {MAX_PAYLOAD_BYTES}")
        return self


class CompressPayload(Payload):
    """An agent whose raw experiences wait for a model."""

    version: Literal[1] = 1
    agent_id: Key

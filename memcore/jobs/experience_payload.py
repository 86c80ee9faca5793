"""What travels when an engine tells what its agents went through, and when raw experience is to be compressed."""

from typing import Any, Literal, Self

from pydantic import TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticSerializationError

from memcore.errors import MemoryInputError
from memcore.experience_models import DetailedExperience
from memcore.jobs.payload import Payload
from memcore.jobs.payloads import MAX_PAYLOAD_BYTES
from memcore.models import AgentId, Key, NewMetadata, StoredKey

#: What the reference's model leaves open: the tables, the broker and the terminal have limits.
_GIVEN: dict[str, TypeAdapter[Any]] = {
    "id": TypeAdapter(Key),
    "agent_id": TypeAdapter(AgentId),
    "source_task_id": TypeAdapter(Key | None),
    "metadata": TypeAdapter(NewMetadata),
}


class ExperiencePayload(Payload):
    """One raw experience; as JSON it has at most 1 MiB.

    Attributes:
        version: the version of this payload.
        experience: the raw experience.
    """

    version: Literal[1] = 1
    experience: DetailedExperience

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        for name, given in _GIVEN.items():
            try:
                given.validate_python(getattr(self.experience, name))
            except ValidationError as error:
                raise ValueError(str(MemoryInputError.of(error, prefix=name))) from None
        try:
            size = len(self.experience.model_dump_json().encode())
        except PydanticSerializationError:
            raise ValueError("experience: must be valid Unicode text") from None
        if size > MAX_PAYLOAD_BYTES:
            raise ValueError(f"experience: has {size} bytes as JSON; the limit is {MAX_PAYLOAD_BYTES}")
        return self


class CompressPayload(Payload):
    """One agent whose raw experience waits for a language model.

    Attributes:
        version: the version of this payload.
        agent_id: the agent.
    """

    version: Literal[1] = 1
    agent_id: StoredKey

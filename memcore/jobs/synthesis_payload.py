"""What travels to the worker that asks a model: which part of which run; the ledger has the rest."""

from typing import Literal

from pydantic import Field

from memcore.frozen import NotBlankStr
from memcore.jobs.payload import Payload
from memcore.models import StoredKey


class SynthesisPayload(Payload):
    """One part of a night.

    Attributes:
        run_id: the night.
        place: the part's place in it.
    """

    version: Literal[1] = 1
    agent_id: StoredKey
    run_id: NotBlankStr
    place: int = Field(ge=0)

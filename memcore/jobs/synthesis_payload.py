"""What travels to the worker that asks a model: which part of which run; the ledger has the rest."""

from typing import Literal

from pydantic import Field

from memcore.frozen import NotBlankStr
from memcore.jobs.payload import Payload
from memcore.models import StoredKey


class SynthesisPayload(Payload):
    """One group of memories about which a language model is asked.

    Attributes:
        version: the version of this payload.
        agent_id: the agent whose memories these are.
        run_id: the maintenance run.
        place: the number of the group in its run.
    """

    version: Literal[1] = 1
    agent_id: StoredKey
    run_id: NotBlankStr
    place: int = Field(ge=0)

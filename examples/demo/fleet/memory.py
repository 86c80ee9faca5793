"""One memory of the demo's fleet, with the line that the JSONL import reads."""

from datetime import datetime
from typing import Any

from memcore.models.base import Frozen
from memcore.models.memory import MemoryStoreRequest


class FleetMemory(Frozen):
    """A memory that an agent of the fleet stored at a time.

    Attributes:
        key: the name by which the evaluation set finds it; None for most.
    """

    agent_id: str
    key: str | None = None
    created_at: datetime
    request: MemoryStoreRequest

    def line(self) -> dict[str, Any]:
        """Return the record of the JSONL import form, ready for a JSON encoder."""
        request = self.request.model_dump(mode="json")
        return {"agent_id": self.agent_id, **request, "created_at": self.created_at.isoformat()}

"""Which memories agents are shown, and when: counted in the engine, handed on in batches, off the hot path."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable


@runtime_checkable
class UseRecorder(Protocol):
    """Be told of every use of a memory; it must return at once and never block."""

    def record(self, agent_id: str, memory_ids: Sequence[str], *, at: datetime) -> None:
        """Count one use of each of these memories.

        Args:
            agent_id: who was shown them.
            memory_ids: what was shown.
            at: when.
        """
        ...

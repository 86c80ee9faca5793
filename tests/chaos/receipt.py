"""The receipts of an engine: one line for each call, in a file that survives the engine."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """One call of the client that came back.

    Attributes:
        call: store, store_many or import.
        jobs: number of jobs.
        sends: how often it was made until the broker took it; more than once when the broker was down.
        at: when it came back, in seconds of the wall clock.
        memories: agent and id of each memory.
    """

    call: str
    jobs: int
    sends: int
    at: float
    memories: Sequence[tuple[str, str]]

    def line(self) -> str:
        """Return the receipt as a line of its file."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, line: str) -> "Receipt":
        """Read a line."""
        fields: dict[str, Any] = json.loads(line)
        memories = [(agent_id, memory_id) for agent_id, memory_id in fields.pop("memories")]
        return cls(**fields, memories=memories)


@dataclass(slots=True, kw_only=True)
class Acknowledged:
    """All receipts of a chaos run.

    Attributes:
        ids: of each agent.
        resent: how often each id was sent, where that was more than once. Such a memory may have been stored, removed
            by a run, and stored anew by the second call: what an engine sends again, it wants again.
    """

    jobs: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    ids: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    resent: dict[str, int] = field(default_factory=dict)

    def add(self, receipts: Iterable[Receipt]) -> None:
        """Take these into account."""
        for receipt in receipts:
            self.jobs += receipt.jobs
            self.calls[receipt.call] += 1
            for agent_id, memory_id in receipt.memories:
                self.ids[agent_id].add(memory_id)
                if receipt.sends > 1:
                    self.resent[memory_id] = receipt.sends

    @property
    def memories(self) -> int:
        """How many memories were promised."""
        return sum(map(len, self.ids.values()))


def read_receipts(paths: Iterable[Path]) -> list[Receipt]:
    """Return what the engines wrote."""
    return [Receipt.of(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]

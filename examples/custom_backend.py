"""A backend of your own: memories in one JSON Lines file, found by the words they share with the question.

Any object with these methods is a ``MemoryBackend``; no base class is needed. Run it as it is: no stack is needed.
"""

import asyncio
import re
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from memcore import (
    ContextInjectionStrategy,
    MemoryBackend,
    MemoryCategory,
    MemoryEntry,
    MemoryQuery,
    MemoryRetrievalConfig,
    MemoryStoreRequest,
)


class FileBackend:
    """Keep memories as lines of one file."""

    backend_name = "file"

    def __init__(self, file: Path) -> None:
        self._file = file
        self.is_connected = False

    async def connect(self) -> None:
        """Create the file."""
        self._file.touch()
        self.is_connected = True

    async def disconnect(self) -> None:
        """Close nothing: the file is opened for each call."""
        self.is_connected = False

    async def health_check(self) -> bool:
        """Return whether the file is there."""
        return self._file.exists()

    async def store(self, agent_id: str, request: MemoryStoreRequest) -> str:
        """Append one memory; the same text of the same agent is one memory."""
        key = f"{agent_id}\n{request.category}\n{request.namespace}\n{request.content}"
        entry = MemoryEntry(
            id=str(uuid5(NAMESPACE_URL, key)),
            agent_id=agent_id,
            namespace=request.namespace,
            category=request.category,
            content=request.content,
            metadata=request.metadata,
            created_at=datetime.now(UTC),
            expires_at=request.expires_at,
        )
        if await self.get(agent_id, entry.id) is None:
            self._write([*self._read(), entry])
        return entry.id

    async def retrieve(self, agent_id: str, query: MemoryQuery) -> tuple[MemoryEntry, ...]:
        """Return the memories that share words with the question, best first."""
        asked = words(query.text or "")
        found = []
        for entry in self._read():
            shared = len(asked & words(entry.content))
            if entry.agent_id == agent_id and shared:
                found.append(entry.model_copy(update={"relevance_score": shared / len(asked)}))
        found.sort(key=lambda entry: entry.relevance_score or 0.0, reverse=True)
        return tuple(found[: query.limit])

    async def get(self, agent_id: str, memory_id: str) -> MemoryEntry | None:
        """Return one memory of this agent."""
        return next((each for each in self._read() if (each.agent_id, each.id) == (agent_id, memory_id)), None)

    async def delete(self, agent_id: str, memory_id: str) -> bool:
        """Delete one memory of this agent."""
        kept = [each for each in self._read() if (each.agent_id, each.id) != (agent_id, memory_id)]
        is_there = len(kept) < len(self._read())
        self._write(kept)
        return is_there

    async def count(self, agent_id: str, *, category: MemoryCategory | None = None) -> int:
        """Return how many memories this agent has."""
        return sum(each.agent_id == agent_id and category in {None, each.category} for each in self._read())

    def _read(self) -> list[MemoryEntry]:
        return [MemoryEntry.model_validate_json(line) for line in self._file.read_text(encoding="utf-8").splitlines()]

    def _write(self, entries: list[MemoryEntry]) -> None:
        self._file.write_text("".join(f"{entry.model_dump_json()}\n" for entry in entries), encoding="utf-8")


def words(text: str) -> set[str]:
    """Return the different words of a text."""
    return set(re.findall(r"\w+", text.lower()))


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        backend: MemoryBackend = FileBackend(Path(folder, "memories.jsonl"))
        await backend.connect()
        for text in ("The payment queue pages at 500 messages.", "Deploys are frozen on Fridays."):
            await backend.store("oncall", MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=text))

        # Everything above a backend works with it: here the messages for an agent's prompt.
        strategy = ContextInjectionStrategy(backend=backend, config=MemoryRetrievalConfig(include_shared=False))
        for message in await strategy.prepare_messages("oncall", "when does the payment queue page?", token_budget=400):
            print(f"{message.role}: {message.content}")
        await backend.disconnect()


if __name__ == "__main__":
    asyncio.run(main())

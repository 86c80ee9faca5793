"""A company with experience in both tiers, and its wiki."""

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID
from zlib import crc32

import yaml

from memcore.backends.inmemory import InMemoryBackend
from memcore.config.maintenance import WikiExportConfig
from memcore.config.urls import LedgerUrls
from memcore.experience import record_of
from memcore.ledger.ledger import Ledger
from memcore.models.experience import CompressedExperience
from memcore.models.memory import COMPRESSED_TAG, ConsolidationInterval, MemoryMetadata
from memcore.records import MemoryRecord
from memcore.wiki import WikiExporter
from support.experiences import experience
from support.memories import DAWN, StoppedClock

COMPANY = "acme"


def lesson_id(number: int, *, agent_id: str = "ada") -> str:
    """Return the id of an agent's n-th compressed experience; later numbers sort later."""
    return str(UUID(int=(crc32(agent_id.encode()) << 64) + number))


def compressed(number: int, *, agent_id: str = "ada", source: str = "e0", says: str | None = None) -> MemoryRecord:
    """Return an agent's n-th compressed experience as a memory."""
    return record_of(
        CompressedExperience(
            id=lesson_id(number, agent_id=agent_id),
            agent_id=agent_id,
            strategic_decisions=(says or f"Look at the disk first ({number}).",),
            applicable_contexts=("An import fails at night.",),
            source_artifact_ids=(source,),
            compression_ratio=0.125,
            compressor_version="llm-v1",
            metadata=MemoryMetadata(source=source, tags=(COMPRESSED_TAG,)),
            created_at=DAWN + timedelta(days=1),
        )
    )


class WikiFixture:
    """Store, ledger and wiki of one company."""

    def __init__(self, urls: LedgerUrls, home: Path) -> None:
        self.clock = StoppedClock()
        self.backend = InMemoryBackend(company=COMPANY, clock=self.clock)
        self.ledger = Ledger.open(urls, clock=self.clock)
        self.home = home
        self.root = home / "wiki"

    def exporter(self, *, company: str = COMPANY, **config: Any) -> WikiExporter:
        policy = WikiExportConfig(**{"enabled": True, "export_root": "wiki", **config})
        return WikiExporter(self.backend, self.ledger, policy, home=self.home, company=company, clock=self.clock)

    async def fill(self, agent_id: str = "ada", *, raw: int = 2, lessons: int = 1) -> None:
        self.ledger.agents.register(COMPANY, [agent_id], interval=ConsolidationInterval.DAILY)
        for i in range(raw):
            made = experience(f"{agent_id}-e{i}", agent_id=agent_id, younger=timedelta(seconds=i))
            self.ledger.experiences.append(COMPANY, made)
        await self.keep(compressed(i, agent_id=agent_id) for i in range(lessons))

    async def keep(self, records: Iterable[MemoryRecord]) -> None:
        await self.backend.store_many(list(records))

    def files(self, folder: str = "ada") -> dict[str, str]:
        """Return every file that people see in an agent's folder, by its place."""
        top = self.root / folder
        return {str(path.relative_to(top)): path.read_text() for path in top.rglob("*") if path.is_file()}

    def leftovers(self) -> set[str]:
        """Return what stands in the root beside folders, front page and locks."""
        return {path.name for path in self.root.iterdir() if path.name[0] == "." and path.suffix != ".lock"}


def head_of(page: str) -> dict[str, Any]:
    """Return a file's front matter."""
    found: dict[str, Any] = yaml.safe_load(page.split("\n---\n", 1)[0].removeprefix("---\n"))
    return found

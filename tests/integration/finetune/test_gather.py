"""What a fleet remembers, as passages."""

import asyncio
from datetime import timedelta

import pytest
from finetune_world import Fleet
from ledgers import COMPANY
from memories import record, records
from traces import trajectory

from memcore.backends.inmemory import InMemoryBackend
from memcore.finetune import gather
from memcore.finetune.gather import Gathering
from memcore.finetune.passage import Passage
from memcore.models import ConsolidationInterval


class Looked:
    """A store, and how often whoever reads it says that it lives."""

    def __init__(self, fleet: Fleet) -> None:
        self.backend = InMemoryBackend(company=COMPANY, clock=fleet.clock)
        self.alive = 0
        self.gathering = Gathering(self.backend, fleet.ledger, company=COMPANY, alive=self._live)
        fleet.ledger.agents.register(COMPANY, ["ada", "bob"], interval=ConsolidationInterval.DAILY)

    async def passages(self, chunk_words: int = 512) -> list[Passage]:
        return [each async for each in self.gathering.passages(chunk_words=chunk_words)]

    def _live(self) -> None:
        self.alive += 1


def test_every_agents_memories_are_passages_and_a_tasks_title_asks_for_its_own(fleet: Fleet) -> None:
    async def run() -> None:
        looked = Looked(fleet)
        await looked.backend.connect()
        told, other = record("ada", "the import failed at\n night"), record("bob", "tea is at four")
        await looked.backend.store_many([told, other])
        fleet.ledger.trajectories.append(COMPANY, trajectory(told.entry.id))
        assert await looked.passages() == [
            Passage(text="the import failed at night", source="task", questions=("Mend the nightly import",)),
            Passage(text="tea is at four", source="memory"),
        ]
        assert [each.text for each in await looked.passages(chunk_words=3)][:2] == ["the import failed", "at night"]
        assert looked.alive >= 4
        assert await looked.gathering.count(enough=50) == 2
        assert await looked.gathering.count(enough=1) == 1

    asyncio.run(run())


def test_of_many_memories_the_newest_are_taken(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "MEMORIES_OF_AGENT", 3)

    async def run() -> None:
        looked = Looked(fleet)
        await looked.backend.connect()
        many = records("ada", 300, apart=timedelta(seconds=1))
        await looked.backend.store_many(many)
        assert [each.text for each in await looked.passages()] == [each.entry.content for each in many[-3:]]

    asyncio.run(run())

"""One agent of an evaluation, and days of maintenance over its memories."""

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memcore.backends.base import fresh_record
from memcore.backends.inmemory import InMemoryBackend
from memcore.client.envelopes import ImportRecord
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.evaluation.asking import AskedAt, Kept
from memcore.evaluation.dataset import Dataset, Question
from memcore.evaluation.maintained import DailyMaintenance, MaintenanceDone
from memcore.models.memory import MemoryCategory, MemoryStoreRequest

DAY = datetime(2026, 5, 1, 10, tzinfo=UTC)

TEXTS = {
    "ferry": "The ferry to Hvar leaves at nine.",
    "ferry, said again": "the ferry to Hvar leaves at nine",
    "bees": "Mia is allergic to peanuts and bees.",
}


def maintained(
    folder: Path, days: int, *, llm_url: str | None = None, **consolidation: object
) -> tuple[MaintenanceDone, dict[str, Kept], set[str]]:
    """Let days pass over one agent's memories; return what was done, where each is, and the ids that are left."""
    memory = {"level": "persistent", "llm": {"model": "stub"}, "consolidation": consolidation}
    policy = Policy.model_validate({"memory": memory})
    settings = Settings(
        broker_url="redis://127.0.0.1:9", database_url="sqlite:///unused", journal_url="sqlite:///unused",
        qdrant_url="http://127.0.0.1:9", home=folder, company="acme", llm_url=llm_url,
    )  # fmt: skip
    (folder / "data").mkdir(parents=True)
    records = tuple(
        ImportRecord(agent_id="ada", id=name, category=MemoryCategory.EPISODIC, content=text, created_at=DAY)
        for name, text in TEXTS.items()
    )
    clock = AskedAt(Dataset(memories={"ada": records}, questions=(Question(agent_id="ada", question="When?"),)))

    async def live() -> tuple[MaintenanceDone, dict[str, Kept], set[str]]:
        backend = InMemoryBackend(company="acme", clock=clock)
        await backend.connect()
        requests = [MemoryStoreRequest(category=each.category, content=each.content) for each in records]
        stored = [fresh_record("ada", each, company="acme", now=DAY) for each in requests]
        await backend.store_many(stored)
        ids = {"ada": {name: each.entry.id for name, each in zip(TEXTS, stored, strict=True)}}
        async with AsyncExitStack() as opened:
            maintenance = await DailyMaintenance.opened(opened, settings, policy, backend, clock)
            for day in range(1, days + 1):
                await maintenance.run_day(day)
            # Whether a run was due or not, questions are asked that much later.
            assert clock() == DAY + timedelta(days=days, hours=1)
            kept = maintenance.kept(ids)["ada"]
            left = await backend.get_many("ada", [each.memory_id for each in kept.values()])
            return await maintenance.done(), kept, {each.entry.id for each in left}

    return asyncio.run(live())

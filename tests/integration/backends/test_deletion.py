"""What is deleted on the store itself: an engine's deletion is journaled, a lost mark keeps its memory."""

from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient
from support.hashing_embedder import HashingEmbedder
from support.ledger_records import copied_urls
from support.memories import new_agent, records
from support.store_items import item
from support.store_servers import StoreAddress

from memcore.backends.factory import WorkerBackend, create_engine_backend
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.embedding.bm25 import Bm25Encoder
from memcore.ingest import Ingestor
from memcore.ledger.ledger import Ledger
from memcore.ledger.migrate import migrate_history
from memcore.models.memory import ConsolidationInterval, MemoryLevel
from memcore.records import Where

COMPOSITE = {"backend": "composite", "composite": {"routes": {"n": "mem0"}, "default": "inmemory"}}


@pytest.mark.parametrize("memory", [{}, COMPOSITE], ids=["mem0", "composite"])
async def test_what_the_engines_backend_deletes_stays_deleted(
    address: StoreAddress, tmp_path: Path, ledger_template: Path, memory: dict[str, Any]
) -> None:
    urls = copied_urls(ledger_template, tmp_path / "ledger")
    history_url = f"sqlite:///{tmp_path / 'history.db'}"
    migrate_history(history_url)
    settings = Settings.model_validate(
        {
            "broker_url": "redis://127.0.0.1:1/0",
            "database_url": urls.ledger,
            "journal_url": urls.journal,
            "history_url": history_url,
            "qdrant_url": address.url,
            "qdrant_api_key": address.api_key,
            "company": f"deletion-{'composite' if memory else 'mem0'}",
            "home": tmp_path,
        }
    )
    policy = Policy.model_validate({"memory": memory})
    engine = create_engine_backend(settings, policy, embedder=HashingEmbedder())
    assert isinstance(engine, WorkerBackend)
    ledger = Ledger.open(urls)
    ingestor = Ingestor(
        engine,
        ledger,
        company=settings.company,
        interval=ConsolidationInterval.DAILY,
        level=MemoryLevel.PERSISTENT,
    )
    one = item("the door code is 4711", company=settings.company)
    await engine.connect()
    try:
        await ingestor.write([one])
        assert await engine.delete("ada", one.id)
        assert (await ingestor.write([one])).tombstoned == {one.id}
        assert await engine.get("ada", one.id) is None
        (run,) = ledger.runs.list(settings.company, agent_id="ada")
        (journal_entry,) = ledger.journal.journal_entries(run.run_id)
        assert journal_entry.outgoing[0].entry.content == "the door code is 4711"
        assert (journal_entry.outgoing[0].vectors is None) == bool(memory)
    finally:
        await engine.disconnect()
        ledger.close()


async def test_a_memory_that_another_worker_marks_at_the_last_moment_stays(
    place: Mem0Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = new_agent()
    made = records(agent, 2)
    lost, ours = (each.entry.id for each in made)
    backend = Mem0Backend(place, company="c", embedder=HashingEmbedder(), encoder=Bm25Encoder())
    delete = QdrantClient.delete

    def late(self: QdrantClient, collection_name: str, **more: Any) -> object:
        # After the ids were read, and before they are deleted.
        self.set_payload(collection_name, {"claim": "theirs"}, points=[lost], wait=True)
        return delete(self, collection_name, **more)

    await backend.connect()
    try:
        await backend.store_many(made)
        await backend.claim(Where(agent_id=agent), "ours")
        monkeypatch.setattr(QdrantClient, "delete", late)
        assert await backend.delete_where(Where(agent_id=agent, token="ours")) == 1
        assert [each.entry.id for each in await backend.get_many(agent, [lost, ours])] == [lost]
    finally:
        await backend.disconnect()

"""The engine's own backend, as the settings make it: what it deletes is journaled, on the store itself."""

from pathlib import Path
from typing import Any

import pytest
from support.hashing_embedder import HashingEmbedder
from support.ledger_records import copied_urls
from support.store_items import item
from support.store_servers import StoreAddress

from memcore.backends.factory import WorkerBackend, create_engine_backend
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.ingest import Ingestor
from memcore.ledger import Ledger
from memcore.ledger.migrate import migrate_history
from memcore.models.memory import ConsolidationInterval, MemoryLevel

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

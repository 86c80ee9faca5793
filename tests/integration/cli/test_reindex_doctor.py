"""What the doctor sees of the collection that serves, and of a reindex."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from served import served

from memcore.config.settings import Settings
from memcore.ledger import Ledger, LedgerUrls
from memcore.ledger.reindex import ReindexKind
from ops.cli.reindex_look import embedder, reindex

#: The name of the embedder that is configured where nothing is said.
CONFIGURED = "wordllama-256-tempered"


@pytest.fixture
def settings(sqlite_ledger: LedgerUrls, tmp_path: Path) -> Settings:
    return Settings.load(
        {
            "MEMTEND_BROKER_URL": "redis://127.0.0.1:1/0",
            "MEMTEND_DATABASE_URL": sqlite_ledger.ledger,
            "MEMTEND_JOURNAL_URL": sqlite_ledger.journal,
            "MEMTEND_QDRANT_URL": "http://127.0.0.1:1",
            "MEMTEND_HOME": str(tmp_path),
        }
    )


@pytest.fixture
def then() -> datetime:
    """Long ago."""
    return datetime.now(UTC) - timedelta(hours=1)


@pytest.fixture
def ledger(settings: Settings, then: datetime) -> Iterator[Ledger]:
    opened = Ledger.open(settings.ledger_urls, clock=lambda: then)
    yield opened
    opened.close()


def test_an_embedder_that_is_configured_and_does_not_serve_is_told(settings: Settings, ledger: Ledger) -> None:
    (new,) = embedder(settings)
    assert (new.ok, new.seen) == (True, f"{CONFIGURED}, 256 dimensions (static)")
    ledger.servings.adopt("default", served("old", embedder="minilm"))
    (changed,) = embedder(settings)
    assert not changed.ok
    assert f"{CONFIGURED}, 256 dimensions (static) is configured, and minilm" in changed.seen
    assert "memtend reindex" in changed.mend


def test_a_reindex_that_nobody_carries_on_is_told_and_an_old_collection_is_named(
    settings: Settings, ledger: Ledger
) -> None:
    assert list(reindex(settings)) == []
    first = ledger.servings.adopt("default", served("old"))
    begun = ledger.servings.begin(
        "default", version=first.version, target=served("new", generation=2), kind=ReindexKind.FORWARD, total=8
    )
    (stuck,) = reindex(settings)
    assert (stuck.ok, stuck.seen) == (False, "copying, 0%")
    taken = ledger.reindexes.take("default", lease=timedelta(hours=2))
    assert taken is not None
    (going,) = reindex(settings)
    assert going.ok

    frozen = ledger.servings.freeze("default", version=begun.version, lasts=timedelta(seconds=1))
    assert frozen is not None
    switched = ledger.servings.switch("default", version=frozen.version, settles=timedelta(seconds=1))
    assert switched is not None
    ledger.servings.settle("default", version=switched.version)
    (kept,) = reindex(settings)
    assert kept.ok
    assert "old is kept" in kept.seen

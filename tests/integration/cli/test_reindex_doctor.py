"""What the doctor sees of the collection that serves, and of a reindex."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.active_collections import served
from support.present import present
from support.registered_checkpoints import registered

from memcore.config.settings import Settings
from memcore.embedding.factory import create_embedder
from memcore.errors import MemoryConfigError
from memcore.finetune.checkpoint import choice_of
from memcore.jobs import ReindexPayload
from memcore.ledger.collections import ReindexKind
from memcore.ledger.ledger import Ledger
from ops.cli.running import health_checks
from ops.cli.running.health_checks import embedder, reindex

#: The name of the embedder that is configured where nothing is said.
CONFIGURED = "wordllama-256-tempered"


@pytest.fixture
def settings(environ: dict[str, str]) -> Settings:
    return Settings.load(environ)


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
    ledger.collection_pointers.adopt("default", served("old", embedder="minilm"))
    (changed,) = embedder(settings)
    assert not changed.ok
    assert f"{CONFIGURED}, 256 dimensions (static), text " in changed.seen
    assert "is configured, and minilm" in changed.seen
    assert "memtend reindex" in changed.mend


def test_a_checkpoint_that_serves_needs_no_configuration_and_must_be_what_it_was(
    settings: Settings, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = registered(ledger, "default", tmp_path / "runs")
    choice = choice_of(checkpoint)
    loaded = create_embedder(choice)
    first = served("old")
    identity = first.identity.model_copy(update={"name": loaded.name, "dims": loaded.dims})
    changes = {"choice": choice, "identity": identity, "checkpoint_id": checkpoint.checkpoint_id}
    ledger.collection_pointers.adopt("default", first.model_copy(update=changes))
    (whole,) = embedder(settings)
    assert whole.ok
    assert f"checkpoint {checkpoint.checkpoint_id} serves, {loaded.name}" in whole.seen

    other = registered(ledger, "default", tmp_path / "others", seed=1)
    shutil.rmtree(checkpoint.model_path)
    shutil.copytree(other.model_path, checkpoint.model_path)
    (changed,) = embedder(settings)
    assert not changed.ok
    assert checkpoint.model_path in changed.mend
    shutil.rmtree(checkpoint.model_path)
    (elsewhere,) = embedder(settings)
    assert (elsewhere.ok, "its files are not on this machine" in elsewhere.seen) == (True, True)
    monkeypatch.setattr(health_checks, "_is_embedded", lambda _: True)
    with pytest.raises(MemoryConfigError, match="must hold"):
        list(embedder(settings))


def test_a_reindex_that_nobody_carries_on_is_told_and_an_old_collection_is_named(
    settings: Settings, ledger: Ledger
) -> None:
    assert list(reindex(settings)) == []
    first = ledger.collection_pointers.adopt("default", served("old"))
    begun = ledger.collection_pointers.begin(
        "default", version=first.version, target=served("new", generation=2), kind=ReindexKind.FORWARD, total=8
    )
    (stuck,) = reindex(settings)
    assert (stuck.ok, stuck.seen) == (False, "copying, 0%, and nobody has it in hand")
    (item,) = ledger.work.open("default", ReindexPayload.task)
    assert ledger.reindexes.claim("default", item.key, lease=timedelta(hours=2)) is not None
    (going,) = reindex(settings)
    assert going.ok

    frozen = present(ledger.collection_pointers.freeze("default", version=begun.version, lasts=timedelta(seconds=1)))
    switched = present(
        ledger.collection_pointers.switch("default", version=frozen.version, settles=timedelta(seconds=1))
    )
    ledger.collection_pointers.settle("default", version=switched.version)
    (kept,) = reindex(settings)
    assert kept.ok
    assert "old is kept" in kept.seen


def test_terms_of_an_earlier_release_are_told_and_mended_by_a_reindex(settings: Settings, ledger: Ledger) -> None:
    ledger.collection_pointers.adopt("default", served("old").model_copy(update={"terms_version": 1}))
    (old,) = reindex(settings)
    assert (old.ok, "old" in old.seen, "`memtend reindex`" in old.mend) == (False, True, True)

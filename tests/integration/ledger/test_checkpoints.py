"""Checkpoints in the ledger: what removes them, what keeps them, and what two processes at once may and may not do."""

import threading
from datetime import timedelta
from pathlib import Path

import pytest
from support.active_collections import served
from support.ledger_records import COMPANY
from support.present import present
from support.registered_checkpoints import registered

from memcore.errors import CheckpointConflictError, CheckpointNotFoundError, MemoryInputError
from memcore.ledger.collections import (
    Checkpoint,
    CollectionPointer,
    CollectionUse,
    ReindexKind,
    ServedCollection,
    read_serving,
)
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import AuditNote, AuditVerdict, append

MINUTE = timedelta(minutes=1)


def note(action: str) -> AuditNote:
    return AuditNote(actor="person:ada", action=action, verdict=AuditVerdict.DONE)


def filled_by(checkpoint: Checkpoint) -> ServedCollection:
    return served("new", generation=2).model_copy(update={"checkpoint_id": checkpoint.checkpoint_id})


def begun(ledger: Ledger, target: ServedCollection, kind: ReindexKind = ReindexKind.FORWARD) -> CollectionPointer:
    version = ledger.collection_pointers.adopt(COMPANY, served("old")).version
    return ledger.collection_pointers.begin(
        COMPANY, version=version, target=target, kind=kind, total=1, note=note("begin")
    )


def switched(ledger: Ledger, pointer: CollectionPointer) -> CollectionPointer:
    frozen = present(ledger.collection_pointers.freeze(COMPANY, version=pointer.version, lasts=MINUTE))
    done = present(ledger.collection_pointers.switch(COMPANY, version=frozen.version, settles=MINUTE))
    return present(ledger.collection_pointers.settle(COMPANY, version=done.version))


def actions(ledger: Ledger) -> list[str]:
    return sorted(line.action for line in ledger.audit.page(COMPANY))


@pytest.fixture
def checkpoint(ledger: Ledger, tmp_path: Path) -> Checkpoint:
    return registered(ledger, COMPANY, tmp_path / "runs")


def test_what_is_in_use_stays_until_it_is_no_more(ledger: Ledger, checkpoint: Checkpoint) -> None:
    def refused(use: CollectionUse, pointer: CollectionPointer) -> None:
        assert pointer.use_of(checkpoint) is use
        with pytest.raises(CheckpointConflictError):
            ledger.checkpoints.remove(COMPANY, checkpoint.checkpoint_id, note=note("remove"))

    filling = begun(ledger, filled_by(checkpoint))
    refused(CollectionUse.FILLING, filling)
    serves = switched(ledger, filling)
    refused(CollectionUse.SERVES, serves)
    kept = switched(ledger, begun(ledger, present(serves.previous), ReindexKind.BACK))
    refused(CollectionUse.KEPT, kept)
    assert ledger.checkpoints.get(COMPANY, checkpoint.checkpoint_id) == checkpoint
    assert actions(ledger) == ["begin", "begin"]

    assert ledger.collection_pointers.forget_previous(COMPANY, version=kept.version) is not None
    assert ledger.checkpoints.remove(COMPANY, checkpoint.checkpoint_id, note=note("remove")) == checkpoint
    assert actions(ledger) == ["begin", "begin", "remove"]
    with pytest.raises(CheckpointNotFoundError):
        ledger.checkpoints.remove(COMPANY, checkpoint.checkpoint_id, note=note("remove"))
    assert len(actions(ledger)) == 3


def test_one_that_is_configured_by_its_folder_is_in_use_too(ledger: Ledger, checkpoint: Checkpoint) -> None:
    first = served("old")
    choice = first.choice.model_copy(update={"model": checkpoint.model_path})
    ledger.collection_pointers.adopt(COMPANY, first.model_copy(update={"choice": choice}))
    with pytest.raises(CheckpointConflictError, match="it serves"):
        ledger.checkpoints.remove(COMPANY, checkpoint.checkpoint_id, note=note("remove"))


def test_one_that_was_removed_is_not_filled_with_and_leaves_no_line(ledger: Ledger, checkpoint: Checkpoint) -> None:
    ledger.checkpoints.remove(COMPANY, checkpoint.checkpoint_id, note=note("remove"))
    with pytest.raises(CheckpointNotFoundError):
        begun(ledger, filled_by(checkpoint))
    pointer = present(ledger.collection_pointers.get(COMPANY))
    assert (pointer.phase, pointer.target, ledger.reindexes.last(COMPANY)) == (None, None, None)
    assert actions(ledger) == ["remove"]


def test_who_comes_second_with_an_old_row_leaves_no_line(ledger: Ledger, checkpoint: Checkpoint) -> None:
    version = ledger.collection_pointers.adopt(COMPANY, served("old")).version
    begun(ledger, filled_by(checkpoint))
    with pytest.raises(MemoryInputError, match="another one is under way"):
        ledger.collection_pointers.begin(
            COMPANY,
            version=version,
            target=filled_by(checkpoint),
            kind=ReindexKind.FORWARD,
            total=1,
            note=note("second"),
        )
    assert actions(ledger) == ["begin"]


def test_a_deploy_in_the_middle_of_a_removal_waits_for_it(
    ledger: Ledger, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.collection_pointers.adopt(COMPANY, served("old"))
    heard: list[object] = []

    def deploys() -> None:
        try:
            heard.append(begun(ledger, filled_by(checkpoint)))
        except CheckpointNotFoundError as error:
            heard.append(error)

    thread = threading.Thread(target=deploys)

    def read_then_deployed(*args: object) -> CollectionPointer | None:
        found = read_serving(*args)  # type: ignore[arg-type]  # what it was called with
        thread.start()
        # It waits for the removal: so long that it would be done, did it not.
        thread.join(timeout=1.0)
        return found

    monkeypatch.setattr("memcore.ledger.collections.read_serving", read_then_deployed)
    ledger.checkpoints.remove(COMPANY, checkpoint.checkpoint_id, note=note("remove"))
    thread.join()
    assert [type(each) for each in heard] == [CheckpointNotFoundError]
    assert actions(ledger) == ["remove"]


def test_a_removal_in_the_middle_of_a_deploy_is_refused(
    ledger: Ledger, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = ledger.collection_pointers.adopt(COMPANY, served("old")).version
    heard: list[object] = []

    def removes() -> None:
        try:
            heard.append(ledger.checkpoints.remove(COMPANY, checkpoint.checkpoint_id, note=note("remove")))
        except CheckpointConflictError as error:
            heard.append(error)

    thread = threading.Thread(target=removes)

    def delayed_append(*args: object, **kwargs: object) -> None:
        thread.start()
        thread.join(timeout=1.0)
        append(*args, **kwargs)  # type: ignore[arg-type]  # what it was called with

    monkeypatch.setattr("memcore.ledger.collections.append", delayed_append)
    target = filled_by(checkpoint)
    ledger.collection_pointers.begin(
        COMPANY, version=version, target=target, kind=ReindexKind.FORWARD, total=1, note=note("begin")
    )
    thread.join()
    assert [type(each) for each in heard] == [CheckpointConflictError]
    assert ledger.checkpoints.get(COMPANY, checkpoint.checkpoint_id) == checkpoint

"""Embedders that were trained on memories are named in the receipt, and go where they are to be retired."""

from pathlib import Path

import pytest
from sqlalchemy import update
from support.erasure_world import WORD, ErasureWorld
from support.fault_injection import Crash
from support.ledger_records import COMPANY
from support.present import present
from support.registered_checkpoints import registered
from support.store_items import item

from memcore.erasure import checkpoints
from memcore.erasure.checkpoints import TrainedCheckpoints
from memcore.erasure.receipt import ErasureReceipt, verified
from memcore.errors import CheckpointConflictError, MemoryInputError
from memcore.jobs import Deferred, Done
from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.collections import Checkpoint
from memcore.ledger.tables import pointer


def trained(world: ErasureWorld) -> list[Checkpoint]:
    runs = world.settings.home / "fine-tune" / "runs"
    return [registered(world.ledger, COMPANY, runs, seed=seed) for seed in range(2)]


def folders(made: list[Checkpoint]) -> list[bool]:
    return [Path(each.model_path).is_dir() for each in made]


def serve(world: ErasureWorld, checkpoint: Checkpoint) -> None:
    """Say in the pointer that the checkpoint has filled the collection that serves."""
    pointers = world.ledger.collection_pointers
    before = present(pointers.get(COMPANY))
    current = before.current.model_copy(update={"checkpoint_id": checkpoint.checkpoint_id})
    with pointers._database.write() as connection:
        connection.execute(update(pointer).values(current=current.model_dump(mode="json")))


def receipt_of(world: ErasureWorld, erasure_id: str) -> ErasureReceipt:
    erasure = present(world.ledger.erasures.get(COMPANY, erasure_id))
    return verified(present(erasure.receipt), world.ledger.signing_keys.all(), ErasureReceipt)


async def test_they_are_named_and_stay_where_nobody_asked_for_more(world: ErasureWorld) -> None:
    made = trained(world)
    erasure_id = world.asked()
    assert isinstance(await world.service().run(erasure_id), Done)
    receipt = receipt_of(world, erasure_id)
    assert receipt.checkpoints == tuple(sorted(each.checkpoint_id for each in made))
    assert receipt.retired == ()
    assert folders(made) == [True, True]


@pytest.mark.parametrize("subject", [None, "user:ann"])
async def test_they_are_retired_with_their_files_across_a_crash(
    world: ErasureWorld, subject: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trained(world)
    await world.ingestor().write([item(world.secret("ann"), namespace="user:ann", sent_at=world.clock())])
    erasure_id = world.asked(subject=subject, retire_checkpoints=True)

    def crash(_checkpoint: Checkpoint) -> bool:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "delete_files", crash)
        with pytest.raises(Crash):
            await world.service().run(erasure_id, retire=True)
    assert world.ledger.checkpoints.count(COMPANY) == 1
    assert folders(made) == [True, True]
    world.clock.now += LEASE_LENGTH
    assert isinstance(await world.service().run(erasure_id, retire=True), Done)
    receipt = receipt_of(world, erasure_id)
    assert receipt.checkpoints == receipt.retired == tuple(sorted(each.checkpoint_id for each in made))
    assert world.ledger.checkpoints.count(COMPANY) == 0
    assert folders(made) == [False, False]
    assert [line.action for line in world.ledger.audit.page(COMPANY)].count("finetune.delete") == len(made)


async def test_one_that_serves_is_not_retired_and_the_erasure_waits_for_a_person(world: ErasureWorld) -> None:
    serving, _ = trained(world)
    erasure_id = world.asked(retire_checkpoints=True)
    serve(world, serving)
    waits = await world.service().run(erasure_id, retire=True)
    assert isinstance(waits, Deferred)
    assert "finetune rollback" in waits.reason
    assert world.ledger.checkpoints.count(COMPANY) == 2
    with pytest.raises(CheckpointConflictError, match="it serves; `memtend finetune rollback`"):
        TrainedCheckpoints(world.ledger, company=COMPANY, home=world.settings.home).require_unused()


async def test_one_that_documents_alone_have_trained_is_no_matter(world: ErasureWorld) -> None:
    run = present(world.ledger.finetune_runs.get(COMPANY, trained(world)[0].run_id))
    found = TrainedCheckpoints(world.ledger, company=COMPANY, home=world.settings.home)
    assert run.run_id in {each.run_id for each in found.find()}
    plan = {"source_dir": "/docs", "uses_memories": False}
    alone = world.ledger.finetune_runs.start(COMPANY, plan)
    assert not found._took_memories(alone.run_id)


def test_an_erasure_that_goes_on_without_it_is_not_said_to_retire(world: ErasureWorld) -> None:
    world.asked()
    with pytest.raises(MemoryInputError, match="retire_checkpoints"):
        world.ledger.erasures.request(COMPANY, "ada", confirmation=WORD, retire_checkpoints=True)

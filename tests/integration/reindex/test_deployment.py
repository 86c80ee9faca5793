"""Deploy, roll back and delete a checkpoint on a real store: search results and refusals."""

import asyncio
import logging
from datetime import timedelta
from pathlib import Path

import pytest
from support.memories import new_agent, record
from support.registered_checkpoints import DIMS, WEIGHT, registered
from support.reindex_fixture import ReindexWorld

from memcore.backends.mem0.backend import Mem0Backend
from memcore.errors import (
    CheckpointConflictError,
    CheckpointCorruptError,
    CheckpointNotFoundError,
    CheckpointRollbackCorruptError,
    CheckpointRollbackUnavailableError,
    MemoryNotFoundError,
)
from memcore.finetune.checkpoint import MANIFEST_FILE, delete_files
from memcore.finetune.deployment import CheckpointDeployment, active_embedder
from memcore.jobs import ReindexPayload
from memcore.ledger.collections import Checkpoint, CollectionUse, Phase, Verdict
from memcore.ledger.organization.audit import Confirmation
from memcore.models.memory import MemoryQuery
from memcore.telemetry.events import Event

ADA = Confirmation(actor="ada", confirm=True, reason="it leads")
BOB = Confirmation(actor="bob", confirm=True, reason="it is too large")

TEXTS = ("the queue is full", "a tidy garden with tea", "that payment failed")


def deployment(world: ReindexWorld) -> CheckpointDeployment:
    return CheckpointDeployment(world.reindex_target, world.ledger, company=world.company, load=world.load)


@pytest.fixture
def checkpoint(world: ReindexWorld, tmp_path: Path) -> Checkpoint:
    return registered(world.ledger, world.company, tmp_path / "runs")


def actions(world: ReindexWorld) -> list[tuple[str, str | None]]:
    return [(line.action, line.subject) for line in reversed(world.ledger.audit.page(world.company))]


def lengths(world: ReindexWorld, collection: str) -> set[int]:
    """How long the vectors of a collection are: the checkpoint's are shorter."""
    vectors = [vector for _, vector in world.points(collection).values()]
    return {len(vector[""] if isinstance(vector, dict) else vector) for vector in vectors}


async def test_agents_find_with_the_checkpoint_then_with_what_served_before(
    world: ReindexWorld, backend: Mem0Backend, checkpoint: Checkpoint
) -> None:
    agent = new_agent()
    await backend.store_many([record(agent, text) for text in TEXTS])
    old, weight, deployed = world.pointer.current, backend.dense_weight, deployment(world)
    assert active_embedder(world.ledger, world.company).model_dump() == {
        "provider": "even", "model": "even", "checkpoint_id": None, "dims": 64, "collection": old.name,
        "dense_weight": None,
    }  # fmt: skip

    begun = await deployed.deploy(checkpoint.checkpoint_id, ADA)
    assert (begun.phase, begun.current, begun.use_of(checkpoint)) == (Phase.FILLING, old, CollectionUse.FILLING)
    assert active_embedder(world.ledger, world.company).checkpoint_id is None
    (line,) = world.ledger.audit.page(world.company)
    assert (line.actor, line.action, line.subject, line.reason) == (
        "person:ada",
        "finetune.deploy",
        checkpoint.checkpoint_id,
        "it leads",
    )
    assert len(world.ledger.work.open(world.company, ReindexPayload.task)) == 1
    await world.finish()

    active = active_embedder(world.ledger, world.company)
    assert (active.provider, active.model, active.checkpoint_id) == (
        "static",
        checkpoint.model_path,
        checkpoint.checkpoint_id,
    )
    assert (active.dims, active.dense_weight) == (DIMS, WEIGHT)
    assert (lengths(world, old.name), lengths(world, active.collection)) == ({64}, {DIMS})
    world.clock.now += timedelta(seconds=3)
    found = await backend.retrieve(agent, MemoryQuery(text="tea with a garden", limit=1))
    assert found[0].content == TEXTS[1]
    rankings = await backend.retrieve_rankings(agent, MemoryQuery(text="tea with a garden"))
    assert (rankings.dense_weight, backend.dense_weight) == (WEIGHT, WEIGHT)
    assert checkpoint.sha256 not in (backend.vector_space or "")
    assert f"{DIMS} dimensions" in (backend.vector_space or "")

    await backend.store_many([record(agent, "the tidy queue")])
    back = await deployed.rollback(None, ADA)
    assert back.use_of(checkpoint) is CollectionUse.SERVES
    await world.finish()
    world.clock.now += timedelta(seconds=3)
    assert active_embedder(world.ledger, world.company).collection == old.name
    assert world.pointer.use_of(checkpoint) is CollectionUse.KEPT
    assert await backend.count(agent) == 4
    assert (await backend.retrieve(agent, MemoryQuery(text="tidy queue", limit=1)))[0].content == "the tidy queue"
    assert backend.dense_weight == weight
    assert actions(world) == [
        ("finetune.deploy", checkpoint.checkpoint_id),
        ("finetune.rollback", old.name),
    ]

    await deployed.rollback(checkpoint.checkpoint_id, ADA)
    await world.finish()
    assert active_embedder(world.ledger, world.company).checkpoint_id == checkpoint.checkpoint_id
    assert actions(world)[-1] == ("finetune.rollback", checkpoint.checkpoint_id)


@pytest.mark.parametrize(
    ("verdict", "said"), [(Verdict.REJECTED, "the gate rejected"), (Verdict.UNDECIDED, "the gate could not judge")]
)
async def test_a_checkpoint_that_the_gate_did_not_promote_is_deployed_by_force_alone(
    world: ReindexWorld,
    backend: Mem0Backend,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    verdict: Verdict,
    said: str,
) -> None:
    assert backend.dense_weight
    rejected = registered(world.ledger, world.company, tmp_path / "runs", verdict=verdict).checkpoint_id
    with pytest.raises(CheckpointConflictError, match=said):
        await deployment(world).deploy(rejected, ADA)
    assert (world.pointer.phase, actions(world)) == (None, [])
    assert [vars(one)["error"] for one in caplog.records if one.msg == Event.MEMORY_CHECKPOINT_DEPLOY_FAILED] == [
        "CheckpointConflictError"
    ]
    await deployment(world).deploy(rejected, ADA, is_forced=True)
    assert actions(world) == [("finetune.deploy_forced", rejected)]


async def test_what_cannot_be_deployed_now_says_what_to_do(
    world: ReindexWorld, backend: Mem0Backend, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    assert backend.dense_weight
    deployed = deployment(world)
    second = registered(world.ledger, world.company, tmp_path / "runs", seed=1).checkpoint_id
    with pytest.raises(CheckpointNotFoundError):
        await deployed.deploy("another", ADA)
    with pytest.raises(CheckpointRollbackUnavailableError, match="no old collection is kept"):
        await deployed.rollback(None, ADA)

    await deployed.deploy(checkpoint.checkpoint_id, ADA)
    with pytest.raises(CheckpointConflictError, match="being deployed"):
        await deployed.deploy(checkpoint.checkpoint_id, ADA)
    with pytest.raises(CheckpointConflictError, match="one is under way"):
        await deployed.deploy(second, ADA)
    with pytest.raises(CheckpointRollbackUnavailableError, match="--cancel"):
        await deployed.rollback(None, ADA)
    await world.finish()
    with pytest.raises(CheckpointConflictError, match="serves already"):
        await deployed.deploy(checkpoint.checkpoint_id, ADA)
    with pytest.raises(CheckpointConflictError, match="memtend reindex --drop-old"):
        await deployed.deploy(second, ADA)
    with pytest.raises(CheckpointRollbackUnavailableError, match=f"memtend finetune deploy {second}"):
        await deployed.rollback(second, ADA)
    await deployed.rollback(None, ADA)
    await world.finish()
    with pytest.raises(CheckpointConflictError, match="memtend finetune rollback"):
        await deployed.deploy(checkpoint.checkpoint_id, ADA)
    assert len(actions(world)) == 2, "what was refused left no line"


@pytest.mark.parametrize("harm", ["gone", "changed", "swapped"])
async def test_a_folder_that_is_not_what_was_registered_is_neither_deployed_nor_gone_back_to(
    world: ReindexWorld, backend: Mem0Backend, checkpoint: Checkpoint, tmp_path: Path, harm: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    assert backend.dense_weight
    folder, deployed = Path(checkpoint.model_path), deployment(world)
    other = Path(registered(world.ledger, world.company, tmp_path / "others", seed=1).model_path)

    def harmed() -> None:
        match harm:
            case "gone":
                folder.rename(folder.with_name("elsewhere"))
            case "changed":
                table = folder / "table.safetensors"
                table.write_bytes(table.read_bytes()[:-1] + b"x")
            case _:
                folder.rename(folder.with_name("elsewhere"))
                other.rename(folder)

    await deployed.deploy(checkpoint.checkpoint_id, ADA)
    await world.finish()
    await deployed.rollback(None, ADA)
    await world.finish()
    harmed()
    before = world.pointer
    with pytest.raises(CheckpointRollbackCorruptError, match="cannot serve again"):
        await deployed.rollback(checkpoint.checkpoint_id, ADA)
    assert world.pointer == before
    assert Event.MEMORY_CHECKPOINT_ROLLBACK_FAILED in [one.msg for one in caplog.records]
    await world.planning.drop_old()
    with pytest.raises(CheckpointCorruptError, match=checkpoint.checkpoint_id):
        await deployed.deploy(checkpoint.checkpoint_id, ADA)
    assert world.pointer.phase is None


async def test_what_served_before_is_gone_back_to_only_with_the_embedder_that_filled_it(
    world: ReindexWorld, backend: Mem0Backend, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert backend.dense_weight
    await deployment(world).deploy(checkpoint.checkpoint_id, ADA)
    await world.finish()
    monkeypatch.setattr(
        "support.reindex_fixture.SidedEmbedder.name", property(lambda _: "another release of the model")
    )
    with pytest.raises(CheckpointRollbackCorruptError, match="another release of the model"):
        await deployment(world).rollback(None, ADA)
    assert world.pointer.phase is None


async def test_of_two_deploys_at_one_moment_one_wins(
    world: ReindexWorld, backend: Mem0Backend, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    assert backend.dense_weight
    second = registered(world.ledger, world.company, tmp_path / "runs", seed=1)
    both = await asyncio.gather(
        *(deployment(world).deploy(each.checkpoint_id, ADA) for each in (checkpoint, second)),
        return_exceptions=True,
    )
    (refused,) = [each for each in both if isinstance(each, BaseException)]
    assert isinstance(refused, CheckpointConflictError)
    target = world.pointer.target
    assert target is not None
    assert actions(world) == [("finetune.deploy", target.checkpoint_id)]


async def test_a_cancelled_deploy_leaves_what_served_and_can_be_begun_again(
    world: ReindexWorld, backend: Mem0Backend, checkpoint: Checkpoint
) -> None:
    assert backend.dense_weight
    deployed, before = deployment(world), world.pointer.current
    await deployed.deploy(checkpoint.checkpoint_id, ADA)
    with pytest.raises(CheckpointConflictError, match="memtend reindex --cancel"):
        await deployed.delete(checkpoint.checkpoint_id, ADA)
    await world.planning.cancel()
    assert (world.pointer.current, world.pointer.target) == (before, None)
    await deployed.deploy(checkpoint.checkpoint_id, ADA)
    await world.finish()
    assert active_embedder(world.ledger, world.company).checkpoint_id == checkpoint.checkpoint_id


async def test_a_checkpoint_is_deleted_with_its_folder_once_nothing_uses_it(
    world: ReindexWorld, backend: Mem0Backend, checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert backend.dense_weight
    deployed, checkpoint_id, folder = deployment(world), checkpoint.checkpoint_id, Path(checkpoint.model_path)
    await deployed.deploy(checkpoint_id, ADA)
    await world.finish()
    with pytest.raises(CheckpointConflictError, match="it serves"):
        await deployed.delete(checkpoint_id, ADA)
    await deployed.rollback(None, ADA)
    await world.finish()
    with pytest.raises(CheckpointConflictError, match="kept"):
        await deployed.delete(checkpoint_id, ADA)
    await world.planning.drop_old()
    assert (folder / MANIFEST_FILE).is_file()

    assert await deployed.delete(checkpoint_id, ADA) == checkpoint
    assert not list(folder.parent.glob("*"))
    assert world.ledger.checkpoints.get(world.company, checkpoint_id) is None
    assert actions(world)[-1] == ("finetune.delete", checkpoint_id)
    assert Event.MEMORY_CHECKPOINT_DELETED in [one.msg for one in caplog.records]
    for deed in (deployed.delete, deployed.deploy, deployed.rollback):
        with pytest.raises(CheckpointNotFoundError):
            await deed(checkpoint_id, ADA)


async def test_of_a_deploy_and_a_delete_at_one_moment_one_is_refused(
    world: ReindexWorld, backend: Mem0Backend, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert backend.dense_weight
    count = world.reindex_target.count

    async def counting(collection: str) -> int:
        # After every check of the deploy, before its transaction.
        await deployment(world).delete(checkpoint.checkpoint_id, BOB)
        return await count(collection)

    monkeypatch.setattr(world.reindex_target, "count", counting)
    with pytest.raises(CheckpointNotFoundError):
        await deployment(world).deploy(checkpoint.checkpoint_id, ADA)
    assert (world.pointer.phase, world.pointer.target) == (None, None)
    assert actions(world) == [("finetune.delete", checkpoint.checkpoint_id)]


def test_a_row_that_names_any_other_folder_deletes_nothing_there(checkpoint: Checkpoint, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    assert not delete_files(checkpoint.model_copy(update={"model_path": str(precious)}))
    assert precious.is_dir()


def test_nothing_is_active_before_anybody_has_connected(world: ReindexWorld) -> None:
    with pytest.raises(MemoryNotFoundError, match="nobody has connected"):
        active_embedder(world.ledger, world.company)

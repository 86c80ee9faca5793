"""The memory service's checkpoint calls on a real store: the active embedder, the audit, the dispatches."""

from pathlib import Path

import pytest
from support.job_contexts import RecordingDispatcher
from support.memories import new_agent, record
from support.memory_services import WORD, memory_service
from support.registered_checkpoints import DIMS, registered
from support.reindex_fixture import ReindexWorld

from memcore.backends.mem0.backend import Mem0Backend
from memcore.errors import (
    CheckpointConflictError,
    CheckpointNotFoundError,
    CheckpointRollbackUnavailableError,
    MemoryConnectionError,
)
from memcore.finetune.deployment import CheckpointDeployment
from memcore.jobs import ReindexPayload
from memcore.ledger.collections import Checkpoint, Verdict
from memcore.service import MemoryService


@pytest.fixture
def dispatcher() -> RecordingDispatcher:
    return RecordingDispatcher()


@pytest.fixture
def service(
    world: ReindexWorld, backend: Mem0Backend, dispatcher: RecordingDispatcher, tmp_path: Path
) -> MemoryService:
    deployment = CheckpointDeployment(world.reindex_target, world.ledger, company=world.company, load=world.load)
    return memory_service(
        world.ledger, dispatcher, world.clock, tmp_path, company=world.company, backend=backend, deployment=deployment
    )


def is_there(checkpoint: Checkpoint) -> bool:
    return Path(checkpoint.model_path).exists()


async def test_a_checkpoint_is_deployed_seen_gone_back_from_and_deleted(
    service: MemoryService, world: ReindexWorld, backend: Mem0Backend, dispatcher: RecordingDispatcher, tmp_path: Path
) -> None:
    checkpoint = registered(world.ledger, world.company, tmp_path / "runs")
    key = checkpoint.checkpoint_id
    await backend.store_many([record(new_agent(), "the queue is full")])
    before = await service.finetune.get_active_embedder()
    assert (before.model, before.checkpoint_id) == ("even", None)
    with pytest.raises(CheckpointRollbackUnavailableError):
        await service.finetune.rollback_checkpoint(key, WORD)
    for ask in (
        service.finetune.deploy_checkpoint,
        service.finetune.rollback_checkpoint,
        service.finetune.delete_checkpoint,
    ):
        with pytest.raises(CheckpointNotFoundError):
            await ask("another", WORD)
    assert dispatcher.items == []

    pointer = await service.finetune.deploy_checkpoint(key, WORD)
    assert pointer.target is not None
    assert [company for company, _ in dispatcher.dispatched_for(ReindexPayload)] == [world.company]
    await world.finish()
    active = await service.finetune.get_active_embedder()
    assert (active.checkpoint_id, active.dims) == (key, DIMS)

    dispatcher.error = MemoryConnectionError("the broker is away")
    await service.finetune.rollback_checkpoint(None, WORD)
    await world.finish()
    back = await service.finetune.get_active_embedder()
    assert back == before, "what served before serves again; nothing else was switched off"
    assert (await service.finetune.list_checkpoints(limit=1, offset=0))[1] == 1

    lines = world.ledger.audit.page(world.company)
    noted = [(line.actor, line.action, line.subject, line.reason) for line in reversed(lines)]
    assert noted[0] == ("person:grace", "finetune.deploy", key, WORD.reason)
    assert (noted[1][0], noted[1][1], noted[1][3]) == ("person:grace", "finetune.rollback", WORD.reason)
    assert len(noted) == 2


async def test_one_that_the_gate_rejected_takes_a_word_more(
    service: MemoryService, world: ReindexWorld, tmp_path: Path
) -> None:
    rejected = registered(world.ledger, world.company, tmp_path / "runs", verdict=Verdict.REJECTED).checkpoint_id
    with pytest.raises(CheckpointConflictError, match="the gate rejected"):
        await service.finetune.deploy_checkpoint(rejected, WORD)
    await service.finetune.deploy_checkpoint(rejected, WORD, force=True)
    (line,) = world.ledger.audit.page(world.company)
    assert (line.action, line.subject) == ("finetune.deploy_forced", rejected)


async def test_a_checkpoint_that_nothing_uses_is_deleted_and_that_is_noted(
    service: MemoryService, world: ReindexWorld, tmp_path: Path
) -> None:
    checkpoint = registered(world.ledger, world.company, tmp_path / "runs")
    assert await service.finetune.delete_checkpoint(checkpoint.checkpoint_id, WORD) == checkpoint
    assert not is_there(checkpoint)
    with pytest.raises(CheckpointNotFoundError):
        await service.finetune.get_checkpoint(checkpoint.checkpoint_id)
    (line,) = world.ledger.audit.page(world.company)
    assert (line.actor, line.subject, line.reason) == ("person:grace", checkpoint.checkpoint_id, WORD.reason)

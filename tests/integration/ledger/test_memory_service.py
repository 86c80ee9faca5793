"""The memory service on a real ledger: runs, pages, the removal of a memory, what is noted and what it dispatches."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from support.checkpoint_rows import checkpoint_row
from support.job_contexts import RecordingDispatcher
from support.ledger_records import COMPANY, StoppedClock
from support.maintenance_fixture import AGENT, memory, uid
from support.memory_services import WORD, memory_service, noted
from support.present import present

from memcore.backends.inmemory import InMemoryBackend
from memcore.errors import (
    CheckpointNotFoundError,
    FineTuneRunActiveError,
    FineTuneRunNotFoundError,
    FineTuneRunNotResumableError,
    MemoryBackendUnsupportedError,
    MemoryConnectionError,
    MemoryInputError,
    MemoryNotFoundError,
    MemoryStoreError,
)
from memcore.finetune.preflight import PreflightResult
from memcore.jobs import FineTunePayload, ReindexPayload
from memcore.ledger.agents import AgentSpec
from memcore.ledger.finetune_runs import FineTuneRun
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun
from memcore.ledger.work_items import REDISPATCH_AFTER, WorkState
from memcore.models.finetune import STAGES, FineTunePlan, FineTuneStage
from memcore.service import MemoryService

LEASE = timedelta(seconds=45)


def at_work(ledger: Ledger, run_id: str) -> tuple[FineTuneRun, str]:
    held = present(ledger.finetune_runs.claim(COMPANY, run_id, lease=LEASE))
    return held, present(held.token)


async def test_a_run_is_started_dispatched_for_and_seen(
    service: MemoryService, dispatcher: RecordingDispatcher, ledger: Ledger
) -> None:
    assert (await service.finetune.get_fine_tune_status()).stage is FineTuneStage.IDLE
    run = await service.finetune.start_fine_tune({"epochs": 2, "kind": "static"})
    assert FineTunePlan.model_validate(run.plan) == FineTunePlan(epochs=2, kind="static")
    assert dispatcher.dispatched_for(FineTunePayload) == [(COMPANY, run.run_id)]
    with pytest.raises(FineTuneRunActiveError):
        await service.finetune.start_fine_tune(FineTunePlan())
    with pytest.raises(MemoryInputError, match=r"^epochs: "):
        await service.finetune.start_fine_tune({"epochs": 0})
    _, token = at_work(ledger, run.run_id)
    ledger.finetune_runs.report(COMPANY, run.run_id, token, progress=0.25)
    status = await service.finetune.get_fine_tune_status()
    assert (status.run_id, status.stage, status.progress) == (run.run_id, STAGES[0], 0.25)
    assert await service.finetune.get_fine_tune_status(run.run_id) == status
    with pytest.raises(FineTuneRunNotFoundError):
        await service.finetune.get_fine_tune_status("another")


async def test_of_many_starts_one_is_a_run_whichever_process_asks(
    ledger: Ledger, clock: StoppedClock, tmp_path: Path
) -> None:
    dispatchers = [RecordingDispatcher() for _ in range(4)]
    services = [memory_service(ledger, dispatcher, clock, tmp_path) for dispatcher in dispatchers]
    ends = await asyncio.gather(*(each.finetune.start_fine_tune({}) for each in services), return_exceptions=True)
    assert sum(isinstance(each, FineTuneRun) for each in ends) == 1
    assert sum(isinstance(each, FineTuneRunActiveError) for each in ends) == 3
    assert sum(len(dispatcher.items) for dispatcher in dispatchers) == 1


async def test_a_cancelled_run_is_noted_by_its_id_and_resumed(
    service: MemoryService, dispatcher: RecordingDispatcher, ledger: Ledger
) -> None:
    assert await service.finetune.cancel_fine_tune(WORD) is None
    assert noted(ledger) == []
    run = await service.finetune.start_fine_tune({})
    with pytest.raises(FineTuneRunNotResumableError):
        await service.finetune.resume_fine_tune(run.run_id)
    assert await service.finetune.cancel_fine_tune(WORD) == run.run_id
    assert noted(ledger) == [("person:grace", "finetune.cancel", run.run_id, WORD.reason)]
    status = await service.finetune.get_fine_tune_status(run.run_id)
    assert (status.stage, status.error) == (FineTuneStage.CANCELLED, "a person cancelled the run")
    assert dispatcher.dispatched_for(FineTunePayload) == [(COMPANY, run.run_id)], (
        "nothing waits of a run that has ended"
    )

    assert (await service.finetune.resume_fine_tune(run.run_id)).stage is STAGES[0]
    at_work(ledger, run.run_id)
    assert await service.finetune.cancel_fine_tune(WORD) == run.run_id
    assert dispatcher.dispatched_for(FineTunePayload) == [(COMPANY, run.run_id)] * 3, "its worker may be dead"
    assert (await service.finetune.get_run(run.run_id)).cancel_requested_at is not None
    with pytest.raises(FineTuneRunNotFoundError):
        await service.finetune.resume_fine_tune("another")


async def test_a_dispatcher_that_nobody_hears_loses_nothing(
    service: MemoryService, dispatcher: RecordingDispatcher, ledger: Ledger, clock: StoppedClock
) -> None:
    dispatcher.error = MemoryConnectionError("the broker is away")
    run = await service.finetune.start_fine_tune({})
    assert dispatcher.items == []
    clock.advance(REDISPATCH_AFTER)
    assert [item.key for item in ledger.work.take_due(limit=9)] == [run.run_id]


async def test_pages_have_their_bounds_and_the_total(
    service: MemoryService, ledger: Ledger, clock: StoppedClock
) -> None:
    run_ids: list[str] = []
    for _ in range(3):
        clock.advance(timedelta(minutes=1))
        run = await service.finetune.start_fine_tune({})
        _, token = at_work(ledger, run.run_id)
        row = checkpoint_row(run.run_id, company=COMPANY, at=clock())
        ledger.finetune_runs.complete(COMPANY, run.run_id, token, checkpoint=row)
        run_ids.insert(0, run.run_id)
    found, total = await service.finetune.list_runs(limit=2, offset=1)
    assert ([run.run_id for run in found], total) == (run_ids[1:], 3)
    rows, total = await service.finetune.list_checkpoints(limit=1, offset=1)
    assert ([row.run_id for row in rows], total) == ([run_ids[1]], 3)
    assert rows[0].doc_count > 0
    assert await service.finetune.get_checkpoint(rows[0].checkpoint_id) == rows[0]
    assert await service.finetune.list_checkpoints(limit=200, offset=3) == ((), 3)
    with pytest.raises(CheckpointNotFoundError):
        await service.finetune.get_checkpoint("another")
    for ask in (service.finetune.list_runs, service.finetune.list_checkpoints):
        for limit, offset, field in ((0, 0, "limit"), (201, 0, "limit"), (1, -1, "offset")):
            with pytest.raises(MemoryInputError, match=f"^{field}: "):
                await ask(limit=limit, offset=offset)


async def test_a_preflight_asks_the_store_where_documents_are_few(
    service: MemoryService, backend: InMemoryBackend, ledger: Ledger
) -> None:
    def documents(found: PreflightResult) -> str:
        return next(check.message for check in found.checks if check.name == "documents")

    assert documents(await service.finetune.run_preflight({})).startswith("0 documents")
    ledger.agents.put(AgentSpec(company=COMPANY, agent_id=AGENT))
    await backend.store_many([memory(number) for number in range(12)])
    assert documents(await service.finetune.run_preflight({})).startswith("12 documents")
    (check,) = (await service.finetune.run_preflight({"epochs": 0})).checks
    assert (check.name, check.status) == ("override_bounds", "fail")
    assert (await service.finetune.list_runs(limit=1, offset=0))[1] == 0


async def test_a_memory_is_removed_by_a_run_that_is_noted_with_it(
    service: MemoryService, backend: InMemoryBackend, dispatcher: RecordingDispatcher, ledger: Ledger
) -> None:
    await backend.store_many([memory(1)])
    with pytest.raises(MemoryNotFoundError, match=r"^memory_id: "):
        await service.finetune.delete_memory_entry(AGENT, uid(2), WORD)
    assert noted(ledger) == []
    run = await service.finetune.delete_memory_entry(AGENT, uid(1), WORD)
    assert (run.kind, run.scope_id, run.state, run.origin) == ("remove", uid(1), WorkState.AVAILABLE, "manual")
    assert [item.key for item in dispatcher.items] == [run.run_id]
    assert noted(ledger) == [("person:grace", "memory.remove", uid(1), WORD.reason)]
    assert await backend.get_many(AGENT, [uid(1)]), "its worker removes it, through the journal"


async def test_while_another_run_is_under_way_nothing_is_removed_or_noted(
    service: MemoryService,
    backend: InMemoryBackend,
    dispatcher: RecordingDispatcher,
    ledger: Ledger,
    clock: StoppedClock,
) -> None:
    await backend.store_many([memory(1)])
    assert ledger.runs.create(NewRun(company=COMPANY, agent_id=AGENT, planned_at=clock())) is not None
    with pytest.raises(MemoryStoreError) as refused:
        await service.finetune.delete_memory_entry(AGENT, uid(1), WORD)
    assert refused.value.is_retryable
    assert noted(ledger) == []
    assert dispatcher.items == []


async def test_what_was_made_ahead_of_this_clock_is_removed_too(
    service: MemoryService, backend: InMemoryBackend, clock: StoppedClock
) -> None:
    made = memory(1)
    ahead = made.entry.model_copy(update={"created_at": clock() + timedelta(seconds=5)})
    await backend.store_many([made.__class__(entry=ahead)])
    assert (await service.finetune.delete_memory_entry(AGENT, uid(1), WORD)).planned_at == ahead.created_at


async def test_where_nothing_embeds_runs_work_and_checkpoints_say_that_they_cannot_be_deployed(
    service: MemoryService, ledger: Ledger, dispatcher: RecordingDispatcher
) -> None:
    await service.finetune.start_fine_tune({})
    for ask in (
        service.finetune.deploy_checkpoint,
        service.finetune.rollback_checkpoint,
        service.finetune.delete_checkpoint,
    ):
        with pytest.raises(MemoryBackendUnsupportedError):
            await ask("any", WORD)
    with pytest.raises(MemoryNotFoundError, match="no embedder serves yet"):
        await service.finetune.get_active_embedder()
    assert noted(ledger) == []
    assert dispatcher.dispatched_for(ReindexPayload) == []

"""The action ``shared:publish`` on a real store: published once, superseding what the person saw, taken back whole."""

from datetime import timedelta
from itertools import count

import pytest
from support.fault_injection import Crash, Faults
from support.ledger_records import COMPANY, StoppedClock
from support.present import present
from support.proposals import ADA, BOB

from memcore.approvals import (
    PUBLISHER,
    ApprovalService,
    EffectRegistry,
    SharedPublication,
    shared_proposal,
    superseded_by_id,
)
from memcore.backends.mem0.backend import Mem0Backend
from memcore.config.learning import ApprovalsConfig
from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.ledger import Ledger
from memcore.models.approval import ApprovalState, Decision, Proposal, Superseded
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryQuery, MemoryStoreRequest

ALL = MemoryQuery(limit=1000)


def request(content: str, **more: object) -> MemoryStoreRequest:
    return MemoryStoreRequest.model_validate({"category": MemoryCategory.SEMANTIC, "content": content, **more})


def instead_of(ledger: Ledger, content: str, *memory_ids: str) -> Proposal:
    old = [superseded_by_id(ledger.shared_log, COMPANY, each) for each in memory_ids]
    return shared_proposal(request(content), title="A text for all agents", proposed_by="eve", supersedes=old)


def service_of(
    backend: Mem0Backend, ledger: Ledger, clock: StoppedClock, faults: Faults | None = None
) -> ApprovalService:
    table = ledger.approvals if faults is None else faults.watched(ledger.approvals, "approvals")
    store = backend if faults is None else faults.watched(backend, "store")
    effect = SharedPublication(store, ledger.shared_log, ledger.approvals, company=COMPANY, clock=clock)
    return ApprovalService(table, EffectRegistry([effect]), company=COMPANY, lasts=ApprovalsConfig().lasts)


async def texts_in(backend: Mem0Backend) -> list[str]:
    """Return what a search by words finds and what the newest are, which are the same; doubles show."""
    newest = sorted(entry.content for entry in await backend.search_shared(ALL))
    by_text = sorted(entry.content for entry in await backend.search_shared(MemoryQuery(text="lift", limit=1000)))
    assert newest == by_text
    return newest


async def test_what_is_approved_is_found_by_all_with_the_name_of_who_approved_it(
    backend: Mem0Backend, ledger: Ledger, clock: StoppedClock
) -> None:
    service = service_of(backend, ledger, clock)
    proposed = shared_proposal(
        request(
            "the lift is out of order", category="procedural", namespace="house", metadata=MemoryMetadata(tags=("a",))
        ),
        title="A text",
        proposed_by="eve",
    )
    await service.propose("one", proposed)
    assert await texts_in(backend) == []
    approved = await service.approve("one", Decision(by="Ada Lovelace"))
    (found,) = await backend.search_shared(MemoryQuery(text="lift"), exclude_agent="eve")
    assert (found.id, found.agent_id, found.content) == (approved.effect, PUBLISHER, "the lift is out of order")
    assert (found.category, found.namespace) == (MemoryCategory.PROCEDURAL, "house")
    assert found.metadata == MemoryMetadata(source="approval:one", tags=("a", "approved", "approved-by:Ada Lovelace"))

    await service.undo("one", BOB)
    assert await texts_in(backend) == []


async def test_what_is_superseded_goes_and_comes_back_with_the_undo(
    backend: Mem0Backend, ledger: Ledger, clock: StoppedClock
) -> None:
    service = service_of(backend, ledger, clock)
    old = request("the lift works", metadata=MemoryMetadata(source="notice", confidence=0.5, tags=("house",)))
    old_id = await backend.publish("facility", old)
    other_id = await backend.publish("facility", request("the lift takes eight"))
    await service.propose("one", instead_of(ledger, "the lift is out of order", old_id, other_id))
    # Its own publisher takes one back before the approval: that is not the approval's to bring back.
    await backend.retract("facility", other_id)
    await service.approve("one", ADA)
    assert await texts_in(backend) == ["the lift is out of order"]

    await service.undo("one", BOB)
    (back,) = await backend.search_shared(ALL)
    assert (back.agent_id, back.content, back.metadata) == ("facility", "the lift works", old.metadata)


async def test_a_chain_of_approvals_can_be_undone_in_any_order(
    backend: Mem0Backend, ledger: Ledger, clock: StoppedClock
) -> None:
    service = service_of(backend, ledger, clock)
    for first, second in (("x", "y"), ("y", "x")):
        start = await backend.publish("facility", request(f"the lift works {first}"))
        await service.propose(f"x{first}", instead_of(ledger, f"the lift is slow {first}", start))
        x = await service.approve(f"x{first}", ADA)
        await service.propose(f"y{first}", instead_of(ledger, f"the lift is out {first}", x.effect or ""))
        await service.approve(f"y{first}", ADA)
        assert await texts_in(backend) == [f"the lift is out {first}"]
        await service.undo(f"{first}{first}", BOB)
        await service.undo(f"{second}{first}", BOB)
        assert await texts_in(backend) == [f"the lift works {first}"]
        (entry,) = await backend.search_shared(ALL)
        await backend.retract("facility", entry.id)


async def test_what_has_expired_meanwhile_does_not_come_back(
    backend: Mem0Backend, ledger: Ledger, clock: StoppedClock
) -> None:
    service = service_of(backend, ledger, clock)
    until = clock() + timedelta(days=1)
    old_id = await backend.publish("facility", request("the lift rests today", expires_at=until))
    await service.propose("one", instead_of(ledger, "the lift works", old_id))
    await service.approve("one", ADA)
    clock.advance(timedelta(days=2))
    await service.undo("one", BOB)
    assert await texts_in(backend) == []


async def test_a_process_that_slept_through_an_undo_brings_nothing_back(
    backend: Mem0Backend, ledger: Ledger, clock: StoppedClock
) -> None:
    service = service_of(backend, ledger, clock)
    old_id = await backend.publish("facility", request("the lift works"))
    await service.propose("one", instead_of(ledger, "the lift is out of order", old_id))
    decided = ledger.approvals.decide(COMPANY, "one", ApprovalState.APPROVED, ADA)
    await service.finish()
    await service.undo("one", BOB)
    version = await backend.shared_version()

    late = SharedPublication(backend, ledger.shared_log, ledger.approvals, company=COMPANY, clock=clock)
    await late.publish(decided)
    undone = present(ledger.approvals.get(COMPANY, "one"))
    await late.take_back(undone)
    assert (await texts_in(backend), await backend.shared_version()) == (["the lift works"], version)


@pytest.mark.parametrize("deed", ["approve", "undo"])
async def test_a_crash_at_any_call_publishes_once_or_takes_back_whole(
    backend: Mem0Backend, ledger: Ledger, clock: StoppedClock, deed: str
) -> None:
    healthy = service_of(backend, ledger, clock)
    point = 0
    for point in count():
        approval_id, old, new = f"{point}", f"the lift works {point}", f"the lift is out {point}"
        old_id = await backend.publish("facility", request(old))
        await healthy.propose(approval_id, instead_of(ledger, new, old_id))
        if deed == "undo":
            await healthy.approve(approval_id, ADA)
        faults = Faults(point // 2, is_after=bool(point % 2))
        try:
            await getattr(service_of(backend, ledger, clock, faults), deed)(approval_id, ADA)
        except Crash:
            pass
        else:
            break
        await healthy.finish()
        found = present(ledger.approvals.get(COMPANY, approval_id))
        assert await texts_in(backend) == [new if found.state is ApprovalState.APPROVED else old], faults.calls
        # One line for each publication, and one for each retraction, however often they were tried.
        lines = [line.memory_id for line in ledger.shared_log.history(COMPANY, found.effect or old_id)]
        assert len(lines) == (2 if found.state is ApprovalState.UNDONE else 1)
        for entry in await backend.search_shared(ALL):
            await backend.retract(entry.agent_id, entry.id)
    assert point >= 12, "there are too few calls for this to mean anything"


async def test_a_proposal_that_could_not_be_published_is_refused_before_anybody_decides(
    backend: Mem0Backend, ledger: Ledger
) -> None:
    tags = tuple(f"t{number}" for number in range(63))
    with pytest.raises(MemoryInputError, match="tags: has 65 items; the limit is 64"):
        shared_proposal(request("x", metadata=MemoryMetadata(tags=tags)), title="t", proposed_by="eve")
    memory_id = await backend.publish("facility", request("the lift works"))
    assert superseded_by_id(ledger.shared_log, COMPANY, memory_id) == Superseded(
        id=memory_id, content="the lift works", owner="facility"
    )
    await backend.retract("facility", memory_id)
    for unknown in (memory_id, "no id"):
        with pytest.raises(MemoryNotFoundError, match="is not published"):
            superseded_by_id(ledger.shared_log, COMPANY, unknown)

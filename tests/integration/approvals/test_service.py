"""Approvals from the proposal to the effect, with effects that record their calls."""

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest
from support.fault_injection import AT_CALLS, Crash, Faults
from support.ledger_records import COMPANY, StoppedClock
from support.present import present
from support.proposals import ADA, BOB, RecordingEffects, RecordingNotifier, proposal, service_of

from memcore.approvals import ApprovalEffects
from memcore.errors import (
    ApprovalClosedError,
    ApprovalLimitError,
    MemoryCapabilityError,
    MemoryConnectionError,
    MemoryInputError,
    MemoryNotFoundError,
)
from memcore.ledger.ledger import Ledger
from memcore.models.approval import Approval, ApprovalState
from memcore.models.origin import ENGINE, OPERATOR, Writer, current_writer, writing_as
from memcore.telemetry.events import Event


async def test_a_proposal_is_told_once_and_its_text_to_nobody(ledger: Ledger, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    notes, notifier = RecordingEffects(), RecordingNotifier()
    assert isinstance(notes, ApprovalEffects)
    service = service_of(ledger.approvals, notes, notice=notifier)
    first = await service.propose("one", proposal("hunter2"))
    assert await service.propose("one", proposal("another")) == first
    await service.approve("one", ADA)
    assert notifier.notifications == ["one"]
    events = [record.msg for record in caplog.records]
    assert events == [Event.APPROVAL_FILED, Event.APPROVAL_APPROVED, Event.APPROVAL_SETTLED]
    assert vars(caplog.records[0])["approval_id"] == "one"
    assert "hunter2" not in str([vars(record) for record in caplog.records])


async def test_an_approval_takes_effect_once_and_its_undo_takes_it_back(ledger: Ledger) -> None:
    notes = RecordingEffects()
    service = service_of(ledger.approvals, notes)
    await service.propose("one", proposal("text"))
    assert notes.is_published == {}
    approved = await service.approve("one", ADA)
    assert (approved.state, approved.needs, approved.effect) == (ApprovalState.APPROVED, None, "note of one")
    assert notes.is_published == {"one": "text"}
    with pytest.raises(ApprovalClosedError, match="approved by ada"):
        await service.approve("one", BOB)
    assert (await service.finish(), notes.calls) == (0, ["publish"])

    undone = await service.undo("one", BOB)
    assert (undone.state, undone.needs, undone.undone_by) == (ApprovalState.UNDONE, None, "bob")
    assert notes.is_published == {}
    with pytest.raises(ApprovalClosedError, match="undone by bob"):
        await service.undo("one", ADA)
    assert (await service.finish(), notes.calls) == (0, ["publish", "take_back"])


async def test_the_same_proposal_waits_once_and_again_after_a_decision(ledger: Ledger, clock: StoppedClock) -> None:
    service = service_of(ledger.approvals, RecordingEffects())
    first = await service.propose_once(proposal("text"))
    assert await service.propose_once(proposal("text", proposed_by="bob", figures={"agents": 2})) == first
    assert (await service.propose_once(proposal("text", risk="high"))).approval_id != first.approval_id
    both = await asyncio.gather(*(service.propose_once(proposal("at once")) for _ in range(4)))
    assert len({each.approval_id for each in both}) == 1
    await service.reject(first.approval_id, ADA)
    second = await service.propose_once(proposal("text"))
    assert (second.approval_id != first.approval_id, second.state) == (True, ApprovalState.PENDING)
    clock.advance(timedelta(days=15))
    third = await service.propose_once(proposal("text"))
    assert len({first.approval_id, second.approval_id, third.approval_id}) == 3
    odd = proposal("half \ud83d")
    with pytest.raises(MemoryInputError):
        await service.propose_once(odd)


async def test_no_more_proposals_of_an_action_wait_than_the_limit(ledger: Ledger, clock: StoppedClock) -> None:
    service = replace(service_of(ledger.approvals, RecordingEffects()), most_waiting=2)
    first, _ = [await service.propose_once(proposal(f"text {number}")) for number in range(2)]
    with pytest.raises(ApprovalLimitError, match="max_waiting: is 2, and 2 proposals") as refused:
        await service.propose_once(proposal("text 2"))
    assert (refused.value.waiting, refused.value.limit) == (2, 2)
    assert len(ledger.approvals.page(COMPANY)) == 2
    # What waits already, what another action asks for, and what memtend itself proposes is bound by it not.
    assert await service.propose_once(proposal("text 0")) == first
    await service.propose_once(proposal("text 2", action="test:other"))
    await service.propose("its own", proposal("text 3"))
    for decided in (first.approval_id, "its own"):
        with pytest.raises(ApprovalLimitError):
            await service.propose_once(proposal("text 4"))
        await service.reject(decided, ADA)
    await service.propose_once(proposal("text 4"))
    clock.advance(timedelta(days=15))
    for number in (5, 6):
        await service.propose_once(proposal(f"text {number}"))


async def test_a_rejected_and_an_expired_proposal_never_take_effect(ledger: Ledger, clock: StoppedClock) -> None:
    notes = RecordingEffects()
    service = service_of(ledger.approvals, notes)
    for approval_id in ("no", "late"):
        await service.propose(approval_id, proposal())
    assert (await service.reject("no", ADA)).state is ApprovalState.REJECTED
    clock.advance(timedelta(days=14))
    with pytest.raises(ApprovalClosedError, match="approval late is expired at"):
        await service.approve("late", ADA)
    assert (service.expire(), service.expire()) == (1, 0)
    with pytest.raises(ApprovalClosedError, match="rejected by ada"):
        await service.approve("no", BOB)
    with pytest.raises(ApprovalClosedError, match="rejected by ada"):
        await service.undo("no", BOB)
    assert (await service.finish(), notes.calls) == (0, [])


async def test_what_nothing_here_carries_out_is_not_decided(ledger: Ledger) -> None:
    service = service_of(ledger.approvals, RecordingEffects(action="other"))
    await service.propose("one", proposal())
    for say in (service.approve, service.undo):
        with pytest.raises(MemoryCapabilityError, match="carries out the action 'test:note'; known are: other"):
            await say("one", ADA)
        with pytest.raises(MemoryNotFoundError, match="none"):
            await say("none", ADA)
    found = present(ledger.approvals.get(COMPANY, "one"))
    assert found.state is ApprovalState.PENDING


async def test_an_effect_that_fails_leaves_the_decision_and_is_tried_again(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    notes = RecordingEffects(error=MemoryConnectionError("the store is away"))
    service = service_of(ledger.approvals, notes)
    for approval_id in ("one", "two"):
        await service.propose(approval_id, proposal())
        with pytest.raises(MemoryConnectionError):
            await service.approve(approval_id, ADA)
    assert await service.finish() == 0
    assert [record.msg for record in caplog.records] == [Event.APPROVAL_UNSETTLED] * 2
    with pytest.raises(MemoryConnectionError):
        await service.undo("one", BOB)
    notes.error = None
    with pytest.raises(ApprovalClosedError, match="approved by ada"):
        await service.approve("one", BOB)
    assert set(notes.is_published) == {"one"}
    assert await service.finish() == 1
    assert set(notes.is_published) == {"one", "two"}


async def test_of_two_approvers_at_the_same_moment_one_publishes_and_one_is_told(ledger: Ledger) -> None:
    notes = RecordingEffects()
    first, second = service_of(ledger.approvals, notes), service_of(ledger.approvals, notes)
    await first.propose("one", proposal())
    said = await asyncio.gather(first.approve("one", ADA), second.approve("one", BOB), return_exceptions=True)
    (refused,) = [each for each in said if isinstance(each, ApprovalClosedError)]
    (approved,) = [each for each in said if not isinstance(each, BaseException)]
    assert (refused.by, refused.at) == (approved.decided_by, approved.decided_at)
    assert set(notes.is_published) == {"one"}


async def test_an_approved_text_is_written_by_the_installation(ledger: Ledger) -> None:
    writers: list[Writer] = []

    class Watched(RecordingEffects):
        async def publish(self, approval: Approval) -> str:
            writers.append(current_writer())
            return await super().publish(approval)

    service = service_of(ledger.approvals, Watched())
    await service.propose("one", proposal())
    with writing_as(OPERATOR):
        await service.approve("one", ADA)
    assert writers == [ENGINE], "another writer's text has another id, and would count as another"


@pytest.mark.parametrize("is_after", AT_CALLS)
@pytest.mark.parametrize("who_is_next", ["the sweep", "the next word"])
@pytest.mark.parametrize("deed", ["approve", "undo"])
async def test_a_crash_at_any_call_leaves_nothing_half_done(
    ledger: Ledger, deed: str, who_is_next: str, *, is_after: bool
) -> None:
    notes = RecordingEffects()
    healthy = service_of(ledger.approvals, notes)
    point = 0
    for point in count():
        approval_id = f"{point}"
        await healthy.propose(approval_id, proposal())
        if deed == "undo":
            await healthy.approve(approval_id, ADA)
        faults = Faults(point, is_after=is_after)
        watched = faults.watched(notes, "effects")
        dying = service_of(faults.watched(ledger.approvals, "approvals"), watched)
        try:
            await getattr(dying, deed)(approval_id, ADA)
        except Crash:
            pass
        else:
            break

        is_decided = _state(ledger, approval_id) is not (
            ApprovalState.PENDING if deed == "approve" else ApprovalState.APPROVED
        )
        if who_is_next == "the sweep":
            await healthy.finish()
        elif is_decided:
            with pytest.raises(ApprovalClosedError, match="by ada"):
                await getattr(healthy, deed)(approval_id, BOB)
        else:
            await getattr(healthy, deed)(approval_id, BOB)
            is_decided = True
        assert (approval_id in notes.is_published) == (is_decided == (deed == "approve")), faults.calls
        assert ledger.approvals.unsettled(COMPANY) == ()
        found = present(ledger.approvals.get(COMPANY, approval_id))
        assert (found.effect is not None) == (is_decided or deed == "undo")
    assert point >= 5, "there are too few calls for this to mean anything"


def _state(ledger: Ledger, approval_id: str) -> ApprovalState:
    found = present(ledger.approvals.get(COMPANY, approval_id))
    return found.state

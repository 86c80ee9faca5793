"""A process that dies or sleeps at any call of a skill's publication or its undo: the next one completes it."""

from itertools import count

import pytest
from support.fault_injection import Crash, Faults
from support.ledger_records import COMPANY
from support.proposals import ADA, BOB
from support.skill_publication import SkillWorld

from memcore.models.approval import ApprovalState

#: Every call that writes must be among those at which a process died.
WRITES = {
    "publish": {"store.publish", "skills.put", "store.retract", "skills.supersede", "folders.write", "folders.remove"},
    "take_back": {"skills.retire", "store.publish", "skills.restore", "store.retract", "folders.write"},
}


@pytest.mark.parametrize("deed", ["approve", "undo"])
async def test_a_crash_at_any_call_leaves_one_skill_that_everything_agrees_about(world: SkillWorld, deed: str) -> None:
    calls = set[str]()
    for point in count():
        old, new = f"old-{point}", f"new-{point}"
        old_id = await world.approved(old)
        await world.service().propose(new, world.proposal(new, old_id))
        if deed == "undo":
            await world.service().approve(new, ADA)
        faults = Faults(point)
        try:
            await getattr(world.service(faults=faults), deed)(new, ADA)
        except Crash:
            calls.add(faults.calls[-1])
        else:
            break
        await world.service().finish()
        found = world.ledger.approvals.get(COMPANY, new)
        assert found is not None
        assert found.needs is None or found.state is ApprovalState.PENDING
        skill_id = new if found.state is ApprovalState.APPROVED else old
        assert await world.standing() == {skill_id}, faults.calls
        # One line for each publication, and one for each retraction, however often they were tried.
        lines = world.log.history(COMPANY, found.effect or old_id)
        assert [line.kind for line in lines] == ["publish", *["retract"] * (found.state is ApprovalState.UNDONE)]
        await world.service().undo(skill_id, BOB)
        assert await world.standing() == ({old} if skill_id == new else set())
        if skill_id == new:
            await world.service().undo(old, BOB)
    assert WRITES["publish" if deed == "approve" else "take_back"] <= calls


@pytest.mark.parametrize("deed", ["publish", "take_back"])
async def test_a_process_that_sleeps_at_any_call_and_wakes_after_the_other_changes_nothing(
    world: SkillWorld, deed: str
) -> None:
    point = 0
    for point in count():
        old, new = f"old-{point}", f"new-{point}"
        old_id = await world.approved(old)
        service = world.service()
        await service.propose(new, world.proposal(new, old_id))
        sleeping = world.ledger.approvals.decide(COMPANY, new, ApprovalState.APPROVED, ADA)
        if deed == "take_back":
            await service.finish()
            sleeping = world.ledger.approvals.undo(COMPANY, new, BOB)
        slept = False

        async def meanwhile(name: str = new) -> None:
            nonlocal slept
            slept = True
            await world.service().finish()
            if deed == "publish":
                await world.service().undo(name, BOB)

        faults = Faults(point, strike=meanwhile)
        await getattr(world.effect(faults=faults), deed)(sleeping)
        if not slept:
            break
        assert await world.standing() == {old}, faults.calls
        assert world.ledger.approvals.unsettled(COMPANY) == ()
        await world.service().undo(old, BOB)
        assert await world.standing() == set()
    assert point >= 10, "there are too few calls for this to mean anything"

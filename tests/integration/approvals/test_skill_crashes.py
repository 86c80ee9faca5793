"""A process that dies or sleeps at any call of a skill's publication or its undo: the next one completes it."""

import pytest
from support.fault_injection import Crash, Faults, crash_points, stall_points
from support.ledger_records import COMPANY
from support.proposals import ADA, BOB
from support.skill_publication import SkillWorld

from memcore.backends.inmemory import InMemoryBackend
from memcore.models.approval import ApprovalState

#: Every call that writes must be among those after which a process died.
WRITES = {
    "approve": {"store.publish", "skills.put", "store.retract", "skills.supersede", "folders.write", "folders.remove"},
    "undo": {"skills.retire", "store.publish", "skills.restore", "store.retract", "folders.write"},
}


async def _taken_back(world: SkillWorld, *names: str) -> None:
    """Undo skills, the newest first, until none is left."""
    for name in names:
        await world.service().undo(name, BOB)
    assert await world.standing() == set()


@pytest.mark.parametrize("deed", ["approve", "undo"])
async def test_a_crash_at_any_call_leaves_one_skill_that_everything_agrees_about(world: SkillWorld, deed: str) -> None:
    async def prepared(old: str, new: str) -> str:
        old_id = await world.approved(old)
        await world.service().propose(new, world.proposal(new, old_id))
        if deed == "undo":
            await world.service().approve(new, ADA)
        return old_id

    counted = Faults()
    await prepared("old", "new")
    await getattr(world.service(faults=counted), deed)("new", ADA)
    await _taken_back(world, *(("new", "old") if deed == "approve" else ("old",)))
    points = crash_points(counted.calls)
    assert WRITES[deed] <= {counted.calls[point - 1] for point in points}

    for point in points:
        old, new = f"old-{point}", f"new-{point}"
        old_id = await prepared(old, new)
        faults = Faults(point)
        with pytest.raises(Crash):
            await getattr(world.service(faults=faults), deed)(new, ADA)
        await world.service().finish()
        found = world.ledger.approvals.get(COMPANY, new)
        assert found is not None
        assert found.needs is None or found.state is ApprovalState.PENDING
        skill_id = new if found.state is ApprovalState.APPROVED else old
        assert await world.standing() == {skill_id}, faults.calls
        # One line for each publication, and one for each retraction, however often they were tried.
        lines = world.log.history(COMPANY, found.effect or old_id)
        assert [line.kind for line in lines] == ["publish", *["retract"] * (found.state is ApprovalState.UNDONE)]
        if skill_id == new:
            await world.service().undo(new, BOB)
            assert await world.standing() == {old}
        await _taken_back(world, old)


@pytest.mark.parametrize("deed", ["publish", "take_back"])
async def test_a_process_that_sleeps_at_any_call_and_wakes_after_the_other_changes_nothing(
    world: SkillWorld, deed: str
) -> None:
    async def carried_out(old: str, new: str, faults: Faults) -> None:
        """Have a process, with faults, carry out what is decided."""
        old_id = await world.approved(old)
        service = world.service()
        await service.propose(new, world.proposal(new, old_id))
        decided = world.ledger.approvals.decide(COMPANY, new, ApprovalState.APPROVED, ADA)
        if deed == "take_back":
            await service.finish()
            decided = world.ledger.approvals.undo(COMPANY, new, BOB)
        await getattr(world.effect(faults=faults), deed)(decided)

    counted = Faults()
    await carried_out("old", "new", counted)
    await world.service().finish()
    await _taken_back(world, *(("new", "old") if deed == "publish" else ("old",)))
    assert len(counted.calls) >= 10, "there are too few calls for this to mean anything"

    # What is read between two writes is the same on every store: one of them shows it.
    every = isinstance(world.store, InMemoryBackend)
    for point in range(len(counted.calls)) if every else stall_points(counted.calls):
        old, new = f"old-{point}", f"new-{point}"
        slept: list[str] = []

        async def meanwhile(name: str = new, slept: list[str] = slept) -> None:
            slept.append(name)
            await world.service().finish()
            if deed == "publish":
                await world.service().undo(name, BOB)

        faults = Faults(point, strike=meanwhile)
        await carried_out(old, new, faults)
        assert slept == [new]
        assert await world.standing() == {old}, faults.calls
        assert world.ledger.approvals.unsettled(COMPANY) == ()
        await _taken_back(world, old)

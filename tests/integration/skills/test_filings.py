"""One pattern through its life: proposed once, and again only where a person would want to be asked again."""

from datetime import timedelta

import pytest
from support.ledger_records import COMPANY, StoppedClock, make_fact
from support.lessons import ANSWER, lesson
from support.proposals import ADA
from support.skill_cycles import BACKGROUND, CONFIG, DISK, Fleet, accounted

from memcore.config.learning import ApprovalsConfig
from memcore.errors import MemoryConnectionError
from memcore.models.approval import Approval, ApprovalNeed, ApprovalState, Proposal
from memcore.skills.evolver import SkillEvolver
from memcore.skills.publication import superseded_skill

WINDOW = timedelta(days=CONFIG.window_days)


async def test_what_waits_is_not_proposed_again(fleet: Fleet) -> None:
    fleet.fail()
    assert (await fleet.run("first")).proposals_emitted == 1
    second = await fleet.run("second")
    assert (second.proposals_emitted, second.skipped_known) == (0, 1)
    assert len(fleet.proposed()) == 1


async def test_what_nobody_decided_on_is_proposed_again(fleet: Fleet, clock: StoppedClock) -> None:
    fleet.fail()
    await fleet.run("first")
    clock.advance(ApprovalsConfig().lasts)
    # Before the sweep has marked it and afterwards: once.
    assert (await fleet.run("second")).proposals_emitted == 1
    assert fleet.service.expire() == 1
    assert (await fleet.run("third")).skipped_known == 1
    states = [each.state for each in fleet.proposed()]
    assert states == [ApprovalState.EXPIRED, ApprovalState.PENDING]


async def test_what_a_person_rejected_is_left_alone_for_a_window(fleet: Fleet, clock: StoppedClock) -> None:
    fleet.fail()
    await fleet.run("first")
    await fleet.service.reject(fleet.proposed()[0].approval_id, ADA)
    clock.advance(WINDOW - timedelta(seconds=1))
    assert (await fleet.run("second")).proposals_emitted == 0
    assert len(fleet.proposed()) == 1
    clock.advance(timedelta(seconds=1))
    fleet.succeed(BACKGROUND, "later", task_title="Walk the dogs", task_type="walk")
    for agent in "abcd":
        fleet.execute(f"later-{agent}", agent, category="disk", text=lesson(), task_title=ANSWER["condition"])
    assert (await fleet.run("third")).proposals_emitted == 1


def approved(fleet: Fleet) -> Approval:
    """Approve the last proposal, and let its skill stand."""
    filed = fleet.proposed()[-1]
    table = fleet.ledger.approvals
    table.decide(COMPANY, filed.approval_id, ApprovalState.APPROVED, ADA)
    return filed


def executed(fleet: Fleet, filed: Approval) -> None:
    fact = make_fact(filed.proposal.content)
    fleet.ledger.shared_log.publish(COMPANY, fact)
    details = filed.proposal.details
    fleet.stand(lesson(**details["lesson"]), pattern_id=details["pattern_id"], skill_id=fact.entry.id)
    fleet.ledger.approvals.settle(COMPANY, filed.approval_id, ApprovalNeed.EFFECT, effect=fact.entry.id)


async def test_what_is_approved_and_on_its_way_is_not_proposed_again(fleet: Fleet) -> None:
    fleet.fail()
    await fleet.run("first")
    approved(fleet)
    assert (await fleet.run("second")).skipped_known == 1


async def test_what_was_approved_is_proposed_again_only_as_its_better(fleet: Fleet) -> None:
    fleet.fail()
    fleet.succeed("abcde", "well", task_type="disk", task_title=DISK)
    config = {"min_confidence_for_org_promotion": 0.5, "min_precision": 0.4}
    await fleet.run("first", **config)
    executed(fleet, approved(fleet))
    assert (await fleet.run("second", **config)).skipped_known == 1
    better = lesson(condition=f"{ANSWER['condition']} It is full.", confidence=1.0)
    fleet.fail("efghijklmnop", text=better)
    for agent in "abc":
        fleet.apply(fleet.ledger.skills.page(COMPANY)[0].skill_id, agent, "failure")
    report = await fleet.run("third", **config)
    assert (report.proposals_emitted, report.supersessions) == (1, 1)
    (old,) = fleet.ledger.skills.page(COMPANY)
    log = fleet.ledger.shared_log
    assert fleet.proposed()[-1].proposal.supersedes == (superseded_skill(log, COMPANY, old.skill_id),)


async def test_what_was_taken_back_is_left_alone_for_a_window(fleet: Fleet, clock: StoppedClock) -> None:
    fleet.fail()
    await fleet.run("first")
    filed = approved(fleet)
    executed(fleet, filed)
    fleet.ledger.approvals.undo(COMPANY, filed.approval_id, ADA)
    fleet.ledger.skills.retire(COMPANY, fleet.ledger.skills.page(COMPANY)[0].skill_id)
    assert (await fleet.run("second")).skipped_known == 1
    clock.advance(WINDOW)
    fleet.succeed(BACKGROUND, "later", task_title="Walk the dogs", task_type="walk")
    for agent in "abcd":
        fleet.execute(f"later-{agent}", agent, category="disk", text=lesson(), task_title=ANSWER["condition"])
    assert (await fleet.run("third")).proposals_emitted == 1


class Dying:
    """Files so many proposals; then the process dies, before the next one or right after it."""

    def __init__(self, fleet: Fleet, left: int, *, is_late: bool) -> None:
        self._service = fleet.service
        self._left = left
        self._is_late = is_late

    async def propose(self, approval_id: str, proposal: Proposal, /) -> Approval:
        self._left -= 1
        if self._left < 0 and not self._is_late:
            raise MemoryConnectionError("gone")
        filed = await self._service.propose(approval_id, proposal)
        if self._left < 0:
            raise MemoryConnectionError("gone")
        return filed


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("left", range(3))
async def test_a_cycle_that_dies_and_comes_again_files_nothing_twice_and_reports_all(
    fleet: Fleet, left: int, is_late: bool
) -> None:
    for number, word in enumerate(["alpha", "beta", "gamma", "delta"]):
        text = lesson(condition=f"{word} stops", action=f"do {word}s")
        # Two patterns that say the same, now the one surer and now the other.
        for name, went_well in ((word, "a"), (f"{word}-again", "ab"[:number])):
            fleet.fail("abcd", name, text=text, task_title=word)
            fleet.succeed(went_well, f"well-{name}", task_type=name)
    config = CONFIG.model_copy(
        update={"max_proposals_per_cycle": 3, "min_precision": 0.3, "min_confidence_for_org_promotion": 0.5}
    )
    dying = SkillEvolver(fleet.ledger, Dying(fleet, left, is_late=is_late), config, company=COMPANY, clock=fleet.clock)
    with pytest.raises(MemoryConnectionError):
        await dying.run(fleet.cycle())
    assert len(fleet.proposed()) == left + is_late
    again = await fleet.run(**config.model_dump())
    assert (again.proposals_emitted, accounted(again)) == (3, again.patterns_found)
    filed = fleet.proposed()
    assert len({each.proposal.details["pattern_id"] for each in filed}) == len(filed) == 3
    assert await fleet.run(**config.model_dump()) == again
    assert fleet.proposed() == filed


async def test_two_evolvers_at_once_file_one_proposal(fleet: Fleet) -> None:
    fleet.fail()
    service = fleet.service

    class Slow:
        """Another cycle files the same pattern first."""

        async def propose(self, approval_id: str, proposal: Proposal, /) -> Approval:
            await fleet.run("other")
            return await service.propose(approval_id, proposal)

    slow = SkillEvolver(fleet.ledger, Slow(), CONFIG, company=COMPANY, clock=fleet.clock)
    report = await slow.run(fleet.cycle("this"))
    assert (report.proposals_emitted, report.skipped_known) == (0, 1)
    assert [each.proposal.details["cycle_id"] for each in fleet.proposed()] == ["other"]

"""Skills in the ledger: which stand, how many may, and how often each was applied, on each database."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import pytest
from support.ledger_records import COMPANY, StoppedClock
from support.present import present
from support.proposals import ADA, proposal

from memcore.errors import ApprovalClosedError, SkillLimitError
from memcore.jobs import ApplicationOutcome, AppliedPayload
from memcore.ledger.learning.skills import MAX_PAGE, Applications, Skill, SkillState, require_skill_capacity
from memcore.ledger.ledger import Ledger
from memcore.models.approval import ApprovalNeed, ApprovalState

WRITERS = 8


def skill(skill_id: str, clock: StoppedClock, *, approval_id: str = "one") -> Skill:
    return Skill(
        skill_id=skill_id,
        approval_id=approval_id,
        pattern_id="pattern",
        state=SkillState.ACTIVE,
        confidence=0.75,
        text='{"naïve": "日本"}',
        published_at=clock(),
        changed_at=clock(),
    )


def kept(ledger: Ledger, clock: StoppedClock, *skill_ids: str) -> None:
    for skill_id in skill_ids:
        assert ledger.skills.put(COMPANY, skill(skill_id, clock))


def seen(ledger: Ledger, skill_id: str) -> tuple[SkillState, str | None]:
    found = present(ledger.skills.get(COMPANY, skill_id))
    return found.state, found.superseded_by


def applied(number: int, clock: StoppedClock, outcome: ApplicationOutcome = "success") -> AppliedPayload:
    return AppliedPayload(
        company=COMPANY,
        agent_id="ada",
        application_id=f"{number}",
        skill_id="found as",
        outcome=outcome,
        applied_at=clock.now,
    )


def together(work: Callable[[int], object]) -> list[object]:
    """Let as many threads begin at the same moment, and return what each said."""
    start = threading.Barrier(WRITERS)

    def begin(number: int) -> object:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(begin, range(WRITERS)))


def test_a_skill_is_kept_once_and_as_it_was(ledger: Ledger, clock: StoppedClock) -> None:
    first = skill("a", clock)
    assert ledger.skills.put(COMPANY, first)
    clock.advance(timedelta(days=1))
    assert not ledger.skills.put(COMPANY, skill("a", clock, approval_id="two"))
    assert ledger.skills.get(COMPANY, "a") == first
    assert ledger.skills.get(COMPANY, "none") is None
    assert ledger.skills.get("other", "a") is None


def test_a_skill_is_superseded_by_one_that_stands_and_restored_by_that_one_alone(
    ledger: Ledger, clock: StoppedClock
) -> None:
    kept(ledger, clock, "old", "new", "third")
    clock.advance(timedelta(days=1))
    assert not ledger.skills.supersede(COMPANY, "old", by="nobody")
    assert not ledger.skills.supersede(COMPANY, "nobody", by="new")
    assert ledger.skills.supersede(COMPANY, "old", by="new")
    found = present(ledger.skills.get(COMPANY, "old"))
    assert (found.state, found.superseded_by, found.changed_at) == (SkillState.SUPERSEDED, "new", clock.now)
    assert not ledger.skills.supersede(COMPANY, "old", by="third"), "who was first stays"
    assert not ledger.skills.restore(COMPANY, "old", by="third")
    assert ledger.skills.restore(COMPANY, "old", by="new")
    assert not ledger.skills.restore(COMPANY, "old", by="new")
    assert seen(ledger, "old") == (SkillState.ACTIVE, None)


def test_a_retired_skill_supersedes_nothing_and_never_comes_back(ledger: Ledger, clock: StoppedClock) -> None:
    kept(ledger, clock, "old", "new", "newest")
    assert ledger.skills.supersede(COMPANY, "new", by="newest")
    # Superseded itself, it stood when it took the old one's place.
    assert ledger.skills.supersede(COMPANY, "old", by="new")
    assert ledger.skills.retire(COMPANY, "new")
    assert not ledger.skills.retire(COMPANY, "new")
    assert not ledger.skills.restore(COMPANY, "new", by="newest")
    assert not ledger.skills.put(COMPANY, skill("new", clock))
    assert seen(ledger, "new") == (SkillState.RETIRED, "newest")
    assert ledger.skills.restore(COMPANY, "old", by="new")
    assert not ledger.skills.supersede(COMPANY, "old", by="new")
    assert not ledger.skills.retire(COMPANY, "none")


def test_skills_are_paged_newest_first_and_counted_by_state(ledger: Ledger, clock: StoppedClock) -> None:
    names = [f"s{number:03}" for number in range(MAX_PAGE + 2)]
    for number, name in enumerate(names):
        kept(ledger, clock, name)
        clock.advance(timedelta(seconds=number % 2))  # pairs of the same moment
    ledger.skills.retire(COMPANY, names[5])
    assert len(ledger.skills.page(COMPANY, limit=9_999)) == MAX_PAGE
    streamed = [each.skill_id for each in ledger.skills.stream(COMPANY)]
    assert streamed == sorted((name for name in names if name != names[5]), reverse=True)
    assert [each.skill_id for each in ledger.skills.page(COMPANY, state=SkillState.RETIRED)] == [names[5]]
    assert (ledger.skills.count(COMPANY), ledger.skills.count("other")) == (len(names) - 1, 0)


def test_many_at_once_that_supersede_one_skill_are_one(ledger: Ledger, clock: StoppedClock) -> None:
    kept(ledger, clock, "old", *(f"{number}" for number in range(WRITERS)))
    assert together(lambda number: ledger.skills.supersede(COMPANY, "old", by=f"{number}")).count(True) == 1


def test_of_a_retirement_and_a_supersession_at_once_the_rows_agree(ledger: Ledger, clock: StoppedClock) -> None:
    for turn in range(10):
        old, new = f"old-{turn}", f"new-{turn}"
        kept(ledger, clock, old, new)

        def act(number: int, old: str = old, new: str = new) -> None:
            if number % 2:
                ledger.skills.supersede(COMPANY, old, by=new)
            else:
                ledger.skills.retire(COMPANY, new)
                ledger.skills.restore(COMPANY, old, by=new)

        together(act)
        # Whoever took it back also gave back what it had taken the place of.
        assert seen(ledger, old) == (SkillState.ACTIVE, None)


@pytest.mark.parametrize("limit", [3, WRITERS])
def test_of_many_approvals_at_one_moment_no_more_are_let_in_than_may_stand(
    ledger: Ledger, clock: StoppedClock, limit: int
) -> None:
    kept(ledger, clock, "stands", "replaced")
    capacity = partial(require_skill_capacity, limit=limit, action="test:note", frees=["replaced"])
    for number in range(WRITERS):
        ledger.approvals.file(COMPANY, f"{number}", proposal(), lasts=timedelta(days=1))

    def decide(number: int) -> object:
        try:
            return ledger.approvals.decide(COMPANY, f"{number}", ApprovalState.APPROVED, ADA, capacity=capacity).state
        except SkillLimitError as refused:
            return refused.published, refused.limit

    said = together(decide)
    assert said.count(ApprovalState.APPROVED) == limit - 1
    assert said.count((limit, limit)) == WRITERS - limit + 1
    assert len(ledger.approvals.page(COMPANY, state=ApprovalState.PENDING)) == WRITERS - limit + 1
    # Once its row is there an approval counts as a skill, and not twice.
    first = ledger.approvals.page(COMPANY, state=ApprovalState.APPROVED)[0].approval_id
    ledger.skills.put(COMPANY, skill("first", clock, approval_id=first))
    ledger.skills.retire(COMPANY, "stands")
    waiting = ledger.approvals.page(COMPANY, state=ApprovalState.PENDING)
    assert ledger.approvals.decide(COMPANY, waiting[0].approval_id, ApprovalState.APPROVED, ADA, capacity=capacity)
    ledger.approvals.settle(COMPANY, first, ApprovalNeed.EFFECT, effect="first")
    with pytest.raises(ApprovalClosedError):
        ledger.approvals.decide(COMPANY, first, ApprovalState.APPROVED, ADA, capacity=capacity)


def test_an_application_counts_once_however_many_bring_it_at_once(ledger: Ledger, clock: StoppedClock) -> None:
    def bring(writer: int) -> int:
        # Each brings all of them, in an order of its own: of thirty two thirds went well.
        numbers = [(number + writer * 7) % 30 for number in range(30)]
        return sum(
            ledger.skills.apply(applied(each, clock, "success" if each % 3 else "failure"), skill_id=f"{each % 2}")
            for each in numbers
        )

    news = together(bring)
    assert sum(each for each in news if isinstance(each, int)) == 30
    assert ledger.skills.applications(COMPANY, ["0", "1", "none"]) == {
        each: Applications(applications=15, successes=10, last_applied_at=clock.now) for each in ("0", "1")
    }
    assert ledger.skills.applications("other", ["0"]) == {}


def test_single_applications_go_and_stay_counted(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.skills.apply(applied(1, clock), skill_id="a")
    clock.advance(timedelta(days=91))
    ledger.skills.apply(applied(2, clock, "failure"), skill_id="a")
    assert ledger.skills.expire_applications(COMPANY, before=clock.now - timedelta(days=90)) == 1
    assert ledger.skills.expire_applications("other", before=clock.now + timedelta(days=1)) == 0
    assert not ledger.skills.apply(applied(2, clock), skill_id="a")
    assert ledger.skills.applications(COMPANY, ["a"])["a"] == Applications(
        applications=2, successes=1, last_applied_at=clock.now
    )


def test_more_skills_than_one_query_carries_are_found(ledger: Ledger, clock: StoppedClock) -> None:
    names = [f"s{number:04}" for number in range(1_100)]
    ledger.skills.apply(applied(1, clock), skill_id=names[-1])
    assert set(ledger.skills.applications(COMPANY, names)) == {names[-1]}

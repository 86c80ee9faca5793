"""Approvals in the ledger: filed once, decided once, whoever comes at the same moment."""

import threading
from collections.abc import Sequence
from datetime import timedelta

import pytest
from support.ledger_records import COMPANY, StoppedClock
from support.proposals import ADA, BOB, proposal

from memcore.errors import ApprovalClosedError, MemoryInputError, MemoryNotFoundError
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.approvals import MAX_BODY_BYTES, Verdict
from memcore.models.approval import Approval, ApprovalNeed, ApprovalRisk, ApprovalState, Decision, Proposal, Superseded

APPROVED: Verdict = ApprovalState.APPROVED
REJECTED: Verdict = ApprovalState.REJECTED
EFFECT, TAKING_BACK = ApprovalNeed.EFFECT, ApprovalNeed.TAKING_BACK
LASTS = timedelta(days=14)
APPROVERS = 8


def file(ledger: Ledger, approval_id: str, content: str = "text") -> Approval:
    assert ledger.approvals.file(COMPANY, approval_id, proposal(content), lasts=LASTS)
    return found(ledger, approval_id)


def found(ledger: Ledger, approval_id: str) -> Approval:
    approval = ledger.approvals.get(COMPANY, approval_id)
    assert approval is not None
    return approval


def test_a_proposal_is_kept_whole_and_filed_once(ledger: Ledger, clock: StoppedClock) -> None:
    whole = proposal(
        "naïve café, 日本\x00\nline two",
        risk=ApprovalRisk.HIGH,
        supersedes=(Superseded(id="old", content="before\x00", owner="ada"), Superseded(id="older", content="x")),
        figures={"agents": 4, "precision": 0.925, "window": "March"},
        details={"tags": ["a", {"b": None}]},
    )
    assert ledger.approvals.file(COMPANY, "one", whole, lasts=LASTS)
    first = found(ledger, "one")
    assert first == Approval(
        approval_id="one",
        proposal=whole,
        state=ApprovalState.PENDING,
        needs=ApprovalNeed.WORD,
        created_at=clock(),
        expires_at=clock() + LASTS,
    )
    clock.advance(LASTS)
    assert not ledger.approvals.file(COMPANY, "one", proposal("another"), lasts=LASTS)
    assert found(ledger, "one") == first
    assert ledger.approvals.get("globex", "one") is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (proposal("x" * MAX_BODY_BYTES), "proposal: has"),
        (proposal(details={"a": object()}), "details: must be made of JSON values alone"),
        (proposal(details={"a": float("nan")}), "details: must be made of JSON values alone"),
    ],
)
def test_what_cannot_be_kept_whole_is_refused(ledger: Ledger, given: Proposal, said: str) -> None:
    with pytest.raises(MemoryInputError, match=said):
        ledger.approvals.file(COMPANY, "one", given, lasts=LASTS)
    assert ledger.approvals.count(COMPANY) == 0


def test_pages_are_newest_first_and_can_be_of_one_state(ledger: Ledger, clock: StoppedClock) -> None:
    for number in range(7):
        file(ledger, f"n{number}")
        clock.advance(timedelta(seconds=number % 2))
    ledger.approvals.decide(COMPANY, "n3", REJECTED, ADA)
    walked: list[str] = []
    last: Approval | None = None
    while page := ledger.approvals.page(COMPANY, before=last, limit=2):
        walked += [each.approval_id for each in page]
        last = page[-1]
    assert walked == ["n6", "n5", "n4", "n3", "n2", "n1", "n0"]
    assert [each.approval_id for each in ledger.approvals.page(COMPANY, state=REJECTED)] == ["n3"]
    assert ledger.approvals.count(COMPANY) == 7
    assert ledger.approvals.page("globex") == ()


@pytest.mark.parametrize(("verdict", "needs"), [(APPROVED, EFFECT), (REJECTED, None)])
def test_a_word_is_final_and_the_next_one_hears_who_gave_it_and_when(
    ledger: Ledger, clock: StoppedClock, verdict: Verdict, needs: ApprovalNeed | None
) -> None:
    file(ledger, "one")
    first_at = clock.advance(timedelta(hours=1))
    decided = ledger.approvals.decide(COMPANY, "one", verdict, ADA)
    assert (decided.state, decided.needs) == (verdict, needs)
    assert (decided.decided_by, decided.decided_at, decided.reason) == ("ada", first_at, "it is true")
    clock.advance(timedelta(hours=1))
    for again in (APPROVED, REJECTED):
        with pytest.raises(
            ApprovalClosedError, match=rf"approval one is {verdict} by ada at 2026-03-01 13:00:00"
        ) as no:
            ledger.approvals.decide(COMPANY, "one", again, BOB)
        assert (no.value.state, no.value.by, no.value.at) == (verdict, "ada", first_at)
    assert found(ledger, "one") == decided
    for company, approval_id in ((COMPANY, "none"), ("globex", "one")):
        with pytest.raises(MemoryNotFoundError, match=approval_id):
            ledger.approvals.decide(company, approval_id, APPROVED, ADA)


def race(
    ledger: Ledger, approval_id: str, verdicts: Sequence[Verdict]
) -> tuple[list[Approval], list[ApprovalClosedError]]:
    """Return who won and who lost when many say their word at the same moment."""
    won: list[Approval] = []
    lost: list[ApprovalClosedError] = []
    start = threading.Barrier(APPROVERS)

    def say(who: int) -> None:
        word, verdict = Decision(by=f"p{who}"), verdicts[who % len(verdicts)]
        start.wait()
        try:
            won.append(ledger.approvals.decide(COMPANY, approval_id, verdict, word))
        except ApprovalClosedError as refused:
            lost.append(refused)

    threads = [threading.Thread(target=say, args=(who,)) for who in range(APPROVERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won, lost


@pytest.mark.parametrize("verdicts", [(APPROVED,), (APPROVED, REJECTED)])
def test_of_many_words_at_the_same_moment_one_counts(ledger: Ledger, verdicts: tuple[Verdict, ...]) -> None:
    for number in range(5):
        file(ledger, f"n{number}")
        (winner,), lost = race(ledger, f"n{number}", verdicts)
        assert len(lost) == APPROVERS - 1
        heard = {(refused.state, refused.by, refused.at) for refused in lost}
        assert heard == {(winner.state, winner.decided_by, winner.decided_at)}
        assert found(ledger, f"n{number}") == winner


def test_what_has_expired_cannot_be_approved_and_the_sweep_says_so(ledger: Ledger, clock: StoppedClock) -> None:
    for approval_id in ("one", "two", "said"):
        file(ledger, approval_id)
    ledger.approvals.decide(COMPANY, "said", APPROVED, ADA)
    clock.advance(LASTS - timedelta(microseconds=1))
    assert ledger.approvals.expire(COMPANY) == 0
    ledger.approvals.decide(COMPANY, "one", APPROVED, ADA)
    over = clock.advance(timedelta(microseconds=1))
    for _ in range(2):
        for verdict in (APPROVED, REJECTED):
            with pytest.raises(ApprovalClosedError, match="approval two is expired at") as no:
                ledger.approvals.decide(COMPANY, "two", verdict, ADA)
            assert (no.value.by, no.value.at) == (None, over)
        ledger.approvals.expire(COMPANY)
    assert ledger.approvals.expire("globex") == ledger.approvals.expire(COMPANY) == 0
    states = {each.approval_id: (each.state, each.needs) for each in ledger.approvals.page(COMPANY)}
    assert states == {"one": (APPROVED, EFFECT), "said": (APPROVED, EFFECT), "two": (ApprovalState.EXPIRED, None)}


def test_what_is_owed_is_found_until_it_is_settled(ledger: Ledger, clock: StoppedClock) -> None:
    def owed() -> list[tuple[str, ApprovalNeed | None]]:
        return [(each.approval_id, each.needs) for each in ledger.approvals.unsettled(COMPANY)]

    for approval_id in ("b", "a", "c"):
        file(ledger, approval_id)
        clock.advance(timedelta(seconds=1))
    for approval_id in ("b", "a"):
        ledger.approvals.decide(COMPANY, approval_id, APPROVED, ADA)
        clock.advance(timedelta(seconds=1))
    assert owed() == [("b", EFFECT), ("a", EFFECT)]
    assert ledger.approvals.unsettled("globex") == ()
    assert not ledger.approvals.settle(COMPANY, "b", TAKING_BACK)
    assert ledger.approvals.settle(COMPANY, "b", EFFECT, effect="fact")
    assert not ledger.approvals.settle(COMPANY, "b", EFFECT, effect="another")
    assert (found(ledger, "b").effect, owed()) == ("fact", [("a", EFFECT)])

    undone = ledger.approvals.undo(COMPANY, "b", BOB)
    assert (undone.state, undone.undone_by, undone.undo_reason) == (ApprovalState.UNDONE, "bob", None)
    assert (undone.decided_by, undone.effect) == ("ada", "fact")
    assert owed() == [("b", TAKING_BACK), ("a", EFFECT)]
    assert ledger.approvals.settle(COMPANY, "b", TAKING_BACK)
    assert (found(ledger, "b").effect, owed()) == ("fact", [("a", EFFECT)])


def test_only_what_is_approved_and_carried_out_is_undone_and_once(ledger: Ledger, clock: StoppedClock) -> None:
    file(ledger, "one")

    def refusal() -> str:
        with pytest.raises(ApprovalClosedError) as no:
            ledger.approvals.undo(COMPANY, "one", BOB)
        return str(no.value)

    assert refusal() == "approval one is pending"
    ledger.approvals.decide(COMPANY, "one", APPROVED, ADA)
    assert refusal() == "approval one is approved by ada at 2026-03-01 12:00:00 UTC"
    ledger.approvals.settle(COMPANY, "one", EFFECT, effect="fact")
    clock.advance(timedelta(days=400))
    assert ledger.approvals.undo(COMPANY, "one", BOB).undone_at == clock()
    assert refusal() == "approval one is undone by bob at 2027-04-05 12:00:00 UTC"
    with pytest.raises(ApprovalClosedError, match="undone by bob"):
        ledger.approvals.decide(COMPANY, "one", APPROVED, ADA)
    with pytest.raises(MemoryNotFoundError):
        ledger.approvals.undo("globex", "one", BOB)

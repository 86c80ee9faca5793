from support.proposals import proposal

from memcore.approvals import diff_of, visible
from memcore.clock import utc_now
from memcore.models.approval import Approval, ApprovalNeed, ApprovalState, Superseded


def approval(content: str, *superseded: str) -> Approval:
    old = tuple(Superseded(id=f"old-{number}", content=text) for number, text in enumerate(superseded))
    now = utc_now()
    return Approval(
        approval_id="one",
        proposal=proposal(content, supersedes=old),
        state=ApprovalState.PENDING,
        needs=ApprovalNeed.WORD,
        created_at=now,
        expires_at=now,
    )


def test_a_text_that_is_new_stands_there_whole() -> None:
    assert diff_of(approval("One. Two!\nThree")) == (
        "--- nothing", "+++ proposed", "@@ -0,0 +1,3 @@", "+One.", "+Two!", "+Three",
    )  # fmt: skip


def test_a_step_of_a_list_stays_with_its_number() -> None:
    assert diff_of(approval("9. Look. Wait 5. Go\n10. Call"))[3:] == ("+9. Look.", "+Wait 5.", "+Go", "+10. Call")


def test_each_text_that_is_superseded_stands_against_the_new_one_sentence_by_sentence() -> None:
    lines = diff_of(
        approval("Pages at 500. Call Ann. Since March.", "Pages at 100. Call Ann. Since March.", "Call Ann.")
    )
    assert lines == (
        "--- old-0", "+++ proposed", "@@ -1,3 +1,3 @@", "-Pages at 100.", "+Pages at 500.", " Call Ann.",
        " Since March.",
        "--- old-1", "+++ proposed", "@@ -1 +1,3 @@", "+Pages at 500.", " Call Ann.", "+Since March.",
    )  # fmt: skip


def test_nothing_is_left_out_however_long_the_texts_are() -> None:
    old = [f"Sentence {number}." for number in range(200)]
    new = [*old[:100], "A needle.", *old[100:]]
    lines = diff_of(approval(" ".join(new), " ".join(old)))
    assert [line[1:] for line in lines[3:]] == new
    assert [line for line in lines[3:] if line[0] != " "] == ["+A needle."]


def test_nothing_acts_on_a_terminal_and_nothing_is_hidden() -> None:
    shown = "\n".join(diff_of(approval("safe \x1b[2K\x1b[1A\r evil \u202egnp.exe\u200b", "\x07bell")))
    assert "safe \\x1b[2K\\x1b[1A\\r evil \\u202egnp.exe\\u200b" in shown
    assert "\\x07bell" in shown
    assert visible("naïve 日本 😀\tx\n") == "naïve 日本 😀\tx\n"

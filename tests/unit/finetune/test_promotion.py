"""The promotion gate: what promotes, what is undecided, and which of two kinds is handed over."""

import pytest
from support.finetune_fixture import part, report

from memcore.finetune.evaluate import ENOUGH_ASKED, EvalReport, Part
from memcore.finetune.promotion import better, promotion_verdict
from memcore.ledger.collections import Verdict

MANY = ENOUGH_ASKED
FEW = ENOUGH_ASKED - 1


def judged(asked: Part | None, templates: Part | None = None) -> tuple[Verdict, str]:
    return promotion_verdict(report().model_copy(update={"asked": asked, "templates": templates}))


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        (part(0.041, 0.001), Verdict.PROMOTED),
        (part(0.041, 0.0), Verdict.UNDECIDED),
        (part(0.041, -0.01), Verdict.UNDECIDED),
        (part(0.0, -0.02), Verdict.REJECTED),
        (part(-0.01, -0.02), Verdict.REJECTED),
        (part(0.041, 0.03, questions=FEW), Verdict.UNDECIDED),
        (None, Verdict.UNDECIDED),
    ],
)
def test_the_lower_end_of_the_lead_on_enough_questions_decides(asked: Part | None, verdict: Verdict) -> None:
    assert judged(asked)[0] is verdict


def test_templates_promote_nothing_and_are_shown_apart_with_their_interval() -> None:
    verdict, reason = judged(part(0.0, -0.02), part(0.041, 0.03, questions=900))
    assert verdict is Verdict.REJECTED
    assert reason == (
        "it does not lead its base on 50 questions that were asked: fused with words +0.000 [-0.020, +0.100] NDCG@10, "
        "by meaning +0.050 [+0.020, +0.100]; on 900 of templates +0.041 [+0.030, +0.100]"
    )
    verdict, reason = judged(None, part(0.041, 0.03, questions=900))
    assert (verdict, reason.split(";")[0]) == (
        Verdict.UNDECIDED, "0 questions that were asked are too few, it takes 50",
    )  # fmt: skip


def test_templates_alone_reject_what_falls_behind() -> None:
    assert judged(part(0.05, 0.01, questions=FEW), part(-0.001, -0.03))[0] is Verdict.REJECTED


def test_a_report_of_an_older_release_is_read_and_never_promotes() -> None:
    old = report().model_dump(mode="json", exclude={"asked", "templates", "sizes"})
    assert promotion_verdict(EvalReport.model_validate(old))[0] is Verdict.UNDECIDED


def found(asked: Part, fused: float = 0.7) -> EvalReport:
    return report().model_copy(update={"asked": asked, "fused_ndcg_at_10": fused})


def test_the_better_verdict_is_handed_over_then_the_better_search_then_the_quicker_kind() -> None:
    promoted, undecided = part(0.02, 0.01, fused=0.5), part(0.05, -0.01, fused=0.9)
    assert better({"static": found(promoted), "transformer": found(undecided)}) == "static"
    assert better({"static": found(undecided), "transformer": found(promoted)}) == "transformer"
    assert better({"static": found(promoted), "transformer": found(part(0.02, 0.01, fused=0.6))}) == "transformer"
    assert better({"static": found(promoted), "transformer": found(promoted)}) == "static"
    few = part(0.02, 0.01, questions=FEW)
    assert better({"static": found(few, 0.6), "transformer": found(few, 0.61)}) == "transformer"

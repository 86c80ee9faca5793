"""The promotion gate: the verdict on a checkpoint, and which of a run's checkpoints is handed over."""

from collections.abc import Mapping

from memcore.finetune.evaluate import ENOUGH_ASKED, EvalReport, Improvement, Part
from memcore.ledger.collections import Verdict
from memcore.models.finetune import Kind


def promotion_verdict(report: EvalReport, *, base: str = "its base") -> tuple[Verdict, str]:
    """Return the gate's verdict and its reason, in one sentence.

    What counts is the lead of the fused search, which agents use, on questions that somebody asked. Questions of
    templates can reject a checkpoint, and never promote one: they repeat a passage's words, which people seldom do.
    """
    asked, templates = report.asked, report.templates
    if asked is not None and asked.questions >= ENOUGH_ASKED:
        verdict = _verdict(asked.fused_lead)
        beside = "" if templates is None else f"; on {templates.questions} of templates {_shown(templates.fused_lead)}"
        return (
            verdict,
            f"{_ENDS[verdict].format(base)} on {asked.questions} questions that were asked: {_lead(asked)}{beside}",
        )
    few = f"{0 if asked is None else asked.questions} questions that were asked are too few, it takes {ENOUGH_ASKED}"
    if templates is None:
        return Verdict.UNDECIDED, few
    of_templates = f"on {templates.questions} of templates: {_lead(templates)}"
    if templates.fused_lead.mean <= 0.0:
        return Verdict.REJECTED, f"{_ENDS[Verdict.REJECTED].format(base)} {of_templates}; {few}"
    return Verdict.UNDECIDED, f"{few}; {of_templates}"


#: How a reason begins.
_ENDS = {
    Verdict.PROMOTED: "it leads {}",
    Verdict.UNDECIDED: "its lead is not told from chance",
    Verdict.REJECTED: "it does not lead {}",
}


def _verdict(lead: Improvement) -> Verdict:
    if lead.low > 0.0:
        return Verdict.PROMOTED
    return Verdict.UNDECIDED if lead.mean > 0.0 else Verdict.REJECTED


def _lead(part: Part) -> str:
    return f"fused with words {_shown(part.fused_lead)} NDCG@10, by meaning {_shown(part.dense_lead)}"


def _shown(lead: Improvement) -> str:
    return f"{lead.mean:+.3f} [{lead.low:+.3f}, {lead.high:+.3f}]"


_ORDER = (Verdict.REJECTED, Verdict.UNDECIDED, Verdict.PROMOTED)


def better(reports: Mapping[Kind, EvalReport]) -> Kind:
    """Return the kind that is handed over: the better verdict, then the better fused search; of equals the first."""
    return max(reports, key=lambda kind: (_ORDER.index(promotion_verdict(reports[kind])[0]), _quality(reports[kind])))


def _quality(report: EvalReport) -> float:
    asked = report.asked
    return asked.fused_ndcg_at_10 if asked is not None and asked.questions >= ENOUGH_ASKED else report.fused_ndcg_at_10

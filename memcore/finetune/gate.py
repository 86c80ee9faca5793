"""The promotion gate: a checkpoint is worth its place when it finds better by meaning, and no worse beside words."""

from memcore.finetune.evaluate import EvalReport
from memcore.ledger.checkpoint import Verdict

#: Least lead over the base, in NDCG@10 by meaning alone.
MIN_LEAD = 0.01


def judged(report: EvalReport) -> tuple[Verdict, str]:
    """Return the gate's word and its reason, in one sentence."""
    dense, fused = report.dense_lead.mean, report.fused_lead.mean
    by_meaning = f"by meaning it leads its base by {dense:+.4f} NDCG@10"
    if dense < MIN_LEAD:
        return Verdict.REJECTED, f"{by_meaning}, and it takes {MIN_LEAD:+.2f}"
    if fused < 0.0:
        return Verdict.REJECTED, f"{by_meaning}, but fused with words by {fused:+.4f}"
    return Verdict.PROMOTED, f"{by_meaning}, and fused with words by {fused:+.4f}"

"""What the demo of fine-tuning prints: the figures beside each other, and whether a lead is told from chance."""

import os
import platform
from collections.abc import Mapping

from examples.demo.finetuning.judging import Figures
from examples.demo.finetuning.traffic import Traffic
from memcore.finetune.evaluate import Improvement, compare, ndcg_of
from ops.cli.console import say, show_rows

_COLUMNS = ("what serves", "meaning NDCG@10", "meaning recall@10", "fused NDCG@10", "fused recall@10")


def show_figures(rows: Mapping[str, Figures]) -> None:
    """Print the means of each measurement, a row each."""
    show_rows(
        (
            dict(zip(_COLUMNS, (name, *(f"{mean:.3f}" for mean in figures.means())), strict=True))
            for name, figures in rows.items()
        ),
        columns=_COLUMNS,
        as_json=False,
    )


def show_improvements(after: Figures, before: Figures) -> None:
    """Print how far the new figures are ahead, with intervals, and say so plainly where they are not."""
    _show_improvement("by meaning alone", compare(ndcg_of(after.dense), ndcg_of(before.dense), seed=0))
    _show_improvement("fused with words", compare(ndcg_of(after.fused), ndcg_of(before.fused), seed=0))


def show_traffic(seen: Traffic, during: str) -> None:
    """Print what happened meanwhile to those who searched and stored."""
    say(
        f"during the {during}: {seen.reads} searches, {seen.failed_reads} failed; "
        f"{len(seen.writes)} memories stored, {seen.failed_writes} failed, "
        + ("nobody could look whether any is lost" if seen.lost is None else f"{seen.lost} lost")
    )


def show_end(seconds: float, peak_bytes: int) -> None:
    """Print how long all took, and on what."""
    load = os.getloadavg()[0]
    say(f"\npeak resident memory of the whole stack: {peak_bytes / 2**20:.0f} MiB (shared pages count once)")
    say(
        f"the demo took {seconds / 60:.1f} minutes: Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, load {load:.1f} at the end"
    )


def _show_improvement(how: str, improvement: Improvement) -> None:
    word = (
        "it gained"
        if improvement.low > 0.0
        else "it lost"
        if improvement.high < 0.0
        else "it did not gain: not told from chance"
    )
    say(
        f"{how}: {improvement.mean:+.3f} NDCG@10, "
        f"95 % interval {improvement.low:+.3f} to {improvement.high:+.3f}: {word}"
    )

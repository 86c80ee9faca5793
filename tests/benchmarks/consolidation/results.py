"""The tables of the bench and its targets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from benchmarks.consolidation.contexts import Scores
from benchmarks.consolidation.ways import Variant
from benchmarks.figure import Target
from rich.table import Table

from memcore.evaluation.asking import compare
from memcore.finetune.evaluate import Improvement

#: Share of the unshrunk figure that the default must keep at half the tokens.
_LEAST_KEPT = 0.9

#: Share of the tokens that is left, in how many memories; key terms found in the contexts, as a share of the unshrunk
#: figure, and the difference to it; the figure from the evidence's own memories; the answers' terms; memories shown,
#: and their tokens; milliseconds of runs for each memory that was there.
_COLUMNS = ("", "left", "in", "key terms", "share", "95 % of the difference", "own", "answers", "shown", "tokens", "ms")

#: The table that shows the ways that were told no share.
_WITH_THE_REST = 0.5


@dataclass(slots=True, kw_only=True)
class Result:
    """How one way did, over all conversations."""

    scores: Scores
    tokens: int = 0
    memories: int = 0
    seconds: float = 0.0

    @property
    def figure(self) -> float:
        return float(np.mean(self.scores.keys))


def table(share: float, ways: Sequence[Variant], unshrunk: Result, results: Mapping[str, Result]) -> Table:
    """Return the rows of the ways that were to leave a share; what leaves what it does stands with the half."""
    rows = Table(*_COLUMNS, title=f"shrunk to {share:.0%}", box=None)
    before = unshrunk.memories
    rows.add_row(*_row("unshrunk", unshrunk, unshrunk, before))
    for way in ways:
        if way.share == share or (way.share is None and share == _WITH_THE_REST):
            rows.add_row(*_row(way.name, results[way.key], unshrunk, before))
    return rows


def _row(name: str, result: Result, unshrunk: Result, before: int) -> list[str]:
    apart = compare(result.scores.keys, unshrunk.scores.keys)
    return [
        name,
        f"{result.tokens / unshrunk.tokens:.3f}",
        f"{result.memories:,}",
        f"{result.figure:.4f}",
        f"{result.figure / unshrunk.figure:.1%}",
        "" if result is unshrunk else f"{apart.low:+.4f} to {apart.high:+.4f}",
        f"{np.mean(result.scores.own):.4f}",
        f"{np.mean(result.scores.answers):.4f}",
        f"{np.mean(result.scores.memories):.1f}",
        f"{np.mean(result.scores.tokens):,.0f}",
        f"{1e3 * result.seconds / before:.2f}" if result.seconds else "",
    ]


def halves(sizes: Mapping[str, int], unshrunk: Result, results: Mapping[str, Result]) -> Table:
    """Return the default's figures on the conversations that it was tuned on, those of odd numbers, and on the others.

    Args:
        sizes: questions of each conversation, by its name.
        unshrunk: what they are a share of.
        results: by the ways' keys.
    """
    is_odd = [int(name.rpartition("_")[2]) % 2 == 1 for name, size in sizes.items() for _ in range(size)]
    rows = Table("", "tuned on (1, 3, 5, 7)", "not looked at (2, 4, 6)", title="tuned too far?", box=None)
    for key in ("condense-50", "condense-25"):
        shares = []
        for wanted in (True, False):
            chosen = np.equal(is_odd, wanted)
            left, whole = (np.asarray(each.scores.keys)[chosen].sum() for each in (results[key], unshrunk))
            shares.append(f"{left / whole:.1%}" if whole else "")
        rows.add_row(key, *shares)
    return rows


def targets(unshrunk: Result, results: Mapping[str, Result]) -> list[Target]:
    """Return what the default must reach at half the tokens."""
    ours = results["condense-50"]
    ahead = {key: compare(ours.scores.keys, results[key].scores.keys) for key in ("oldest-50", "simple-50")}
    return [
        Target(
            name="tokens kept of those that were there, at most",
            values=[ours.tokens / unshrunk.tokens],
            wanted=0.5,
            at_most=True,
        ),
        Target(
            name="condense at 50 %, of the unshrunk figure", values=[ours.figure / unshrunk.figure], wanted=_LEAST_KEPT
        ),
        *(
            Target(
                name=f"condense minus {name} at 50 %, lower bound of {_span(ahead[key])}",
                values=[ahead[key].low],
                wanted=0.0,
            )
            for key, name in (("oldest-50", "oldest removed first"), ("simple-50", "concatenation"))
        ),
    ]


def _span(found: Improvement) -> str:
    return f"{found.mean:+.4f} ({found.low:+.4f} to {found.high:+.4f})"

"""The page of an evaluation: one HTML file without scripts, which loads nothing and can be sent to others."""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memcore.clock import utc_now
from memcore.config.settings import write_private
from memcore.errors import MemoryInputError
from memcore.evaluation.asking import HEADLINES, MEASURES, SHOWN, SHOWN_CHARS, Judged, Measured
from memcore.evaluation.dataset import Dataset
from memcore.evaluation.results import AfterDays, Asked, PolicyResult, done_in_words, later
from memcore.models.base import escaped

#: Questions that went wrong shown of each policy.
MOST_WRONG = 50

#: Measures that are shares, and so have a bar.
_SHARES = frozenset({"recall", "precision", "ndcg_at_10", "prompt_recall", "shown_wrongly", "stale_first"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _WrongQuestion:
    """A question that went wrong; ``was_right`` says that it did not before maintenance."""

    judged: Judged
    expected: tuple[str, ...]
    was_right: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wrong:
    """The questions that went wrong with a policy at last; ``left_out`` are beyond what a page has room for."""

    heading: str
    shown: tuple[_WrongQuestion, ...]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """One policy before or after days of maintenance."""

    heading: str
    measures: Mapping[tuple[str | None, str], Measured]


def check_report(path: Path | None) -> None:
    """Refuse a page that could not be written. Raises MemoryInputError."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        raise MemoryInputError("report", "must be a file in a folder that exists")


def write_report(
    path: Path, dataset: Dataset, results: Sequence[PolicyResult], asked: Sequence[Sequence[Asked]], *, budget: int
) -> None:
    """Write the page, for its owner alone: it has texts of memories. Raises MemoryInputError."""
    # Every command would pay for its import.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415  # see above

    columns = [column for result in results for column in _columns(result)]
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(plain=lambda text: escaped(str(text), keep="\n"), later=later, done=done_in_words)
    text = environment.get_template("evaluation_report.html").render(
        at=utc_now(),
        command=shlex.join(["memtend", *sys.argv[1:]]),
        agents=len(dataset.memories),
        memories=sum(map(len, dataset.memories.values())),
        questions=len(dataset.questions),
        budget=budget,
        results=results,
        columns=columns,
        rows=list(_rows(columns)),
        verdicts=[verdict for result in results for verdict in result.verdicts()],
        measures=MEASURES,
        headlines=HEADLINES,
        shares=_SHARES,
        wrong=[_wrong(dataset, result.policy, each) for result, each in zip(results, asked, strict=True)],
    )
    try:
        write_private(path, text)
    except OSError as error:
        raise MemoryInputError("report", f"cannot be written ({type(error).__name__})") from None


def _columns(result: PolicyResult) -> Iterator[_Column]:
    yield _column(result.policy, result)
    for each in result.after:
        yield _column(f"{result.policy} {later(each.days)}", each)


def _column(heading: str, found: PolicyResult | AfterDays) -> _Column:
    return _Column(heading=heading, measures={(each.kind, each.measure): each for each in found.measures})


def _rows(columns: Sequence[_Column]) -> Iterator[tuple[str | None, str, list[Measured | None]]]:
    """Yield kind, measure and the cells of each row: first over all questions, then of each kind."""
    for kind, measure in dict.fromkeys(key for column in columns for key in column.measures):
        yield kind, measure, [column.measures.get((kind, measure)) for column in columns]


def _wrong(dataset: Dataset, policy: str, asked: Sequence[Asked]) -> _Wrong:
    first, last = asked[0], asked[-1]
    texts = {(each.agent_id, each.id): each.content for own in dataset.memories.values() for each in own}
    found = [
        _WrongQuestion(
            judged=judged,
            expected=tuple(
                texts[judged.question.agent_id, name][:SHOWN_CHARS] for name in judged.question.finds[:SHOWN]
            ),
            was_right=not before.faults,
        )
        for before, judged in zip(first.judged, last.judged, strict=True)
        if judged.faults
    ]
    # What maintenance lost says more than what was never found.
    found.sort(key=lambda each: not each.was_right)
    heading = policy if last is first else f"{policy} {later(last.days)}"
    return _Wrong(heading=heading, shown=tuple(found[:MOST_WRONG]), left_out=max(len(found) - MOST_WRONG, 0))

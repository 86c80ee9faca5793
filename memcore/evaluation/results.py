"""What policies made of the questions, before and after days of maintenance, in figures and in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from memcore.evaluation.asking import HEADLINES, Difference, Judged, Measured, differences, in_words, summary
from memcore.evaluation.maintained import MaintenanceDone
from memcore.models.base import Frozen


class AfterDays(Frozen):
    """What one policy made of the questions after days of maintenance, beside before and beside the first policy."""

    days: int
    done: MaintenanceDone
    measures: tuple[Measured, ...]
    beside_before: tuple[Difference, ...]
    beside_first: tuple[Difference, ...] = ()


class PolicyResult(Frozen):
    """What one policy made of the questions, and how far it is from the first one; then after days of maintenance."""

    policy: str
    measures: tuple[Measured, ...]
    beside_first: tuple[Difference, ...] = ()
    after: tuple[AfterDays, ...] = ()

    @classmethod
    def of(cls, policy: str, asked: "Sequence[Asked]", first: "Sequence[Asked]") -> "PolicyResult":
        """Return the figures of a policy's answers beside those of the first policy, which may be itself."""
        before, *later = asked
        return cls(
            policy=policy,
            measures=tuple(summary(before.judged)),
            beside_first=_beside(before, first[0]),
            after=tuple(
                AfterDays(
                    days=each.days,
                    done=each.done,
                    measures=tuple(summary(each.judged)),
                    # How long a search takes depends on what was searched before it.
                    beside_before=tuple(one for one in _beside(each, before) if one.measure != "milliseconds"),
                    beside_first=_beside(each, other),
                )
                for each, other in zip(later, first[1:], strict=True)
            ),
        )

    def verdicts(self) -> Iterator[str]:
        """Yield in sentences how far it is from the first policy, and what days of maintenance changed."""
        yield from (f"{self.policy} beside the first policy: {each}" for each in _said(self.beside_first))
        for after in self.after:
            yield from (f"{self.policy} {later(after.days)}: {each}" for each in _said(after.beside_before))


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The answers to all questions after some days; before the first, nothing is done."""

    days: int
    judged: Sequence[Judged]
    done: MaintenanceDone = field(default_factory=MaintenanceDone)


def later(days: int) -> str:
    """Return how much later that is, in words."""
    return f"after {days} day{'s' * (days != 1)}"


def done_in_words(done: MaintenanceDone) -> str:
    """Return in a sentence what maintenance has done."""
    said = (
        f"{done.merged} memories were merged into {done.summaries}, {done.removed} were removed, {done.archived} are "
        f"in the archive, {done.live} are live"
    )
    said += f"; groups that the gate refused: {done.refused}" if done.refused else ""
    said += f"; runs that wait for a person: {done.held}" if done.held else ""
    said += f"; failed runs: {done.failed}" if done.failed else ""
    return said + (f" ({done.reason})" if done.reason else "")


def _beside(asked: Asked, other: Asked) -> tuple[Difference, ...]:
    return () if asked is other else tuple(differences(other.judged, asked.judged))


def _said(found: Sequence[Difference]) -> Iterator[str]:
    return (in_words(each) for each in found if each.measure in HEADLINES)

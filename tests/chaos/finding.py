"""A finding: a deviation that the reconciliation found."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["lost", "duplicated", "unsettled"]

#: Examples named in the report.
_EXAMPLES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found, how often, and where to look.

    Attributes:
        verdict: a job without its effect, an effect without its job or twice, or work that did not end.
    """

    verdict: Verdict
    what: str
    count: int
    examples: tuple[str, ...]

    def sentence(self) -> str:
        """Return it as one line."""
        return f"{self.verdict}: {self.count} {self.what}, such as {', '.join(self.examples)}"


def finding(verdict: Verdict, what: str, cases: Collection[object]) -> list[Finding]:
    """Return a finding if there are cases."""
    if not cases:
        return []
    examples = tuple(map(str, list(cases)[:_EXAMPLES]))
    return [Finding(verdict=verdict, what=what, count=len(cases), examples=examples)]

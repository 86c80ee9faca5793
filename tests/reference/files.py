"""The generated part of docs/reference/files.md: what becomes of the rows of each table."""

from collections.abc import Iterator, Mapping

from memcore.config.policy import Policy
from memcore.ledger.erasure.ends import HISTORY, JOURNAL, LEDGER, Elsewhere, End, Kept, Term
from reference.page import Page, table

_INTRO = """## Rows that end

An hourly job deletes old rows, 1,000 at a time, for at most 25 seconds; the next one goes on. Of several keys the
longest counts, but for `history` the shortest. Keys are those of `memory`. SQLite writes new rows over deleted ones;
its files do not shrink.
"""


def _keys(keys: tuple[str, ...]) -> str:
    return ", ".join(f"`{key}`" for key in keys)


def _days(term: Term) -> str:
    """Return how long it is by default."""
    try:
        return str(term.length(Policy().memory).days)
    except TypeError:
        return "for ever"


def rows_of(name: str, decision: tuple[End, ...] | Elsewhere | Kept) -> Iterator[tuple[str, str, str, str]]:
    """Yield the lines of a table: which rows, their term, and the keys that set it."""
    if isinstance(decision, Kept):
        yield f"`{name}`", f"no end: {decision.why}", "", ""
    elif isinstance(decision, Elsewhere):
        yield f"`{name}`", decision.how, _days(Term(max, decision.keys)) if decision.keys else "", _keys(decision.keys)
    else:
        yield from ((f"`{name}`", end.what, _days(end.term), _keys(end.term.keys)) for end in decision)


def reference() -> str:
    """Return the rows of each table that end."""
    places: dict[str, Mapping[str, tuple[End, ...] | Elsewhere | Kept]] = {
        "ledger": LEDGER,
        "journal": JOURNAL,
        "mem0's history": HISTORY,
    }
    parts = [_INTRO]
    for place, decisions in places.items():
        lines = dict.fromkeys(line for name, decision in sorted(decisions.items()) for line in rows_of(name, decision))
        parts.append(f"### Tables of the {place}\n" if place != "mem0's history" else "### mem0's history\n")
        parts.append(table(("table", "rows", "days", "policy keys"), list(lines)) + "\n")
    return "\n".join(parts)


PAGE = Page(name="files.md", generate=reference)

"""Counts for monitoring: each is one statement over an index, however many memories, runs and items there are."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import and_, case, func, literal_column, select

from memcore.jobs import MaintenancePayload
from memcore.ledger.database import Repository
from memcore.ledger.tables import HELD_WORK, OPEN_WORK, runs, work_items
from memcore.ledger.work_items import WorkState

#: Newest runs of a company that are looked at; an installation with more in a day counts those.
MOST_RUNS = 10_000

#: The reason of a removal by a run's kind and count; the counts of a maintenance run are named by their reasons.
_REASONS = {("undo", "removed"): "undone", ("remove", "removed"): "deleted", ("update", "updated"): "updated"}

#: Counts of a run that are removals, by its reason.
_REMOVALS = ("ended", "retention", "expired", "pruned", "consolidated", "enforced")

#: Count of the summaries that a run has made.
_SUMMARIES = "summaries"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """The runs of one company in a time.

    Attributes:
        ended: how many, by kind and state.
        removed: memories that they removed, by reason.
        summaries: summaries that they made.
    """

    ended: Counter[tuple[str, str]]
    removed: Counter[str]
    summaries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedFigures:
    """The items of one kind that workers hold.

    Attributes:
        started_at: when the one that has run longest was claimed first; None where no item says.
        lease_until: when the lease that ends first ends; one that lies behind us is a worker that hangs or died.
    """

    count: int
    started_at: datetime | None
    lease_until: datetime | None


class Figures(Repository):
    """Counts of runs and work items. Every method raises MemoryConnectionError, MemoryRetrievalError."""

    def runs(self, company: str, *, since: datetime) -> RunFigures:
        """Return what became of the runs that were created since a time, the newest ten thousand of them."""
        newest = (
            select(runs.c.run_id, runs.c.kind, runs.c.counts)
            .where(runs.c.company == company, runs.c.created_at >= since)
            .order_by(runs.c.created_at.desc())
            .limit(MOST_RUNS)
            .subquery()
        )
        its = and_(
            work_items.c.company == company,
            work_items.c.kind == MaintenancePayload.task,
            work_items.c.key == newest.c.run_id,
        )
        query = select(newest.c.kind, newest.c.counts, work_items.c.state).join(work_items, its)
        ended, removed, summaries = Counter[tuple[str, str]](), Counter[str](), 0
        for row in self._database.rows(query):
            kind, counts = row["kind"], row["counts"]
            ended[kind, row["state"]] += 1
            summaries += counts.get(_SUMMARIES, 0)
            for name, count in counts.items():
                reason = name if name in _REMOVALS else _REASONS.get((kind, name))
                if reason is not None:
                    removed[reason] += count
        return RunFigures(ended=ended, removed=removed, summaries=summaries)

    def held(self, companies: Collection[str]) -> dict[str, int]:
        """Return how many runs of each company wait for a person to decide, where there are some."""
        of = work_items.c
        query = select(of.company, func.count().label("count")).where(
            of.company.in_(list(companies)), of.kind == MaintenancePayload.task, HELD_WORK
        )
        return {row["company"]: row["count"] for row in self._database.rows(query.group_by(of.company))}

    def leased(self, companies: Collection[str]) -> dict[tuple[str, str], LeasedFigures]:
        """Return what workers hold, by company and kind of work."""
        # Not by its name alone: SQLite, which knows no better, would read all that a company's workers have ever done.
        of, whose = work_items.c, work_items.c.company.concat(literal_column("''"))
        query = (
            select(
                whose.label("company"),
                of.kind,
                func.count().label("count"),
                func.min(of.started_at).label("started_at"),
                func.min(of.lease_until).label("lease_until"),
            )
            .where(OPEN_WORK, of.state == WorkState.LEASED, whose.in_(list(companies)))
            .group_by(whose, of.kind)
        )
        return {
            (row["company"], row["kind"]): LeasedFigures(
                count=row["count"], started_at=row["started_at"], lease_until=row["lease_until"]
            )
            for row in self._database.rows(query)
        }

    def oldest_due(self, *, without: Collection[str] = ()) -> dict[str, timedelta]:
        """Return by queue how long the oldest item that may be claimed has waited; kinds ``without`` do not count.

        A new item waits since it was made. One that waits for a time, or was claimed before, waits since its message
        was due.
        """
        of, now = work_items.c, self._clock()
        is_new = and_(of.state == WorkState.AVAILABLE, of.attempt == 0)
        since = case((is_new, of.created_at), else_=of.dispatch_after)
        query = (
            select(of.queue, func.min(since, type_=of.created_at.type).label("since"))
            .where(OPEN_WORK, of.state != WorkState.LEASED, of.queue.is_not(None), since <= now)
            .where(of.kind.not_in(list(without)))
            .group_by(of.queue)
        )
        return {row["queue"]: now - row["since"] for row in self._database.rows(query)}

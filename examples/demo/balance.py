"""The double-entry check: what went into an agent's memory equals what is there plus what was taken out, id by id."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlalchemy import func

from memcore.ledger.database import equals
from memcore.ledger.journal import moves_with
from memcore.ledger.ledger import Ledger
from memcore.ledger.tables import OPEN, booking_records, bookings


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How often each id of an agent was created, restored and removed by entries that are done.

    Per agent: stored + created + restored = live + removed, as multisets of ids.
    """

    created: Counter[str] = field(default_factory=Counter)
    restored: Counter[str] = field(default_factory=Counter)
    removed: Counter[str] = field(default_factory=Counter)


def tally_of(ledger: Ledger, company: str, agent_id: str) -> Counts:
    """Count, per id, what the agent's settled entries created, restored and removed."""
    query = (
        moves_with(booking_records.c.kind, func.count().label("times"))
        .where(equals(bookings, company=company, agent_id=agent_id), ~OPEN)
        .group_by(booking_records.c.kind, booking_records.c.memory_id)
    )
    counts: dict[str, Counter[str]] = {"created": Counter(), "restored": Counter(), "removed": Counter()}
    for row in ledger.journal._database.rows(query):  # noqa: SLF001  # no product code counts both sides
        counts[row["kind"]][row["memory_id"]] = row["times"]
    return Counts(**counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """One agent's account, as multisets of memory ids.

    Attributes:
        stored: ids that the client was given; the same text sent twice is one memory.
        tally: ids that runs created, restored and removed, from the journal.
        live: ids that the store holds.
    """

    stored: Counter[str]
    tally: Counts
    live: Counter[str]

    @property
    def into(self) -> Counter[str]:
        """All that came in: stored + created + restored."""
        return self.stored + self.tally.created + self.tally.restored

    @property
    def out(self) -> Counter[str]:
        """All that is there or was taken out: live + removed."""
        return self.live + self.tally.removed

    @property
    def is_exact(self) -> bool:
        """Whether both sides hold the same ids equally often."""
        return self.into == self.out

    def equation(self) -> str:
        """Return the account in figures."""
        created, restored, removed = (
            each.total() for each in (self.tally.created, self.tally.restored, self.tally.removed)
        )
        left = f"{self.stored.total()} stored + {created} created + {restored} restored"
        return f"{left} {'=' if self.is_exact else 'IS NOT'} {self.live.total()} live + {removed} removed"


def balance(*, stored: Iterable[str], tally: Counts, live: Iterable[str]) -> Balance:
    """Return the account of one agent; an id that was stored twice counts once, since it is one memory."""
    return Balance(stored=Counter(set(stored)), tally=tally, live=Counter(live))

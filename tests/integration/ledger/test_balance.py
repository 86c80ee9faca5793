"""Whatever sequence of bookings: the tally and the tombstones are those of a model that knows no database."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ledger_records import COMPANY, StoppedClock, make_booking
from support.thorough import examples

from memcore.ledger import Booking, Ledger

ids = st.sampled_from(list("abcdefgh"))
groups = st.frozensets(ids, max_size=4)
kinds = st.sampled_from(["created", "restored"])
# Few, so that one booking is often met again.
picks = st.integers(0, 2)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("prepare"), groups, groups, kinds),
        st.tuples(st.just("again"), picks),
        st.tuples(st.just("settle"), picks, groups, groups),
        st.tuples(st.just("expire")),
    ),
    max_size=14,
)


@dataclass
class Model:
    """What the journal should know, in plain Python."""

    prepared: list[Booking] = field(default_factory=list)
    settled: set[str] = field(default_factory=set)
    buried: dict[str, datetime] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(
        default_factory=lambda: {"created": Counter(), "restored": Counter(), "removed": Counter()}
    )

    def prepare(self, booking: Booking, now: datetime) -> None:
        self.prepared.append(booking)
        self.buried.update(dict.fromkeys(booking.outgoing_ids, now))
        for memory_id in booking.incoming_ids:
            self.buried.pop(memory_id, None)

    def settle(self, booking: Booking, missing_in: frozenset[str], missing_out: frozenset[str]) -> None:
        if booking.booking_id in self.settled:
            return
        self.settled.add(booking.booking_id)
        self.counts[booking.incoming_kind].update(booking.incoming_ids - missing_in)
        self.counts["removed"].update(booking.outgoing_ids - missing_out)


def _step(ledger: Ledger, clock: StoppedClock, model: Model, agent_id: str, step: tuple[Any, ...]) -> None:
    now = clock.advance(timedelta(seconds=1))
    match step:
        case ("prepare", incoming, outgoing, kind):
            seq = ledger.journal.next_seq(agent_id)
            booking = make_booking(
                f"{agent_id}-{seq}",
                run_id=agent_id,
                agent_id=agent_id,
                seq=seq,
                incoming=tuple(f"{agent_id}{name}" for name in sorted(incoming - outgoing)),
                outgoing=tuple(f"{agent_id}{name}" for name in sorted(outgoing)),
                incoming_kind=kind,
            )
            ledger.journal.prepare(booking)
            model.prepare(booking, now)
        case ("again", pick) if model.prepared:
            ledger.journal.prepare(model.prepared[pick % len(model.prepared)])
        case ("settle", pick, missing_in, missing_out) if model.prepared:
            booking = model.prepared[pick % len(model.prepared)]
            void_in = frozenset(f"{agent_id}{name}" for name in missing_in)
            void_out = frozenset(f"{agent_id}{name}" for name in missing_out)
            ledger.journal.settle(booking.booking_id, missing_in=void_in, missing_out=void_out)
            model.settle(booking, void_in, void_out)
        case ("expire",):
            ledger.journal.expire(COMPANY, before=now + timedelta(days=1))


agents = iter(range(1_000_000))


@given(sequence=steps)
@settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_the_journal_keeps_the_balance_of_its_model(
    ledger: Ledger, clock: StoppedClock, sequence: list[tuple[Any, ...]]
) -> None:
    # A fresh agent for each example, since all examples share the fixture's database.
    agent_id = f"agent-{next(agents)}-"
    model = Model()
    start = clock()
    for step in sequence:
        _step(ledger, clock, model, agent_id, step)
    tally = ledger.journal.tally(COMPANY, agent_id)
    assert {"created": tally.created, "restored": tally.restored, "removed": tally.removed} == model.counts
    assert ledger.journal.buried({f"{agent_id}{name}": start for name in "abcdefgh"}) == model.buried.keys()
    assert all(ledger.journal.buried({memory_id: at}) == {memory_id} for memory_id, at in model.buried.items())
    opened = {booking.booking_id for booking in ledger.journal.open_of(COMPANY, agent_id)}
    assert opened == {booking.booking_id for booking in model.prepared} - model.settled
    assert ledger.journal.next_seq(agent_id) == len(model.prepared)

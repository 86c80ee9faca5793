"""Whatever sequence of entries: the tally and the tombstones are those of a model that knows no database."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ledger_records import COMPANY, StoppedClock, make_journal_entry
from support.thorough import examples

from examples.demo.balance import tally_of
from memcore.ledger.journal import JournalEntry
from memcore.ledger.ledger import Ledger

ids = st.sampled_from(list("abcdefgh"))
groups = st.frozensets(ids, max_size=4)
kinds = st.sampled_from(["created", "restored"])
# Few, so that one entry is often met again.
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

    prepared: list[JournalEntry] = field(default_factory=list)
    settled: set[str] = field(default_factory=set)
    tombstoned: dict[str, datetime] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(
        default_factory=lambda: {"created": Counter(), "restored": Counter(), "removed": Counter()}
    )

    def prepare(self, journal_entry: JournalEntry, now: datetime) -> None:
        self.prepared.append(journal_entry)
        self.tombstoned.update(dict.fromkeys(journal_entry.outgoing_ids, now))
        for memory_id in journal_entry.incoming_ids:
            self.tombstoned.pop(memory_id, None)

    def settle(self, journal_entry: JournalEntry, missing_in: frozenset[str], missing_out: frozenset[str]) -> None:
        if journal_entry.booking_id in self.settled:
            return
        self.settled.add(journal_entry.booking_id)
        self.counts[journal_entry.incoming_kind].update(journal_entry.incoming_ids - missing_in)
        self.counts["removed"].update(journal_entry.outgoing_ids - missing_out)


def _step(ledger: Ledger, clock: StoppedClock, model: Model, agent_id: str, step: tuple[Any, ...]) -> None:
    now = clock.advance(timedelta(seconds=1))
    match step:
        case ("prepare", incoming, outgoing, kind):
            seq = ledger.journal.next_seq(agent_id)
            journal_entry = make_journal_entry(
                f"{agent_id}-{seq}",
                run_id=agent_id,
                agent_id=agent_id,
                seq=seq,
                incoming=tuple(f"{agent_id}{name}" for name in sorted(incoming - outgoing)),
                outgoing=tuple(f"{agent_id}{name}" for name in sorted(outgoing)),
                incoming_kind=kind,
            )
            ledger.journal.prepare(journal_entry)
            model.prepare(journal_entry, now)
        case ("again", pick) if model.prepared:
            ledger.journal.prepare(model.prepared[pick % len(model.prepared)])
        case ("settle", pick, missing_in, missing_out) if model.prepared:
            journal_entry = model.prepared[pick % len(model.prepared)]
            void_in = frozenset(f"{agent_id}{name}" for name in missing_in)
            void_out = frozenset(f"{agent_id}{name}" for name in missing_out)
            ledger.journal.settle(journal_entry.booking_id, missing_in=void_in, missing_out=void_out)
            model.settle(journal_entry, void_in, void_out)
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
    tally = tally_of(ledger, COMPANY, agent_id)
    assert {"created": tally.created, "restored": tally.restored, "removed": tally.removed} == model.counts
    assert ledger.journal.tombstoned({f"{agent_id}{name}": start for name in "abcdefgh"}) == model.tombstoned.keys()
    assert all(ledger.journal.tombstoned({memory_id: at}) == {memory_id} for memory_id, at in model.tombstoned.items())
    opened = {journal_entry.booking_id for journal_entry in ledger.journal.open_of(COMPANY, agent_id)}
    assert opened == {journal_entry.booking_id for journal_entry in model.prepared} - model.settled
    assert ledger.journal.next_seq(agent_id) == len(model.prepared)

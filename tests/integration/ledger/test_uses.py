"""Uses in the ledger: counted once a batch, and gone with their memory."""

from datetime import timedelta

from support.ledger_records import COMPANY, StoppedClock, make_journal_entry

from memcore.jobs import Use
from memcore.ledger.ledger import Ledger


def _use(memory_id: str, clock: StoppedClock, *, agent_id: str = "ada", uses: int = 1) -> Use:
    return Use(agent_id=agent_id, memory_id=memory_id, uses=uses, last_used_at=clock.now)


def test_uses_add_up_and_the_last_time_stays(ledger: Ledger, clock: StoppedClock) -> None:
    late = _use("a", clock, uses=2)
    early = late.model_copy(update={"last_used_at": clock.now - timedelta(days=1), "uses": 5})
    assert ledger.uses.count(COMPANY, "one", [late]) == 1
    assert ledger.uses.count(COMPANY, "two", [early, _use("b", clock)]) == 2
    found = ledger.uses.of(COMPANY, "ada", ["a", "b", "never"])
    assert found == {"a": late.model_copy(update={"uses": 7}), "b": _use("b", clock)}


def test_a_batch_that_comes_again_counts_once(ledger: Ledger, clock: StoppedClock) -> None:
    assert ledger.uses.count(COMPANY, "one", [_use("a", clock)]) == 1
    assert ledger.uses.count(COMPANY, "one", [_use("a", clock)]) == 0
    assert ledger.uses.of(COMPANY, "ada", ["a"])["a"].uses == 1


def test_a_memory_twice_in_one_batch_counts_both_times(ledger: Ledger, clock: StoppedClock) -> None:
    assert ledger.uses.count(COMPANY, "one", [_use("a", clock), _use("a", clock, uses=2)]) == 1
    assert ledger.uses.of(COMPANY, "ada", ["a"])["a"].uses == 3


def test_agents_and_companies_are_apart(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.uses.count(COMPANY, "one", [_use("a", clock), _use("a", clock, agent_id="bob", uses=4)])
    assert ledger.uses.of(COMPANY, "ada", ["a"])["a"].uses == 1
    assert ledger.uses.of(COMPANY, "bob", ["a"])["a"].uses == 4
    assert ledger.uses.of("other", "ada", ["a"]) == {}


def test_a_batch_is_forgotten_after_a_month(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.uses.count(COMPANY, "one", [_use("a", clock)])
    clock.advance(timedelta(days=31))
    ledger.uses.count(COMPANY, "two", [_use("a", clock)])
    assert ledger.uses.count(COMPANY, "one", [_use("a", clock)]) == 1


def test_a_removed_memory_is_forgotten_when_its_removal_is_settled(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.uses.count(COMPANY, "one", [_use("gone", clock), _use("gone", clock, agent_id="bob"), _use("stays", clock)])
    ledger.journal.prepare(make_journal_entry("b", incoming=("new",), outgoing=("gone", "stays")))
    assert set(ledger.uses.of(COMPANY, "ada", ["gone", "stays"])) == {"gone", "stays"}
    ledger.journal.settle("b", missing_out={"stays"})
    assert set(ledger.uses.of(COMPANY, "ada", ["gone", "stays"])) == {"stays"}
    assert ledger.uses.of(COMPANY, "bob", ["gone"]) == {}


def test_a_late_batch_brings_no_removed_memory_back(ledger: Ledger, clock: StoppedClock) -> None:
    before = _use("gone", clock)
    clock.advance(timedelta(minutes=1))
    ledger.journal.prepare(make_journal_entry("b", outgoing=("gone",)))
    ledger.journal.settle("b")
    assert ledger.uses.count(COMPANY, "late", [before, _use("stays", clock)]) == 1
    assert set(ledger.uses.of(COMPANY, "ada", ["gone", "stays"])) == {"stays"}


def test_more_memories_than_one_query_carries_are_found(ledger: Ledger, clock: StoppedClock) -> None:
    ids = [f"m{i:04}" for i in range(1_024)]
    assert ledger.uses.count(COMPANY, "one", [_use(each, clock) for each in ids]) == 1_024
    assert set(ledger.uses.of(COMPANY, "ada", ids)) == set(ids)

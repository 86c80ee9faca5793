import threading
from collections.abc import Callable, Generator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.memories import NOW
from support.store_items import item
from support.thorough import examples

from memcore.errors import MemoryConnectionError, MemoryStoreError
from memcore.ingest import WriteResult
from memcore.jobs import StoreItem
from memcore.ledger.monitoring.measures import MeasureName
from workers.write_batcher import BatchWriter, StoredCounter

if TYPE_CHECKING:
    from concurrent.futures import Future

#: Longest wait for an answer, in seconds; answers come in milliseconds.
ANSWER_SECONDS = 600

#: A linger that no test waits for: the batch must close for another reason.
FOREVER = timedelta(hours=1)


class Store:
    """Writes into a list; a gate holds the writers until the test lets them go."""

    def __init__(self) -> None:
        self.batches: list[tuple[StoreItem, ...]] = []
        self.tombstoned: frozenset[str] = frozenset()
        self.poison: dict[str, Exception] = {}
        self.gate = threading.Event()
        self.gate.set()

    def write(self, items: Sequence[StoreItem]) -> WriteResult:
        assert self.gate.wait(ANSWER_SECONDS)
        for each in items:
            if each.request.content in self.poison:
                raise self.poison[each.request.content]
        self.batches.append(tuple(items))
        ids = frozenset(each.id for each in items)
        return WriteResult(stored=ids - self.tombstoned, tombstoned=ids & self.tombstoned)


@pytest.fixture
def store() -> Store:
    return Store()


MakeBatchWriter = Callable[..., BatchWriter]


@pytest.fixture
def make_batch_writer(store: Store) -> Generator[MakeBatchWriter]:
    batch_writers: list[BatchWriter] = []

    def make(*, writers: int = 1, linger: timedelta = FOREVER, **limits: int) -> BatchWriter:
        batch_writer = BatchWriter(store.write, writers=writers, linger=linger, **limits)
        batch_writers.append(batch_writer)
        return batch_writer

    yield make
    store.gate.set()
    for batch_writer in batch_writers:
        batch_writer.close()


def answers(futures: Sequence["Future[WriteResult]"]) -> list[int]:
    return [len(future.result(ANSWER_SECONDS).stored) for future in futures]


def test_a_batch_closes_at_the_count(make_batch_writer: MakeBatchWriter, store: Store) -> None:
    batch_writer = make_batch_writer(max_items=3)
    futures = [batch_writer.submit([item(str(number))]) for number in range(6)]
    batch_writer.start()
    assert answers(futures) == [1] * 6
    assert [len(batch) for batch in store.batches] == [3, 3]


def test_a_batch_closes_at_the_bytes_not_at_the_characters(make_batch_writer: MakeBatchWriter, store: Store) -> None:
    batch_writer = make_batch_writer(max_items=100, max_bytes=20)
    futures = [batch_writer.submit([item("é" * 5 + str(number))]) for number in range(4)]
    batch_writer.start()
    assert answers(futures) == [1] * 4
    assert [len(batch) for batch in store.batches] == [2, 2]


def test_a_batch_closes_when_nobody_else_comes(make_batch_writer: MakeBatchWriter, store: Store) -> None:
    batch_writer = make_batch_writer(linger=timedelta(milliseconds=1), max_items=100)
    batch_writer.start()
    assert answers([batch_writer.submit([item("alone")])]) == [1]
    assert [len(batch) for batch in store.batches] == [1]


def test_each_job_is_told_how_many_of_its_own_are_in_the_store(
    make_batch_writer: MakeBatchWriter, store: Store
) -> None:
    store.tombstoned = frozenset({item("gone").id})
    batch_writer = make_batch_writer(max_items=5)
    futures = [batch_writer.submit([item("a"), item("gone")]), batch_writer.submit([item("b"), item("c"), item("d")])]
    batch_writer.start()
    assert answers(futures) == [1, 3]


@pytest.mark.parametrize("error", [ValueError("odd"), MemoryStoreError("refused"), KeyError("x")])
def test_one_bad_job_in_a_batch_fails_alone(make_batch_writer: MakeBatchWriter, store: Store, error: Exception) -> None:
    store.poison = {"bad": error}
    batch_writer = make_batch_writer(max_items=4)
    futures = [batch_writer.submit([item(text)]) for text in ("a", "b", "bad", "c")]
    batch_writer.start()
    assert answers([futures[0], futures[1], futures[3]]) == [1, 1, 1]
    assert futures[2].exception(ANSWER_SECONDS) is error


def test_a_lost_connection_fails_the_batch_without_trying_each_job_against_a_dead_store(
    make_batch_writer: MakeBatchWriter, store: Store
) -> None:
    store.poison = {"a": MemoryConnectionError("gone")}
    batch_writer = make_batch_writer(max_items=2)
    futures = [batch_writer.submit([item("a")]), batch_writer.submit([item("b")])]
    batch_writer.start()
    assert [type(future.exception(ANSWER_SECONDS)) for future in futures] == [MemoryConnectionError] * 2
    assert store.batches == []


def test_one_id_laid_down_twice_is_written_once_and_answers_both(
    make_batch_writer: MakeBatchWriter, store: Store
) -> None:
    batch_writer = make_batch_writer(max_items=2)
    futures = [batch_writer.submit([item("same")]), batch_writer.submit([item("same")])]
    batch_writer.start()
    assert answers(futures) == [1, 1]
    assert [len(batch) for batch in store.batches] == [1]


@pytest.mark.parametrize("order", [1, -1])
def test_of_a_redelivery_and_a_new_sending_the_new_one_stands_for_both(
    make_batch_writer: MakeBatchWriter, store: Store, order: int
) -> None:
    old, new = item("same"), item("same", sent_at=NOW + timedelta(days=1))
    batch_writer = make_batch_writer(max_items=2)
    futures = [batch_writer.submit([each]) for each in (old, new)[::order]]
    batch_writer.start()
    assert answers(futures) == [1, 1]
    assert store.batches == [(new,)]


def test_a_closed_batch_writer_refuses_and_has_written_what_lay_on_it(make_batch_writer: MakeBatchWriter) -> None:
    batch_writer = make_batch_writer(writers=2, max_items=2)
    futures = [batch_writer.submit([item(str(number))]) for number in range(9)]
    batch_writer.start()
    batch_writer.close()
    assert [future.done() for future in futures] == [True] * 9
    assert answers(futures) == [1] * 9
    with pytest.raises(MemoryConnectionError, match="closed"):
        batch_writer.submit([item("late")])
    batch_writer.close()


def test_whoever_is_not_refused_is_answered_even_while_the_batch_writer_closes(
    make_batch_writer: MakeBatchWriter,
) -> None:
    batch_writer = make_batch_writer(writers=2, linger=timedelta(milliseconds=1))
    batch_writer.start()
    futures: list[Future[WriteResult]] = []
    refused = threading.Event()

    def talk(name: str) -> None:
        number = 0
        while True:
            try:
                futures.append(batch_writer.submit([item(f"{name} {number}")]))
            except MemoryConnectionError:
                refused.set()
                return
            number += 1

    talkers = [threading.Thread(target=talk, args=(str(number),)) for number in range(4)]
    for talker in talkers:
        talker.start()
    futures_seen = threading.Event()
    while not futures:
        futures_seen.wait(0.001)
    batch_writer.close()
    for talker in talkers:
        talker.join()
    assert refused.is_set()
    assert set(answers(futures)) == {1}


@settings(max_examples=examples(20), deadline=None)
@given(
    jobs=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=12), min_size=1, max_size=30),
    max_items=st.integers(1, 20),
    writers=st.integers(1, 3),
    bad=st.sets(st.integers(0, 30), max_size=3),
)
def test_every_job_is_answered_with_its_own_count_or_its_own_error(
    jobs: list[list[int]], max_items: int, writers: int, bad: set[int]
) -> None:
    store = Store()
    store.poison = {str(number): ValueError(str(number)) for number in bad}
    batch_writer = BatchWriter(store.write, writers=writers, max_items=max_items, linger=timedelta(milliseconds=1))
    futures = [batch_writer.submit([item(str(number)) for number in job]) for job in jobs]
    batch_writer.start()
    batch_writer.close()
    for job, future in zip(jobs, futures, strict=True):
        if bad.intersection(job):
            assert isinstance(future.exception(0), ValueError)
        else:
            assert len(future.result(0).stored) == len(set(job))
    written = {each.request.content for batch in store.batches for each in batch}
    assert {str(number) for job in jobs if not bad.intersection(job) for number in job} <= written
    assert written.isdisjoint(map(str, bad))


def owners(batch: Sequence[StoreItem]) -> set[str]:
    return {each.agent_id for each in batch}


def test_a_single_store_passes_a_bulk_load_of_twenty_thousand(make_batch_writer: MakeBatchWriter, store: Store) -> None:
    batch_writer = make_batch_writer(max_items=256, linger=timedelta(milliseconds=1))
    store.gate.clear()
    load = [item(f"row {number}", agent_id="importer") for number in range(20_000)]
    bulk = [batch_writer.submit(load[start : start + 256]) for start in range(0, len(load), 256)]
    batch_writer.start()
    single = batch_writer.submit([item("one fact", agent_id="ada")])
    store.gate.set()
    assert answers([single]) == [1]
    assert sum(answers(bulk)) == len(load)
    # one batch may have been collected before the single store came; nothing else stands before it
    assert "ada" in owners(store.batches[0]) | owners(store.batches[1])


def test_every_single_store_during_a_bulk_load_waits_for_one_write_at_most() -> None:
    store = Store()
    waited: list[int] = []
    laid: list[tuple[Future[WriteResult], int]] = []

    def write(items: Sequence[StoreItem]) -> WriteResult:
        # before each bulk write comes a single store, as if an engine had sent it while we write
        if owners(items) == {"importer"}:
            number = len(store.batches)
            laid.append((batch_writer.submit([item(f"fact {number}", agent_id=f"agent-{number % 3}")]), number))
        else:
            waited.append(len(store.batches) - laid[-1][1])
        return store.write(items)

    batch_writer = BatchWriter(write, writers=1, linger=timedelta(milliseconds=1))
    load = [item(f"row {number}", agent_id="importer") for number in range(5_120)]
    bulk = [batch_writer.submit(load[start : start + 256]) for start in range(0, len(load), 256)]
    batch_writer.start()
    assert sum(answers(bulk)) == len(load)
    assert answers([future for future, _ in laid]) == [1] * len(laid)
    batch_writer.close()
    assert len(waited) == 20
    assert max(waited) == 1


def test_a_bulk_load_goes_on_while_engines_never_stop() -> None:
    store = Store()
    written = {"ada": 0, "importer": 0}
    done = threading.Event()

    def write(items: Sequence[StoreItem]) -> WriteResult:
        written[items[0].agent_id] += len(items)
        if not done.is_set():
            # as many as were written lie there again before the next batch is collected
            number = len(store.batches)
            for each in range(16):
                batch_writer.submit([item(f"fact {number} {each}", agent_id="ada")])
        return store.write(items)

    batch_writer = BatchWriter(write, writers=1, linger=timedelta(0), max_items=16)
    bulk = batch_writer.submit([item(f"row {number}", agent_id="importer") for number in range(64)])
    first = batch_writer.submit([item("the first fact", agent_id="ada")])
    batch_writer.start()
    assert answers([first, bulk]) == [1, 64]
    done.set()
    batch_writer.close()
    # a quarter of what is written is the bulk load's
    assert written["ada"] >= 3 * 64


def test_a_job_of_few_but_huge_memories_is_a_bulk_load_too(make_batch_writer: MakeBatchWriter, store: Store) -> None:
    batch_writer = make_batch_writer(max_items=256, linger=timedelta(milliseconds=1))
    huge = batch_writer.submit([item("x" * 20_000 + str(number), agent_id="importer") for number in range(4)])
    small = batch_writer.submit([item("small", agent_id="ada")])
    batch_writer.start()
    assert answers([huge, small]) == [4, 1]
    assert [owners(batch) for batch in store.batches] == [{"ada"}, {"importer"}]


def test_a_writer_is_always_free_for_engines_however_long_a_bulk_write_takes() -> None:
    store, is_slow = Store(), threading.Event()
    writing = threading.Semaphore(0)

    def write(items: Sequence[StoreItem]) -> WriteResult:
        if owners(items) == {"importer"}:
            writing.release()
            assert is_slow.wait(ANSWER_SECONDS)
        return store.write(items)

    batch_writer = BatchWriter(write, writers=3, linger=timedelta(0), bulk_above=2, max_items=4)
    bulk = [
        batch_writer.submit([item(f"row {job} {row}", agent_id="importer") for row in range(4)]) for job in range(8)
    ]
    batch_writer.start()
    for _ in range(2):
        assert writing.acquire(timeout=ANSWER_SECONDS)
    for number in range(10):
        assert answers([batch_writer.submit([item(f"fact {number}", agent_id="ada")])]) == [1]
    assert not writing.acquire(blocking=False)
    assert not any(future.done() for future in bulk)
    is_slow.set()
    batch_writer.close()
    assert answers(bulk) == [4] * 8


def test_a_bulk_write_that_fails_gives_its_writer_back() -> None:
    store = Store()
    store.poison = {f"row {number}": MemoryConnectionError("gone") for number in range(40)}
    batch_writer = BatchWriter(store.write, writers=2, linger=timedelta(0), bulk_above=1, max_items=2)
    batch_writer.start()
    lost = [batch_writer.submit([item(f"row {number}"), item(f"row {number + 1}")]) for number in range(0, 40, 2)]
    assert {type(future.exception(ANSWER_SECONDS)) for future in lost} == {MemoryConnectionError}
    assert answers([batch_writer.submit([item("x"), item("y")])]) == [2]
    batch_writer.close()


def test_stored_memories_are_added_to_the_counter_now_and_then_and_none_is_lost_while_it_is_away() -> None:
    class Ledger:
        added: ClassVar[list[tuple[str, str, float]]] = []
        is_away = False

        def add(self, company: str, name: str, amount: float) -> None:
            if self.is_away:
                raise MemoryConnectionError("locked")
            self.added.append((company, name, amount))

    measures, now = Ledger(), [100.0]
    counter = StoredCounter(
        measures,  # type: ignore[arg-type]  # the one call that it makes
        "acme",
        MeasureName.MEMORIES_STORED,
        seconds=5.0,
        monotonic=lambda: now[0],
    )
    counter.add(0)
    assert measures.added == []
    counter.add(3)
    counter.add(4)
    counter.add(0)
    assert measures.added == [("acme", "memories_stored", 3)]
    now[0] += 5.0
    measures.is_away = True
    counter.add(5)
    now[0] += 5.0
    measures.is_away = False
    counter.add(1)
    counter.add(2)
    counter.save()
    counter.save()
    assert [amount for *_, amount in measures.added] == [3, 10, 2]

"""The recorder of uses and questions: sums, batches, retries while the broker is away, and a bound on its memory."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from support.memories import NOW
from support.running_stack import wait_until

from memcore.errors import MemoryConnectionError, MemoryInputError
from memcore.jobs import MAX_QUERIES, RecordedQuery, Use
from memcore.retrieval.usage import MAX_QUESTIONS_WAITING, BufferedUseRecorder, QueryRecorder, UseRecorder

#: Longer than any test: only the count, or closing, hands a batch on.
_NEVER = 3_600.0


@dataclass
class Sink:
    """Takes batches, or raises."""

    error: Exception | None = None
    batches: list[tuple[str, tuple[Use, ...]]] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, uses: Sequence[Use], /, *, batch_id: str) -> None:
        with self.lock:
            self.tried.append(batch_id)
            if self.error is not None:
                raise self.error
            self.batches.append((batch_id, tuple(uses)))

    def counts(self) -> dict[tuple[str, str], int]:
        total: dict[tuple[str, str], int] = {}
        for _, uses in self.batches:
            for use in uses:
                key = use.agent_id, use.memory_id
                total[key] = total.get(key, 0) + use.uses
        return total


def test_uses_are_summed_and_the_last_time_is_kept() -> None:
    sink = Sink()
    with BufferedUseRecorder(sink, flush_seconds=_NEVER) as recorder:
        assert isinstance(recorder, UseRecorder)
        recorder.record("ada", ["a", "b"], at=NOW)
        recorder.record("ada", ["a"], at=NOW + timedelta(hours=1))
        recorder.record("ada", ["a"], at=NOW)
        recorder.record("bob", ["a"], at=NOW)
    ((_, uses),) = sink.batches
    assert {(use.agent_id, use.memory_id): (use.uses, use.last_used_at) for use in uses} == {
        ("ada", "a"): (3, NOW + timedelta(hours=1)),
        ("ada", "b"): (1, NOW),
        ("bob", "a"): (1, NOW),
    }


def test_enough_uses_are_handed_on_without_waiting_for_the_time() -> None:
    sink = Sink()
    with BufferedUseRecorder(sink, flush_count=3, flush_seconds=_NEVER) as recorder:
        recorder.record("ada", ["a", "b"], at=NOW)
        assert sink.tried == []
        recorder.record("ada", ["c"], at=NOW)
        wait_until(lambda: len(sink.batches) == 1, what="the batch")


def test_the_time_hands_on_what_is_not_enough() -> None:
    sink = Sink()
    with BufferedUseRecorder(sink, flush_seconds=0.01) as recorder:
        recorder.record("ada", ["a"], at=NOW)
        wait_until(lambda: len(sink.batches) == 1, what="the batch")


def test_no_batch_is_larger_than_a_job_may_be() -> None:
    sink = Sink()
    with BufferedUseRecorder(sink, flush_count=4, flush_seconds=_NEVER) as recorder:
        recorder.record("ada", [str(i) for i in range(11)], at=NOW)
    assert sorted(len(uses) for _, uses in sink.batches) == [3, 4, 4]
    assert len({batch_id for batch_id, _ in sink.batches}) == 3


def test_a_batch_that_failed_is_sent_again_under_its_id(caplog: pytest.LogCaptureFixture) -> None:
    sink = Sink(error=MemoryConnectionError("the broker is away"))
    with BufferedUseRecorder(sink, flush_count=1, flush_seconds=0.01) as recorder:
        recorder.record("ada", ["a"], at=NOW)
        wait_until(lambda: len(sink.tried) >= 2, what="a second try")
        recorder.record("ada", ["a"], at=NOW)
        with sink.lock:
            sink.error = None
    assert len(set(sink.tried)) == 2
    assert sink.batches[0][0] == sink.tried[0]
    assert sink.counts() == {("ada", "a"): 2}
    assert {each.message for each in caplog.records} == {"memory.use.deferred"}


def test_what_it_holds_is_bounded_and_the_rest_is_told(caplog: pytest.LogCaptureFixture) -> None:
    sink = Sink()
    with BufferedUseRecorder(sink, flush_count=4, flush_seconds=_NEVER, max_waiting=4) as recorder:
        recorder.record("ada", [str(i) for i in range(10)], at=NOW)
    assert len(sink.counts()) == 4
    assert [(each.message, each.memories) for each in caplog.records] == [("memory.use.dropped", 6)]  # type: ignore[attr-defined]  # the event's field


def test_what_cannot_be_handed_on_at_the_end_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with BufferedUseRecorder(Sink(error=OSError()), flush_seconds=_NEVER) as recorder:
        recorder.record("ada", ["a", "b"], at=NOW)
    assert [each.message for each in caplog.records] == ["memory.use.deferred", "memory.use.dropped"]


def test_closing_twice_or_unused_does_nothing_and_later_uses_are_not_counted() -> None:
    sink = Sink()
    recorder = BufferedUseRecorder(sink)
    recorder.close()
    recorder.close()
    recorder.record("ada", ["a"], at=NOW)
    assert sink.tried == []


def test_many_threads_lose_no_use() -> None:
    sink = Sink()
    with BufferedUseRecorder(sink, flush_count=3, flush_seconds=_NEVER) as recorder:

        def work() -> None:
            for i in range(200):
                recorder.record("ada", [str(i % 5)], at=NOW)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sink.counts() == {("ada", str(i)): 160 for i in range(5)}


@pytest.mark.parametrize(
    ("build", "field_"),
    [
        (lambda: BufferedUseRecorder(Sink(), flush_count=0), "flush_count"),
        (lambda: BufferedUseRecorder(Sink(), flush_count=1_025), "flush_count"),
        (lambda: BufferedUseRecorder(Sink(), flush_seconds=0.0), "flush_seconds"),
        (lambda: BufferedUseRecorder(Sink(), flush_count=8, max_waiting=7), "max_waiting"),
    ],
)
def test_a_limit_outside_its_range_is_refused(build: Callable[[], BufferedUseRecorder], field_: str) -> None:
    with pytest.raises(MemoryInputError, match=f"^{field_}: "):
        build()


@dataclass
class Questions:
    """Takes questions, or raises."""

    error: Exception | None = None
    batches: list[list[RecordedQuery]] = field(default_factory=list)
    tries: int = 0

    def __call__(self, queries: Sequence[RecordedQuery], /) -> None:
        self.tries += 1
        if self.error is not None:
            raise self.error
        self.batches.append(list(queries))

    @property
    def kept(self) -> list[str]:
        return [each.question for batch in self.batches for each in batch]


def test_questions_are_sent_with_the_uses_each_as_it_was_asked_last() -> None:
    sink, questions = Sink(), Questions()
    with BufferedUseRecorder(sink, send_queries=questions, flush_seconds=_NEVER) as recorder:
        assert isinstance(recorder, QueryRecorder)
        recorder.record("ada", ["a"], at=NOW)
        recorder.record_query("ada", "Who pays?", ["a"], at=NOW)
        recorder.record_query("bob", "Who pays?", ["c"], at=NOW)
        recorder.record_query("ada", "  Who\npays? ", ["b", *map(str, range(99))], at=NOW + timedelta(hours=1))
    ((of_bob, of_ada),) = questions.batches
    assert (of_ada.question, of_ada.asked_at) == ("Who pays?", NOW + timedelta(hours=1))
    assert of_ada.memory_ids == ("b", *map(str, range(39)))
    assert (of_bob.agent_id, of_bob.memory_ids) == ("bob", ("c",))
    assert sink.counts() == {("ada", "a"): 1}


@pytest.mark.parametrize(
    ("question", "shown"),
    [("x" * 1_001, ["a"]), (" ", ["a"]), ("Who \x1b[2J pays?", ["a"]), ("Who\0", ["a"]), ("Who pays?", [])],
    ids=["too long", "blank", "control characters", "NUL", "nothing was shown"],
)
def test_what_is_no_question_is_not_kept(question: str, shown: list[str]) -> None:
    questions = Questions()
    with BufferedUseRecorder(Sink(), send_queries=questions, flush_seconds=_NEVER) as recorder:
        recorder.record_query("ada", question, shown, at=NOW)
        recorder.record_query("ada", "x" * 1_000, ["a"], at=NOW)
    assert questions.kept == ["x" * 1_000]


def test_without_a_way_to_send_them_no_question_is_kept() -> None:
    recorder = BufferedUseRecorder(Sink())
    recorder.record_query("ada", "Who pays?", ["a"], at=NOW)
    assert not recorder._queries
    assert recorder._thread is None


def test_questions_wait_for_the_broker_the_newest_ones(caplog: pytest.LogCaptureFixture) -> None:
    questions = Questions(error=MemoryConnectionError("the broker is away"))
    with BufferedUseRecorder(Sink(), send_queries=questions, flush_seconds=0.01) as recorder:
        every = [f"question {n}" for n in range(MAX_QUESTIONS_WAITING + 10)]
        for question in every:
            recorder.record_query("ada", question, ["a"], at=NOW)
        wait_until(lambda: questions.tries >= 2, what="a second try")
        questions.error = None
    assert questions.kept == every[10:]
    assert max(map(len, questions.batches)) == MAX_QUERIES
    assert {each.message for each in caplog.records} == {"memory.query.deferred"}
    assert "question 1" not in caplog.text


def test_a_question_that_is_asked_again_while_it_is_sent_is_sent_again() -> None:
    shown: list[tuple[str, ...]] = []

    def send(queries: Sequence[RecordedQuery], /) -> None:
        shown.extend(each.memory_ids for each in queries)
        if len(shown) == 1:
            recorder.record_query("ada", "Who pays?", ["b"], at=NOW)

    with BufferedUseRecorder(Sink(), send_queries=send, flush_seconds=0.01) as recorder:
        recorder.record_query("ada", "Who pays?", ["a"], at=NOW)
        wait_until(lambda: len(shown) == 2, what="the question again")
    assert shown == [("a",), ("b",)]

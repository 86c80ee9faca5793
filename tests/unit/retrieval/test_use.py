"""The recorder of uses: sums, batches, retries while the broker is away, and a bound on its memory."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from support.memories import NOW
from support.running_stack import wait_until

from memcore.errors import MemoryConnectionError, MemoryInputError
from memcore.jobs import Use
from memcore.retrieval.usage import BufferedUseRecorder, UseRecorder

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

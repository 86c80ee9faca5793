"""Records which memories agents are shown, and the questions: in the engine, sent in batches, off the hot path."""

import logging
import threading
from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Protocol, Self, runtime_checkable

from pydantic import ValidationError

from memcore import ids
from memcore.errors import MemoryInputError
from memcore.jobs import MAX_QUERIES, MAX_QUESTION_CHARS, MAX_SHOWN, MAX_USES, RecordedQuery, Use
from memcore.telemetry.events import Event

#: Memories that wait before they are sent, unless the time comes first: a job of 70 KB.
FLUSH_COUNT = 512

#: Longest time that a use waits, in seconds: its readers, the runs, look once an hour at most.
FLUSH_SECONDS = 30.0

#: Most memories that wait while the broker is away, about 2 MB.
MAX_WAITING = 8_192

#: Most questions that wait while the broker is away, about 1 MB; the newest ones.
MAX_QUESTIONS_WAITING = 256

#: Longest wait for the last batch when the recorder is closed, in seconds.
CLOSE_SECONDS = 10.0

_log = logging.getLogger(__name__)


@runtime_checkable
class UseRecorder(Protocol):
    """Counts every use of a memory; it must return at once and never block."""

    def record(self, agent_id: str, memory_ids: Sequence[str], *, at: datetime) -> None:
        """Count one use of each of these memories, which the agent was shown at this time."""
        ...


@runtime_checkable
class QueryRecorder(Protocol):
    """Keeps the questions that agents ask; it must return at once and never block."""

    def record_query(self, agent_id: str, question: str, memory_ids: Sequence[str], *, at: datetime) -> None:
        """Keep a question of an agent that was asked at this time, with the memories shown, the best ones first."""
        ...


class SendUses(Protocol):
    """Sends a batch, as ``MemoryClient.record_use`` does; sending a batch again under its id must do no harm."""

    def __call__(self, uses: Sequence[Use], /, *, batch_id: str) -> object:
        """Send the batch, or raise."""
        ...


class SendQueries(Protocol):
    """Sends questions, as ``MemoryClient.record_queries`` does; sending them again must do no harm."""

    def __call__(self, queries: Sequence[RecordedQuery], /) -> object:
        """Send them, or raise."""
        ...


class BufferedUseRecorder:
    """Sums up uses and sends them from a thread of its own; close it, so that the last ones are not lost.

    A batch that cannot be sent is kept under its id and sent again later; later uses are summed up meanwhile, up to
    ``max_waiting``; further ones are not counted, and an event says how many. A batch is sent as soon as
    ``flush_count`` memories wait (1 to 1,024), and at the latest after ``flush_seconds``. Thread-safe. The thread
    starts with the first use; make the recorder after a fork. Raises MemoryInputError for a limit out of its range.

    With ``send_queries`` it keeps questions too, and sends them at the same times. While they wait, those over 256 are
    dropped, the oldest first.
    """

    def __init__(
        self,
        send: SendUses,
        *,
        send_queries: SendQueries | None = None,
        flush_count: int = FLUSH_COUNT,
        flush_seconds: float = FLUSH_SECONDS,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        if not 1 <= flush_count <= MAX_USES:
            raise MemoryInputError("flush_count", f"must be from 1 to {MAX_USES}, not {flush_count}")
        if not 0.0 < flush_seconds < threading.TIMEOUT_MAX:
            raise MemoryInputError("flush_seconds", f"must be above 0, not {flush_seconds}")
        if max_waiting < flush_count:
            raise MemoryInputError("max_waiting", f"must be flush_count, {flush_count}, at least, not {max_waiting}")
        self._send = send
        self._send_queries = send_queries
        self._flush_count = flush_count
        self._flush_seconds = flush_seconds
        self._max_waiting = max_waiting
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], tuple[int, datetime]] = {}
        self._queries: dict[tuple[str, str], RecordedQuery] = {}
        self._dropped = 0
        #: The id and the uses of the batch that failed.
        self._unsent: tuple[str, tuple[Use, ...]] | None = None
        self._wake = threading.Event()
        self._closing = False
        self._thread: threading.Thread | None = None

    def record(self, agent_id: str, memory_ids: Sequence[str], *, at: datetime) -> None:
        """Count one use of each of these memories; returns at once. After close nothing more is counted."""
        with self._lock:
            if self._closing:
                return
            for memory_id in memory_ids:
                key = agent_id, memory_id
                known, last = self._waiting.get(key, (0, at))
                if known or len(self._waiting) < self._max_waiting:
                    self._waiting[key] = known + 1, max(last, at)
                else:
                    self._dropped += 1
            self._start()
            if len(self._waiting) >= self._flush_count:
                self._wake.set()

    def record_query(self, agent_id: str, question: str, memory_ids: Sequence[str], *, at: datetime) -> None:
        """Keep a question; returns at once.

        One of over 1,000 characters, with control characters, or for which nothing was shown is not kept.
        """
        if self._send_queries is None or not memory_ids or len(question) > MAX_QUESTION_CHARS:
            return
        try:
            query = RecordedQuery(
                agent_id=agent_id,
                question=" ".join(question.split()),
                memory_ids=tuple(memory_ids[:MAX_SHOWN]),
                asked_at=at,
            )
        except ValidationError:
            return
        with self._lock:
            if self._closing:
                return
            # Behind the others: the first ones of the dictionary are the oldest.
            self._queries.pop((agent_id, query.question), None)
            self._queries[agent_id, query.question] = query
            if len(self._queries) > MAX_QUESTIONS_WAITING:
                del self._queries[next(iter(self._queries))]
            self._start()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="memtend-uses", daemon=True)
            self._thread.start()

    def close(self, *, timeout_seconds: float = CLOSE_SECONDS) -> None:
        """Send what waits, once, and stop; what cannot be sent in time is lost, and an event says how much."""
        with self._lock:
            self._closing = True
            thread = self._thread
        self._wake.set()
        if thread is not None:
            thread.join(timeout_seconds)
        with self._lock:
            left = len(self._waiting) + (len(self._unsent[1]) if self._unsent else 0)
        if left:
            _log.warning(Event.MEMORY_USE_DROPPED, extra={"memories": left})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._wake.wait(self._flush_seconds)
            self._wake.clear()
            # Read before the last look at what waits: nothing is counted once it is set.
            is_last = self._closing
            self._forward()

    def _forward(self) -> None:
        with self._lock:
            dropped, self._dropped = self._dropped, 0
        if dropped:
            _log.warning(Event.MEMORY_USE_DROPPED, extra={"memories": dropped})
        while (batch := self._next()) is not None:
            batch_id, uses = batch
            try:
                self._send(uses, batch_id=batch_id)
            except Exception as error:  # noqa: BLE001  # nobody waits for this thread, and the next round tries again
                extra = {"memories": len(uses), "error": type(error).__name__}
                _log.warning(Event.MEMORY_USE_DEFERRED, extra=extra)
                return
            with self._lock:
                self._unsent = None
        self._forward_queries()

    def _forward_queries(self) -> None:
        while self._send_queries is not None:
            with self._lock:
                batch = list(islice(self._queries.items(), MAX_QUERIES))
            if not batch:
                return
            try:
                self._send_queries([query for _, query in batch])
            except Exception as error:  # noqa: BLE001  # as above
                extra = {"questions": len(batch), "error": type(error).__name__}
                _log.warning(Event.MEMORY_QUERY_DEFERRED, extra=extra)
                return
            with self._lock:
                for key, query in batch:
                    # Asked again while it was sent: the newer one is still to be sent.
                    if self._queries.get(key) is query:
                        del self._queries[key]

    def _next(self) -> tuple[str, tuple[Use, ...]] | None:
        """Return the batch to send: the one that failed, under its id, or else the next."""
        with self._lock:
            if self._unsent is None and self._waiting:
                taken = [(key, self._waiting.pop(key)) for key in list(islice(self._waiting, self._flush_count))]
                # Not validated here: the store knows both ids already, and the batch's reader validates them.
                uses = tuple(
                    Use.model_construct(agent_id=agent_id, memory_id=memory_id, uses=count, last_used_at=at)
                    for (agent_id, memory_id), (count, at) in taken
                )
                self._unsent = ids.new_id(), uses
            return self._unsent

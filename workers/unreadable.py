"""Turns unreadable messages into dead letters; only then is each removed from the broker."""

import json
import logging
import time
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache, partial
from typing import Any

from celery.app.task import Context
from celery.bootsteps import StartStopStep

from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryInputError
from memcore.jobs import MAX_MESSAGE_BYTES, Queue
from memcore.ledger.dead_letters import NewDeadLetter
from memcore.ledger.ledger import Ledger
from memcore.telemetry.events import Event
from workers.progress import AWAY, AWAY_SECONDS
from workers.transport.channel import UnreadableMessage, broker_errors

#: Seconds between two checks of the messages that the transport set aside; an empty list costs nothing.
POLL_INTERVAL_SECONDS = 1.0

#: Seconds before a ledger that did not answer is asked again; until then the broker keeps the messages.
RETRY_SECONDS = 15.0

#: Dead letters written before the event loop runs again.
BATCH = 32

#: The queue of a dead letter whose message names none of ours.
_NO_QUEUE = "unknown"

_QUEUES = frozenset(map(str, Queue))

log = logging.getLogger("memtend.jobs")


class UnreadableStep(StartStopStep):  # type: ignore[misc]  # celery is untyped
    """Consumer step that writes the dead letters of one worker's unreadable messages.

    A message stays on the broker, unacknowledged or on the transport's list of unreadable messages, until its dead
    letter is committed: while the ledger is down it waits there, and the next worker takes over from one that dies.
    """

    requires = ("celery.worker.consumer.tasks:Tasks",)

    #: Set by :func:`unreadable_step`. The ledger is opened for each batch: children must not inherit a connection.
    open_ledger: Callable[[], Ledger]
    company: str
    on_refused: Callable[[Any, str], None]

    def __init__(self, parent: Any, **options: Any) -> None:
        """Follow Celery's signature: ``parent`` is the consumer, which adds messages here."""
        super().__init__(parent, **options)
        parent.unreadable = self
        self._parent = parent
        self._timer: Any = None
        self._is_resting = False
        self._waiting: deque[tuple[Any, str]] = deque()

    def start(self, parent: Any) -> None:
        """Start checking the list."""
        self._check_again(parent, POLL_INTERVAL_SECONDS)

    def stop(self, parent: Any) -> None:
        """Stop checking; what waits is redelivered over the next connection."""
        del parent
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def add(self, message: Any, reason: str) -> None:
        """Make a message a dead letter as soon as the event loop is free; ``reason`` quotes nothing of it."""
        self._waiting.append((message, reason))
        if not self._is_resting:
            self._parent.call_soon(self._write)

    def _check_once(self, parent: Any) -> None:
        self._is_resting = False
        self._write()
        self._check_again(parent, RETRY_SECONDS if self._is_resting else POLL_INTERVAL_SECONDS)

    def _check_again(self, parent: Any, seconds: float) -> None:
        self._timer = parent.timer.call_after(seconds, self._check_once, (parent,))

    def _write(self) -> None:
        if self._is_resting or self._parent.task_consumer is None:
            return
        try:
            is_more = self._write_batch(self._parent.task_consumer.channel)
        except broker_errors(self._parent):
            raise
        except Exception as error:  # noqa: BLE001  # no fault of ours may cost the message, or the worker
            self._is_resting = True
            log.warning(Event.MESSAGE_UNREADABLE_WAITS, extra={"error": type(error).__name__})
        else:
            if is_more:
                self._parent.call_soon(self._write)

    def _write_batch(self, channel: Any) -> bool:
        """Write a batch of dead letters and return whether there are more; what the ledger does not take stays."""
        listed = getattr(channel, "unreadable", None)
        if not self._waiting and not (listed and listed.may_wait):
            return False
        with closing(self.open_ledger()) as ledger:
            for _ in range(BATCH):
                if self._waiting:
                    message, reason = self._waiting[0]
                    self._put(ledger, _pieces(message), queue=_queue_of(message), reason=reason)
                    self.on_refused(message, reason)
                    self._waiting.popleft()
                    _acknowledge(message)
                elif listed and (found := listed.oldest()):
                    self._move(ledger, found)
                else:
                    return False
        return True

    def _move(self, ledger: Ledger, found: UnreadableMessage) -> None:
        is_large = found.size > MAX_MESSAGE_BYTES
        reason = f"has {found.size} bytes; the limit is {MAX_MESSAGE_BYTES}" if is_large else "is no message of ours"
        try:
            self._put(ledger, found.pieces(), queue=found.queue, reason=f"message: {reason}")
        except RuntimeError:
            return  # another worker was faster
        found.remove()

    def _put(self, ledger: Ledger, content: Iterator[bytes], *, queue: str, reason: str) -> None:
        known = queue if queue in _QUEUES else _NO_QUEUE
        letter = NewDeadLetter.unreadable(content, company=self.company, queue=known, reason=reason)
        ledger.dead_letters.put(letter)
        log.error(Event.MESSAGE_UNREADABLE, extra={"job_id": letter.job_id, "queue": known, "reason": reason})


def unreadable_step(
    urls: LedgerUrls, *, company: str, on_refused: Callable[[Any, str], None] = lambda _message, _reason: None
) -> type[UnreadableStep]:
    """Return the step for the workers of a company; ``on_refused`` gets a message whose dead letter is written."""
    parts = {"open_ledger": staticmethod(partial(Ledger.open, urls)), "on_refused": staticmethod(on_refused)}
    return type("Unreadable", (UnreadableStep,), {"company": company, **parts})


class Refusals:
    """Writes the results of refused messages, so that nobody waits for them for ever; for one thread.

    ``results`` is asked for the result store with the first message. While that is away, messages are refused without
    a result: the event loop must not wait for each.
    """

    def __init__(self, results: Callable[[], Any], *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._results = cache(results)
        self._monotonic = monotonic
        self._quiet_until = float("-inf")

    def write(self, message: Any, reason: str) -> None:
        """Write a failure with our error as the result of the job, and of the chord or chain that it is a part of."""
        headers = message.headers if isinstance(message.headers, dict) else {}
        job_id = headers.get("id")
        if not isinstance(job_id, str) or headers.get("ignore_result") or self._monotonic() < self._quiet_until:
            return
        field, _, problem = reason.partition(": ")
        try:
            request = Context(id=job_id, group=headers.get("group"), **_canvas_of(message))
            error = MemoryInputError(field, problem)
            self._results().mark_as_failure(job_id, error, request=request, call_errbacks=False)
        except Exception as error:  # noqa: BLE001  # its dead letter is written; whatever a message holds, the worker goes on
            log.warning(Event.RESULT_UNWRITTEN, extra={"job_id": job_id, "error": type(error).__name__})
            if isinstance(error, AWAY):
                self._quiet_until = self._monotonic() + AWAY_SECONDS


def _canvas_of(message: Any) -> dict[str, Any]:
    """Return the chord and the chain of a message; nothing where its body cannot be read."""
    try:
        _, _, embed = message.payload
        return {name: embed.get(name) for name in ("chord", "chain")}
    except Exception:  # noqa: BLE001  # decoders raise whatever they like
        return {}


def _pieces(message: Any) -> Iterator[bytes]:
    body = getattr(message, "body", None) or b""
    # Of kombu's own transports a message is one piece of JSON, and a broken part of it is nowhere else.
    raw = getattr(message, "_raw", None)
    whole = raw if isinstance(raw, dict) else {
        "headers": getattr(message, "headers", None),
        "content-type": getattr(message, "content_type", None),
        "content-encoding": getattr(message, "content_encoding", None),
    }  # fmt: skip
    try:
        described = json.dumps(_unmarked(whole), default=_plain).encode()
    except (TypeError, ValueError, RecursionError):
        raw, described = None, b"{}"
    yield described
    if raw is None:
        yield b"\n"
        yield body.encode(errors="surrogatepass") if isinstance(body, str) else bytes(body)


def _unmarked(tree: Any) -> Any:
    # Without the marks of a redelivery: a redelivered message must get the same dead letter.
    if not isinstance(tree, dict):
        return tree
    return {
        key: _unmarked(value) if key in {"headers", "properties", "delivery_info"} else value
        for key, value in tree.items()
        if key != "redelivered"
    }


def _plain(value: object) -> str:
    return b64encode(value).decode() if isinstance(value, bytes) else type(value).__name__


def _queue_of(message: Any) -> str:
    info = getattr(message, "delivery_info", None)
    return str(info.get("routing_key")) if isinstance(info, dict) else _NO_QUEUE


def _acknowledge(message: Any) -> None:
    try:
        message.channel.basic_ack(message.delivery_tag)
    except Exception as error:  # noqa: BLE001  # its connection is gone: it is redelivered and gets the same dead letter
        log.info(Event.MESSAGE_UNREADABLE_UNACKNOWLEDGED, extra={"error": type(error).__name__})

"""The Celery consumer: requeues jobs of a newer release, and sets unreadable messages aside.

Celery's own consumer drops both and logs their bodies, memories included; or it crashes.
"""

import json
import logging
import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Never

from celery.app.task import Context
from celery.events.dispatcher import EventDispatcher
from celery.utils.time import maybe_iso8601, maybe_make_aware
from celery.worker import state
from celery.worker.consumer import Consumer
from kombu import compression
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from memcore.errors import MemoryInputError
from memcore.jobs import MAX_MESSAGE_BYTES
from memcore.models.memory import MAX_KEY_CHARS, NoNul
from memcore.telemetry.events import Event
from workers import deliveries
from workers.broker import RECONNECTING
from workers.celery_task import NEWER_DELAY
from workers.transport.channel import broker_errors

# Celery trusts its messages: a time limit that is text, or a body with two elements, raises and ends the whole worker.
# So each message is first validated here against what our client writes; nothing that reads it later can raise.

#: Longest time limit that a message may carry, in seconds (30 days); our jobs' limits are far below.
_LONGEST_SECONDS = 2_592_000

#: How far ahead a message may be scheduled: a worker holds it until then, and ours wait at most a minute.
_FURTHEST_AHEAD = timedelta(days=1)

#: Names that headers must not have: Celery makes attributes of all of them, and these are methods.
_METHODS = frozenset(name for name in dir(Context) if callable(getattr(Context, name)))


def _planned(text: str) -> str:
    try:
        # Read as Celery reads it, and then converted, which overflows at both ends of the calendar.
        read: Any = maybe_iso8601(text)
        at: datetime = maybe_make_aware(read, UTC).astimezone(UTC)
    except (AttributeError, OverflowError, TypeError, ValueError):
        # The parser's own words quote what it could not read.
        raise ValueError("must be a time with a time zone") from None
    if at - datetime.now(UTC) > _FURTHEST_AHEAD:
        raise ValueError("lies more than a day ahead")
    return text


def _storable(text: str) -> str:
    # Half a surrogate pair comes through JSON, and fails where a database would keep it: the job would be lost.
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("must be valid Unicode text") from None
    return text


def _empty(value: Any) -> Any:
    if value:
        raise ValueError("must be empty")
    return value


#: How much deeper than here a payload must be writable: a worker's child may be deeper in its calls.
_SPARE_DEPTH = 400


def _writable(value: dict[str, Any]) -> dict[str, Any]:
    deeper: Any = value
    for _ in range(_SPARE_DEPTH):
        deeper = [deeper]
    try:
        json.dumps(deeper)
    except RecursionError:
        raise ValueError("is nested too deep") from None
    return value


Text = Annotated[str, NoNul, AfterValidator(_storable)]
Given = Text | Annotated[dict[str, Any], AfterValidator(_writable)]
Name = Annotated[Text, StringConstraints(min_length=1, max_length=MAX_KEY_CHARS, pattern=r"^[^\x00-\x1f\x7f]+$")]
Seconds = Annotated[float, Field(ge=0, le=_LONGEST_SECONDS)]
Planned = Annotated[Text, AfterValidator(_planned)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Nothing = Annotated[Any, AfterValidator(_empty)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False, hide_input_in_errors=True)


class _Headers(_Part):
    """The headers that Celery, or a job of ours, reads; those of tracing libraries may stand beside them."""

    task: Name
    id: Name
    retries: Count = 0
    timelimit: Annotated[list[Seconds | None], Field(min_length=2, max_length=2)] | None = None
    eta: Planned | None = None
    expires: Planned | None = None
    root_id: Text | None = None
    parent_id: Text | None = None
    group: Text | None = None
    group_index: Count | None = None
    shadow: Text | None = None
    lang: Text | None = None
    origin: Text | None = None
    argsrepr: Text | None = None
    kwargsrepr: Text | None = None
    ignore_result: bool | None = None
    replaced_task_nesting: Count = 0
    stamped_headers: Nothing = None
    stamps: Nothing = None
    headers: dict[str, Any] | None = None
    redelivered: bool = False


class _DeliveryInfo(_Part):
    exchange: Text | None = None
    routing_key: Text | None = None
    redelivered: bool | None = False


class _Properties(_Part):
    correlation_id: Text | None = None
    reply_to: Text | None = None
    priority: int | None = None


class _Body(_Part):
    """The arguments of a job: one payload as text or object, and none of Celery's callbacks, chords and chains."""

    arguments: Annotated[list[Given], Field(max_length=1)]
    named: dict[str, Given]
    embed: dict[str, Any]


class _Envelope(_Part):
    headers: _Headers
    properties: _Properties
    delivery_info: _DeliveryInfo
    content_type: Literal["application/json"]
    content_encoding: Literal["utf-8", "UTF-8"]


def refuse_compressed() -> None:
    """Disable kombu's decompression in this process: ours are not compressed, and one may expand to gigabytes."""
    for content_type in compression.encoders():
        encode, _ = compression.get_encoder(content_type)
        compression.register(encode, _refuse, content_type)


def check_message(message: Any, *, may_expire: bool) -> None:
    """Validate kombu's message as a job of ours; only one whose job comes again by itself may expire.

    Raises MemoryInputError, naming the field and the limit, without the message's text.
    """
    try:
        _check(message, may_expire=may_expire)
    except MemoryInputError:
        raise
    except ValidationError as error:
        raise MemoryInputError.of(error) from None
    except Exception as error:  # noqa: BLE001  # decoders raise whatever they like, and quote what they decode
        raise MemoryInputError("body", f"cannot be decoded: {type(error).__name__}") from None


def hide_arguments(headers: dict[str, Any]) -> None:
    """Remove arguments that another client quotes for monitoring: memories are in them; ours says how many they are."""
    for name in ("argsrepr", "kwargsrepr"):
        if str(headers.get(name) or "").startswith(("(", "[", "{", "'", '"')):
            headers[name] = "..."


def _refuse(_body: bytes) -> Never:
    raise ValueError("compressed")


def _check(message: Any, *, may_expire: bool) -> None:
    size = len(message.body or b"")
    if size > MAX_MESSAGE_BYTES:
        raise MemoryInputError("body", f"has {size} bytes; the limit is {MAX_MESSAGE_BYTES}")
    envelope = _Envelope.model_validate(message, from_attributes=True)
    if envelope.headers.expires is not None and not may_expire:
        raise MemoryInputError("headers.expires", "must not be set: this job comes but once")
    if _METHODS & message.headers.keys():
        raise MemoryInputError("headers", "must not have a name of Celery's own")
    payload = message.payload
    if not isinstance(payload, list) or len(payload) != len(_Body.model_fields):
        raise MemoryInputError("body", "must be a list of arguments, named arguments and callbacks")
    try:
        body = _Body.model_validate(dict(zip(_Body.model_fields, payload, strict=True)))
    except ValidationError:
        # Which one it is would quote a name out of the message.
        raise MemoryInputError("body", "must call a job with one payload") from None
    if body.named.keys() - {"payload"} or (body.arguments and body.named):
        raise MemoryInputError("body", "must call a job with one payload")
    if any(body.embed.values()) or _METHODS & body.embed.keys():
        raise MemoryInputError("body", "must bring no callbacks, chords or chains")


#: Seconds for which events of jobs wait for others, so that one message takes many: nobody watches them more closely.
EVENT_SECONDS = 0.5

#: The name of a job of any release.
_OUR_NAME = re.compile(r"memory(\.[a-z_]+)+")

#: Errors of this process, not of a message: raised, so that the worker restarts and the message is redelivered.
_OWN_ERRORS = (MemoryError, RuntimeError, OSError)

log = logging.getLogger("memtend.jobs")


class LoopDispatcher(EventDispatcher):  # type: ignore[misc]  # Celery is untyped
    """Celery's dispatcher; events of jobs are sent by the event loop alone, however many wait.

    By default the thread that adds the 24th sends them all: it publishes, and awaits the broker's answer, on a
    connection that the loop reads. When one reads the other's answer, both wait for ever.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, buffer_limit=sys.maxsize)


class RequeueUnknownConsumer(Consumer):  # type: ignore[misc]  # Celery is untyped
    """Celery's consumer; no message is lost, and none ends the worker."""

    #: Seconds that this worker holds a job of an unknown name; requeued at once, it would come back at once.
    rest_seconds = NEWER_DELAY.total_seconds()

    #: Takes unreadable messages; set by workers.unreadable.
    unreadable: Any

    #: Called while it waits for its broker, each second; set by workers.lifecycle.
    on_alive: Any = staticmethod(lambda: None)

    #: What Celery gives every consumer.
    app: Any
    hub: Any
    task_consumer: Any

    _has_events = False

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Any:
        """Return the handler of each message; no content of a message makes it raise."""
        handle = super().create_task_handler(*args, **kwargs)
        errors_of_broker = broker_errors(self)
        # A new connection has a dispatcher of its own, and no timer of the one before is waited for.
        self._has_events = False
        deliveries.connected(self)

        def on_task_received(message: Any) -> None:
            try:
                self._check(message)
            except MemoryInputError as error:
                self.unreadable.add(message, str(error))
                return
            deliveries.mark(message.headers)
            try:
                handle(message)
            except errors_of_broker:
                raise
            except Exception as error:
                is_own = isinstance(error, _OWN_ERRORS) and not isinstance(error, RecursionError)
                if is_own or state.should_stop is not None or state.should_terminate is not None:
                    raise
                self.unreadable.add(message, f"message: cannot be handed to a job: {type(error).__name__}")

        return on_task_received

    def ensure_connected(self, conn: Any) -> Any:
        """Follow Celery's signature: connect soon after the broker is there, and show life until then."""
        ensure = conn.ensure_connection

        def ensure_connection(errback: Any, max_retries: Any, callback: Any) -> Any:
            def each_second() -> None:
                self.on_alive()
                callback()

            return ensure(errback, max_retries, callback=each_second, **RECONNECTING)

        conn.ensure_connection = ensure_connection
        try:
            return super().ensure_connected(conn)
        finally:
            del conn.ensure_connection

    def on_send_event_buffered(self) -> None:
        """Follow Celery's signature: an event waits to be sent; called in any thread."""
        if self.hub and not self._has_events:
            self._has_events = True
            # In the loop's own thread: its timer is not for others.
            self.hub.call_soon(self.hub.call_later, EVENT_SECONDS, self._send_events)

    def _send_events(self) -> None:
        # First: an event that comes meanwhile is sent now, or plans the next time.
        self._has_events = False
        self._flush_events()

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        """Follow Celery's signature; an unreadable broadcast is dropped."""
        if self.task_consumer is not None and message.channel is self.task_consumer.channel:
            self.unreadable.add(message, f"message: cannot be decoded: {type(exc).__name__}")
        else:
            log.warning(Event.BROADCAST_UNREADABLE, extra={"error": type(exc).__name__})

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:  # noqa: ARG002  # Celery's names
        """Follow Celery's signature; the body is not read."""
        self.unreadable.add(message, f"message: is no job: {type(exc).__name__}")

    def on_unknown_message(self, body: Any, message: Any) -> None:  # noqa: ARG002  # Celery's names
        """Follow Celery's signature; the body is not read."""
        self.unreadable.add(message, "message: names no job")

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:  # noqa: ARG002  # Celery's names
        """Requeue a job that only a newer release knows, after a delay; the body is not read."""
        log.warning(
            Event.JOB_UNKNOWN,
            extra={"job": message.headers["task"], "job_id": message.headers["id"], "error": type(exc).__name__},
        )
        timer: Any = self.timer
        timer.call_after(self.rest_seconds, self._give_back, (message,))

    def _check(self, message: Any) -> None:
        headers = message.headers if isinstance(message.headers, dict) else {}
        name = headers.get("task")
        task = self.app.tasks.get(name) if isinstance(name, str) else None
        check_message(message, may_expire=bool(getattr(task, "is_repeated", False)))
        hide_arguments(headers)
        if str(name).startswith("celery.") or (task is None and not _OUR_NAME.fullmatch(str(name))):
            raise MemoryInputError("headers.task", "is no job of ours")

    def _give_back(self, message: Any) -> None:
        # On a broken connection there is nothing to requeue: the broker redelivers the message by itself.
        message.reject_log_error(log, self.connection_errors, requeue=True)

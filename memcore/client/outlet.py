"""The way to the broker: jobs go out in chunks, one round trip each, and queues can be measured."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from amqp.exceptions import AMQPError
from celery import Celery
from celery.exceptions import CeleryError
from kombu.exceptions import KombuError
from kombu.transport.redis import Channel as RedisChannel
from redis.exceptions import RedisError

from memcore.client.posting import Posting
from memcore.client.template import Template
from memcore.errors import MemoryConnectionError, MemoryDiskFullError
from memcore.jobs.names import TaskName

#: Jobs in one round trip: more gain nothing (STACK, Broker: measured at 1,000), and hold up other clients.
CHUNK_JOBS = 1_000

#: Payload in one round trip, in bytes (4 MiB): what the broker must take in one piece.
CHUNK_BYTES = 4_194_304

#: How Redis and its like begin their answer when their log or their snapshot cannot be written.
_CANNOT_WRITE = "MISCONF"

_BROKER_ERRORS = (OSError, AMQPError, CeleryError, KombuError, RedisError)


class Outlet:
    """Publish jobs through a Celery app's connections; thread-safe, and safe to hand to a forked child.

    Args:
        app: whose broker and whose settings for messages.
    """

    def __init__(self, app: Celery) -> None:
        self._app = app
        # By what a message's fixed part depends on; a few entries, since queues are few.
        self._templates: dict[tuple[TaskName, str, bool], Template] = {}

    def publish(self, name: TaskName, postings: Iterable[Posting], *, track: bool) -> None:
        """Send the jobs in their order, one round trip a chunk on Redis and its like, one a job elsewhere.

        Raises:
            MemoryDiskFullError: the broker says that it cannot write.
            MemoryConnectionError: the broker did not take all of them. Those of earlier chunks are sent, and of this
                one perhaps too: sending a job again under its id does no harm.
        """
        try:
            with self._app.producer_pool.acquire(block=True) as producer:
                for chunk in chunks(postings):
                    if isinstance(producer.channel, RedisChannel):
                        self._push(producer, name, chunk, track=track)
                    else:
                        self._send(producer, name, chunk, track=track)
        except _BROKER_ERRORS as error:
            if str(error).startswith(_CANNOT_WRITE):
                msg = "the broker cannot write to its disk, and takes no jobs until it can: is that disk full?"
                raise MemoryDiskFullError(msg) from error
            msg = f"the broker did not take the job: {type(error).__name__}; is it running?"
            raise MemoryConnectionError(msg) from error

    def waiting(self, queue: str) -> int:
        """Return how many jobs wait on a queue; raises MemoryConnectionError."""
        try:
            with self._app.producer_pool.acquire(block=True) as producer:
                if isinstance(producer.channel, RedisChannel):
                    return int(self._ensured(producer, lambda: _length(_open_channel(producer), queue)))
                return _declared(producer.connection, queue)
        except _BROKER_ERRORS as error:
            msg = f"the broker does not say how full {queue} is: {type(error).__name__}; is it running?"
            raise MemoryConnectionError(msg) from error

    def _push(self, producer: Any, name: TaskName, chunk: Sequence[Posting], *, track: bool) -> None:
        by_queue: dict[str, list[str]] = {}
        for posting in chunk:
            template = self._template(producer, name, posting.queue, track=track)
            by_queue.setdefault(posting.queue, []).append(template.fill(posting))

        def push() -> None:
            with _open_channel(producer).conn_or_acquire() as client, client.pipeline(transaction=False) as pipeline:
                for queue, messages in by_queue.items():
                    pipeline.lpush(queue, *messages)
                pipeline.execute()

        self._ensured(producer, push)

    def _send(self, producer: Any, name: TaskName, chunk: Sequence[Posting], *, track: bool) -> None:
        for posting in chunk:
            self._app.send_task(
                str(name),
                args=(posting.payload,),
                task_id=posting.job_id,
                queue=posting.queue,
                argsrepr=posting.summary,
                kwargsrepr="",
                ignore_result=not track,
                producer=producer,
            )

    def _template(self, producer: Any, name: TaskName, queue: str, *, track: bool) -> Template:
        key = (name, queue, track)
        found = self._templates.get(key)
        if found is None:
            found = self._templates[key] = Template.of(self._app, producer.channel, name, queue=queue, track=track)
        return found

    def _ensured(self, producer: Any, step: Any) -> Any:
        # As kombu ensures its own publishing: the first try may find a connection that died while idle.
        policy = self._app.conf.task_publish_retry_policy
        return producer.connection.ensure(producer, step, **policy)()


def _open_channel(producer: Any) -> Any:
    # A broker that falls at the wrong moment leaves a closed channel with its producer, and kombu then dies of an
    # AttributeError; this error is one that it connects again after.
    if producer.channel.closed:
        msg = "the channel is closed"
        raise ConnectionResetError(msg)
    return producer.channel


def chunks(postings: Iterable[Posting]) -> Iterator[list[Posting]]:
    """Cut the postings into what one round trip carries; the order stays."""
    chunk: list[Posting] = []
    size = 0
    for posting in postings:
        # Characters stand for bytes here: JSON in a message is ASCII, and the limit is no promise.
        if chunk and (len(chunk) == CHUNK_JOBS or size + len(posting.payload) > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(posting)
        size += len(posting.payload)
    if chunk:
        yield chunk


def _length(channel: Any, queue: str) -> int:
    with channel.conn_or_acquire() as client:
        length: int = client.llen(queue)
    return length


def _declared(connection: Any, queue: str) -> int:
    # On a channel of its own: a queue that nobody has made yet costs the channel that asks for it.
    with connection.channel() as channel:
        try:
            return int(channel.queue_declare(queue, passive=True).message_count)
        except connection.channel_errors:
            return 0

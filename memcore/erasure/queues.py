"""The broker: jobs that name an agent, which its workers take and drop, and its file, which it writes anew."""

import json
import time
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator
from typing import Any

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from memcore.config.urls import Address
from memcore.errors import MemoryConnectionError
from memcore.jobs import ErasePayload, Queue
from memcore.ledger.erasure.decisions import ErasureScope
from memcore.ledger.erasure.shared_rows import payload_without

#: Messages read at a time: each has at most some megabytes.
_PAGE = 64

#: Seconds to wait for the broker's answer, and for the end of its rewrite.
_ANSWER_SECONDS, _REWRITE_SECONDS = 10, 120

#: Seconds between two looks at the rewrite.
_POLL_SECONDS = 0.1

#: Where the transport keeps messages that a worker holds, by the beginning, and those that none can read.
_HELD, _UNREADABLE = "unacked", "unreadable"


class BrokerMessages:
    """Looks through a Redis or Valkey broker; another one answers None, and the receipt says that nobody looked.

    It removes nothing: a worker takes each message and, while the erasure is open, drops what is of the agent. So none
    is lost that is of others.
    """

    def __init__(self, broker_url: str) -> None:
        address = Address.of(broker_url)
        is_plain = address.is_redis and not address.url.startswith("sentinel")
        self._url = address.url if is_plain else None

    def count(self, scope: ErasureScope) -> int | None:
        """Return how many messages name the agent, held by a worker or not. Raises MemoryConnectionError."""
        if self._url is None:
            return None
        return int(self._with(lambda client: sum(_names(raw, scope) for raw in _messages(client))))

    def rewrite(self) -> bool:
        """Let the broker write its file anew, and wait for it; False where it may not be asked to.

        Raises MemoryConnectionError.
        """
        return self._url is not None and bool(self._with(_rewrite))

    def _with(self, call: Callable[["Redis"], Any]) -> Any:
        assert self._url is not None  # noqa: S101  # asked before; this tells the type checker
        try:
            with Redis.from_url(
                self._url, socket_timeout=_ANSWER_SECONDS, socket_connect_timeout=_ANSWER_SECONDS
            ) as client:
                return call(client)
        except RedisError as error:
            raise MemoryConnectionError(f"the broker cannot be looked through ({type(error).__name__})") from error


def _messages(client: Any) -> Iterator[bytes]:
    for queue in map(str, Queue):
        for key in (queue, *_others(client, queue)):
            if client.type(key) != b"list":
                continue
            at = 0
            while page := client.lrange(key, at, at + _PAGE - 1):
                yield from page
                at += _PAGE
    # Of each group of workers one; beside it, of other types, an index and a lock.
    for key in client.scan_iter(match=f"{_HELD}*"):
        if client.type(key) == b"hash":
            for _, entry in client.hscan_iter(key):
                yield entry
    yield from client.lrange(_UNREADABLE, 0, -1)


def _others(client: Any, queue: str) -> Iterator[bytes]:
    # The lists of other priorities, and of messages sorted by company and agent.
    yield from client.scan_iter(match=f"{queue}\x06*")
    yield from client.scan_iter(match=f"{queue}:owners:*")


def _names(raw: bytes, scope: ErasureScope) -> bool:
    try:
        given = json.loads(raw)
        message = given[0] if isinstance(given, list) else given
        if message["headers"]["task"] == ErasePayload.task:
            return False
        (payload,), *_ = json.loads(b64decode(message["body"]))
    except (ValueError, KeyError, TypeError, IndexError, Base64Error):
        # Not one of our jobs: an owner's name, or what no worker can read, which becomes a dead letter.
        return False
    return isinstance(payload, str) and payload_without(payload, scope) != payload


def _rewrite(client: "Redis") -> bool:
    try:
        if client.config_get("appendonly").get("appendonly") != "yes":
            return False
        client.bgrewriteaof()
    except ResponseError as error:
        if "in progress" not in str(error):
            return False  # a server of somebody else's, who forbids it
        raise
    until = time.monotonic() + _REWRITE_SECONDS
    while time.monotonic() < until:
        state = client.info("persistence")
        if not state["aof_rewrite_in_progress"] and not state["aof_rewrite_scheduled"]:
            if state["aof_last_bgrewrite_status"] != "ok":
                raise MemoryConnectionError("the broker failed to write its file anew")
            return True
        time.sleep(_POLL_SECONDS)
    raise MemoryConnectionError("the broker has not written its file anew in time")

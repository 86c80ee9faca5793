"""Malformed messages: valid store jobs of the client, broken at random by a seed."""

import base64
import json
import random
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

from celery import Celery
from kombu.transport.redis import Channel

from memcore.client.envelopes import OutgoingJob
from memcore.client.publisher import MessageTemplate
from memcore.jobs import Queue, StorePayload

#: Stands in every payload here; only the broker and the ledger may hold it.
SECRET = "xylophonequartz"

#: Lists in lists: just what the server's parser takes, and more than any takes.
DEEP, DEEPEST = 990, 5_000

Tree = Any


def valid(job_id: str, *, queue: str = str(Queue.STORE_0), seconds: float = 0.0) -> str:
    """Return the message of one store job for ``poison_worker``, as the client writes it for Redis."""
    payload = json.dumps({"name": job_id, "poison": False, "seconds": seconds, "text": SECRET})
    return written(OutgoingJob(job_id=job_id, queue=queue, payload=payload, summary="1 memories"))


def written(outgoing_job: OutgoingJob) -> str:
    """Return the message of a store job as the client writes it for Redis."""
    return _template(outgoing_job.queue).fill(outgoing_job, sent_at=0.0)


@cache
def _template(queue: str) -> MessageTemplate:
    app = Celery(set_as_current=False, broker="redis://127.0.0.1:9")
    app.conf.update(task_serializer="json")
    # The two functions of a channel that write a message need no connection.
    channel = Channel.__new__(Channel)
    return MessageTemplate.of(app, channel, StorePayload.task, queue=queue, track=False)


class Mutator:
    """Break messages; every break is drawn from ``seed``."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._count = 0

    def messages(self, number: int) -> Iterator[bytes]:
        """Yield so many messages, no two the same, each of its own job ``m-NUMBER``."""
        seen: set[bytes] = set()
        while len(seen) < number:
            self._count += 1
            message = self._broken(f"m-{self._count}")
            if message not in seen:
                seen.add(message)
                yield message

    def _broken(self, job_id: str) -> bytes:
        message = json.loads(valid(job_id))
        message["properties"]["delivery_tag"] = job_id
        breaks = self._dice.choices((self._in_tree, self._in_body, self._in_encoding, self._in_bytes), (5, 4, 2, 2))
        for one in breaks * self._dice.choice((1, 1, 2)):
            broken = one(message)
            if isinstance(broken, bytes):
                return broken
        return json.dumps(message).encode()

    def _in_tree(self, message: Tree) -> None:
        self._break_somewhere(message)

    def _in_body(self, message: Tree) -> None:
        if not isinstance(message.get("body"), str):
            return
        try:
            body = json.loads(base64.b64decode(message["body"]))
        except ValueError:
            return
        if not isinstance(body, list) or len(body) != 3:
            return
        if self._dice.random() < 0.2:
            body = self._dice.choice((7, {}, [], body[:2], [*body, 1], {"args": body[0]}, None, "text", body[0]))
        elif self._dice.random() < 0.2:
            body[0] = self._dice.choice((["{}", "{}"], 5, [5], [None], [{}], ["not json " + SECRET], ["\ud800"], {}))
        else:
            self._break_somewhere(body)
        message["body"] = base64.b64encode(json.dumps(body).encode()).decode()

    def _in_encoding(self, message: Tree) -> None:
        words = ("", "base64", "zlib", "gzip", "utf-16", "hex", "rot13", "binary", "no such thing", None, 7, ["utf-8"])
        field = self._dice.choice(("content-type", "content-encoding", "body_encoding", "compression"))
        word = self._dice.choice((*words, "application/x-python-serialize", "application/data", "text/plain"))
        if field == "body_encoding" and isinstance(message.get("properties"), dict):
            message["properties"][field] = word
        elif field == "compression" and isinstance(message.get("headers"), dict):
            message["headers"][field] = word
        else:
            message[field] = word

    def _in_bytes(self, message: Tree) -> bytes:
        whole = json.dumps(message)
        place = self._dice.randrange(len(whole))
        start, end = whole[:place].encode(), whole[place:].encode()

        def retries(text: str) -> bytes:
            return whole.replace('"retries": 0', f'"retries": {text}', 1).encode()

        return self._dice.choice(
            (
                start,
                start + self._dice.randbytes(3) + end,
                self._dice.randbytes(self._dice.randrange(1, 200)),
                whole.encode("utf-16"),
                b"\xef\xbb\xbf" + whole.encode(),
                whole.replace('"headers": {', '"headers": {"id": "twice", ', 1).encode(),
                whole.replace("{", "[", 1).encode(),
                retries("NaN"),
                retries("9" * 5_000),
                retries("[" * DEEP + "]" * DEEP),
                retries("[" * DEEPEST + "]" * DEEPEST),
                b"",
            )
        )

    def _break_somewhere(self, tree: Tree) -> None:
        places = list(_places(tree))
        if not places:
            return
        place, key = self._dice.choice(places)
        deed = self._dice.randrange(6)
        if deed == 0:
            del place[key]
        elif deed == 1 and isinstance(place, dict):
            place[f"{key}{self._count}"] = place.pop(key)
        elif deed == 2 and isinstance(place, dict):
            place[self._dice.choice(("get", "update", "headers", "x", "", "args", "kwargs"))] = self._value()
        else:
            # A name that a newer release might know would wait for that release.
            place[key] = self._value()

    def _value(self) -> Tree:
        values: tuple[Tree, ...] = (
            None, True, False, 0, -1, 1, -5.5, 2**63, 10**300, float("nan"), float("inf"), "", " ", "x", "\ud800",
            "a\0b", "\n\x1b[31m", "9" * 5_000, [], {}, [[]], [None, None], [1, 2], ["a", "b"], {"a": 1},
            {"exchange": 5},
            f"{SECRET} {self._count}", [-1, -1], ["1", "2"], [1e308, None],
            "2001-01-01T00:00:00", "0001-01-01T00:00:00+14:00",
            "9999-12-31T23:59:59-12:00", "celery.backend_cleanup", {"__type__": "datetime", "__value__": "x"},
            cast("Tree", json.loads("[" * 400 + "]" * 400)), {f"key {number}": number for number in range(50)},
        )  # fmt: skip
        return self._dice.choice(values)


def _places(tree: Tree) -> Iterator[tuple[Any, Any]]:
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(inner):
        yield tree, key
        yield from _places(value)

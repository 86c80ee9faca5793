"""A message cut open where jobs differ: Celery and kombu take a millisecond to build one, filling it in a fiftieth."""

import json
from base64 import b64encode
from typing import Any, Self
from uuid import uuid4

from celery import Celery
from kombu.serialization import dumps as serialize
from kombu.utils.json import dumps

from memcore.client.posting import Posting
from memcore.jobs.names import TaskName

#: Stand in the cut message until it is filled in; no text of Celery's holds words like these.
_JOB, _SUMMARY, _TAG, _BODY = ("memtend<job>", "memtend<summary>", "memtend<tag>", "memtend<body>")


class Template:
    """The message of one task on one queue, as Celery and kombu would write it, with gaps for what a job brings.

    Build it with :meth:`of`; it is bound to no connection and may be used by many threads.
    """

    def __init__(self, message: str, body: tuple[str, str]) -> None:
        self._pieces = tuple(_cut(message))
        self._body = body

    @classmethod
    def of(cls, app: Celery, channel: Any, name: TaskName, *, queue: str, track: bool) -> Self:
        """Let Celery and kombu write the message of a task once.

        Args:
            app: whose settings say how tasks look.
            channel: a virtual channel of kombu's, such as Redis's.
            name: the task.
            queue: where its jobs go.
            track: whether the outcome is kept.
        """
        task: Any = app.amqp.create_task_message(
            _JOB, str(name), args=(_BODY,), argsrepr=_SUMMARY, kwargsrepr="", ignore_result=not track
        )
        text: Any
        content_type, content_encoding, text = serialize(task.body, "json")
        message = channel.prepare_message(
            "",
            content_type=content_type,
            content_encoding=content_encoding,
            headers=task.headers,
            properties={**task.properties, "delivery_mode": app.conf.task_default_delivery_mode},
            priority=0,
        )
        channel._inplace_augment_message(message, "", queue)  # noqa: SLF001  # kombu's only way to a whole message; a test compares the two
        message["body"] = _BODY
        message["properties"]["delivery_tag"] = _TAG
        before, after = text.split(json.dumps(_BODY))
        return cls(dumps(message), (before, after))

    def fill(self, posting: Posting) -> str:
        """Return the message of one job."""
        before, after = self._body
        body = f"{before}{json.dumps(posting.payload)}{after}"
        values = {
            _JOB: _inside(posting.job_id),
            _SUMMARY: _inside(posting.summary),
            _TAG: str(uuid4()),
            _BODY: b64encode(body.encode()).decode("ascii"),
        }
        return "".join([values.get(piece, piece) for piece in self._pieces])


def _cut(message: str) -> list[str]:
    pieces = [message]
    for mark in (_JOB, _SUMMARY, _TAG, _BODY):
        parted: list[str] = []
        for piece in pieces:
            first, *others = piece.split(mark)
            parted += [first, *(part for other in others for part in (mark, other))]
        pieces = parted
    return pieces


def _inside(text: str) -> str:
    # As it stands between the quotes of a JSON string.
    return json.dumps(text)[1:-1]

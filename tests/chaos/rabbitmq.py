"""A RabbitMQ of this machine as the run's broker: a virtual host of its own, whose connections are closed now and then.

It needs ``rabbitmqctl``, and the right to use it.
"""

import json
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from chaos.fault_thread import FaultThread
from sqlalchemy.engine import make_url

#: Where RabbitMQ listens when nothing else is said, and the user that it makes for this machine alone.
_URL = "amqp://guest:guest@127.0.0.1:5672"

#: Mean pause between two times that all connections are closed, in seconds.
_PAUSE_SECONDS = 8.0


@contextmanager
def rabbitmq_broker() -> Iterator[str]:
    """Make a virtual host, yield its URL, and delete it."""
    vhost = f"memtend-chaos-{uuid4().hex[:8]}"
    _ctl("add_vhost", vhost)
    try:
        _ctl("set_permissions", "--vhost", vhost, "guest", ".*", ".*", ".*")
        yield f"{_URL}/{vhost}"
    finally:
        _ctl("delete_vhost", vhost)


def messages_of(url: str) -> tuple[int, int]:
    """Return how many messages wait on the queues of a virtual host, and how many workers have in hand."""
    columns = ("messages_ready", "messages_unacknowledged")
    rows = json.loads(_ctl("list_queues", "--vhost", _vhost_of(url), "--formatter", "json", "name", *columns))
    # Workers have queues of their own, for events and for what people ask them.
    ours = [row for row in rows if str(row["name"]).startswith("memory.")]
    ready, in_hand = (sum(int(row[column]) for row in ours) for column in columns)
    return ready, in_hand


class BrokerCutter(FaultThread):
    """Close all connections of the virtual host again and again until the chaos run is over.

    Attributes:
        cuts: how often.
    """

    def __init__(self, url: str, *, dice: random.Random) -> None:
        super().__init__()
        self.cuts = 0
        self._vhost = _vhost_of(url)
        self._dice = dice

    def work(self) -> None:
        """Pause, and close."""
        while not self.is_over.wait(self._dice.uniform(0.0, 2 * _PAUSE_SECONDS)):
            _ctl("close_all_connections", "--vhost", self._vhost, "chaos")
            self.cuts += 1


def _vhost_of(url: str) -> str:
    return make_url(url).database or "/"


def _ctl(*words: str) -> str:
    command = ["rabbitmqctl", "--quiet", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout

"""What a chaos run's stack does differently, without a switch in the product: a file that Python imports before anything else.

It adds a job that kills the process that runs it, as no job of memtend can; it puts the stack's tables into PostgreSQL
and its jobs on RabbitMQ where the chaos run has them; and for comparison it takes the one function out that turns the broker's URL into ours, so that
kombu's own transport is used.
"""  # noqa: E501  # one sentence

import os
from pathlib import Path

#: The job that kills its worker.
KILLER = "chaos.killer"

_POISON = """\
import os, signal
from datetime import timedelta
import tasks.store
from memcore.jobs import BasePayload, Queue
from tasks.job import Job, Limits

class KillPayload(BasePayload, task="chaos.killer", queue=Queue.STORE):
    pass

def kill(_payload, _context):
    os.kill(os.getpid(), signal.SIGKILL)

limits = Limits(soft=timedelta(seconds=20), hard=timedelta(seconds=25), attempts=3)
tasks.store.kill = Job(payload=KillPayload, limits=limits, run=kill)
"""

_SERVERS = """\
from workers.stack import home
own = home.ListenAddresses.settings

def settings(self, *args, **kwargs):
    return own(self, *args, **kwargs).model_copy(update={given!r})

home.ListenAddresses.settings = settings
"""

_STOCK = """\
from workers import transport
transport.reliable_url = lambda url: url
"""


def hooked_environ(
    folder: Path, root: Path, *, is_stock: bool, database_url: str | None, broker_url: str | None
) -> dict[str, str]:
    """Return the variables with which a stack has the job and, if asked for, the stock transport or other servers."""
    folder.mkdir(parents=True, exist_ok=True)
    given = dict.fromkeys(("database_url", "journal_url", "history_url"), database_url) if database_url else {}
    given |= {"broker_url": broker_url} if broker_url else {}
    servers = _SERVERS.format(given=given) if given else ""
    (folder / "sitecustomize.py").write_text(_POISON + servers + (_STOCK if is_stock else ""), encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join((str(folder), str(root)))}

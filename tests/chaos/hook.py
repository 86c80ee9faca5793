"""What a chaos run's stack does differently, without a switch in the product: a file that Python imports before anything else.

It adds a job that kills the process that runs it, as no job of memtend can; it puts the stack's tables into PostgreSQL
where the chaos run has one; and for comparison it takes the one function out that turns the broker's URL into ours, so that
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

_DATABASE = """\
from workers.stack import home
own = home.ListenAddresses.settings

def settings(self, *args, **kwargs):
    given = dict.fromkeys(("database_url", "journal_url", "history_url"), {url!r})
    return own(self, *args, **kwargs).model_copy(update=given)

home.ListenAddresses.settings = settings
"""

_STOCK = """\
from workers import transport
transport.reliable_url = lambda url: url
"""


def hooked_environ(folder: Path, root: Path, *, is_stock: bool, database_url: str | None) -> dict[str, str]:
    """Return the variables with which a stack has the job and, if asked for, the stock transport or PostgreSQL."""
    folder.mkdir(parents=True, exist_ok=True)
    database = _DATABASE.format(url=database_url) if database_url else ""
    (folder / "sitecustomize.py").write_text(_POISON + database + (_STOCK if is_stock else ""), encoding="utf-8")
    return {"PYTHONPATH": os.pathsep.join((str(folder), str(root)))}

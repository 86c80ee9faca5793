"""A worker whose store jobs write a diary, and end it where they are poison: ``poison_worker.py FOLDER POOL DEED``.

``STOP`` in the environment is how long it may take to end, ``THREADS`` how many jobs it runs at once, ``AMQP`` how long
it waits for a RabbitMQ that says nothing; with ``STOCK`` it uses kombu's own transport for Redis.
Everything around the job is the worker's own: app, transport, ledger, trial and dead letters.
"""

import os
import signal
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded
from pydantic import ConfigDict

from memcore.backends import factory
from memcore.config import urls
from memcore.config.settings import Settings
from memcore.jobs import BasePayload, Done, Outcome
from memcore.ledger.ledger import Ledger
from tasks.context import JobContext
from tasks.store import write
from workers import app as assembling
from workers import broker, transport
from workers.groups import STORE
from workers.run import work as run_worker

#: Seconds after which a dead worker's message comes back: enough for three renewals by a living one on a busy machine.
VISIBILITY = timedelta(seconds=float(os.environ.get("VISIBILITY", "3")))

#: Short enough to wait for.
LIMITS = replace(write.limits, soft=timedelta(seconds=1), hard=timedelta(seconds=2))

#: How long an ordinary job takes: long enough to die beside a poisonous one.
ORDINARY_SECONDS = 0.3

#: While this file lies in the folder, what is poisonous kills.
CAUSE = "cause"


def note(folder: Path, line: str) -> None:
    with (folder / "diary").open("a") as diary:
        diary.write(f"{line}\n")


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    while True:
        try:
            time.sleep(60)
        except SoftTimeLimitExceeded:
            continue


#: What poison does to its process: ``hang`` until the pool kills it at the hard limit.
DEEDS = {"kill": kill, "hang": hang}


class OrdinaryPayload(BasePayload, task=write.name, queue=write.queue):
    """A job that takes a while, or kills."""

    model_config = ConfigDict(extra="ignore")

    name: str
    poison: bool
    seconds: float = ORDINARY_SECONDS


def work(folder: Path, job: OrdinaryPayload, deed: str) -> Outcome:
    note(folder, f"start {job.name}")
    if job.poison and (folder / CAUSE).exists():
        # not before others are at work beside it
        time.sleep(ORDINARY_SECONDS / 2)
        DEEDS[deed]()
    time.sleep(job.seconds)
    note(folder, f"end {job.name}")
    return Done(facts={"stored": 1})


def main(folder: Path, pool: str, deed: str) -> None:
    settings = Settings.model_validate_json((folder / "settings.json").read_text())

    def run(payload: OrdinaryPayload, _context: JobContext) -> Outcome:
        return work(folder, payload, deed)

    def open_contexts(*_: object, **__: object) -> Any:
        shared = SimpleNamespace(settings=settings, ledger=Ledger.open(settings.ledger_urls))
        context = SimpleNamespace(company=settings.company, ledger=shared.ledger)
        return SimpleNamespace(
            shared=shared, of=lambda _company: nullcontext(context), is_ready=True, refused_seconds=lambda _company: 0.0
        )

    replacing: Any = assembling
    replacing.all_jobs = lambda: (replace(write, payload=OrdinaryPayload, limits=LIMITS, run=run),)
    replacing.WorkerContexts = open_contexts
    replacing.watch_pool = lambda *_, **__: None
    embedding: Any = factory
    embedding.create_configured_embedder = lambda *_: None
    if "STOCK" in os.environ:
        stock: Any = transport
        stock.reliable_url = str
    timing: Any = broker
    timing.RESTORE_SECONDS = 1
    for limit in ("read_timeout", "write_timeout"):
        urls._AMQP[limit] = int(os.environ.get("AMQP", urls.AMQP_SECONDS))
    threads = int(os.environ.get("THREADS", "4"))
    group = replace(
        STORE, pool="prefork" if pool == "prefork" else "threads", concurrency=threads, visibility=VISIBILITY
    )
    run_worker(assembling.create_app(settings, group=group), group, stop_seconds=float(os.environ.get("STOP", "35")))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])

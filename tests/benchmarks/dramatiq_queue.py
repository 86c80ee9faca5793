"""Dramatiq over Redis, on its defaults, which acknowledge late; its own command line loads this module's factory."""

import os
import sys

import dramatiq
from benchmarks.contender import BROKER
from dramatiq.brokers.redis import RedisBroker

#: Jobs that wait, and jobs taken and not acknowledged: a job's message stays until then.
COUNTS = """
local waiting = redis.call('LLEN', 'dramatiq:default')
return {waiting, redis.call('HLEN', 'dramatiq:default.msgs') - waiting}
"""


def noop() -> None:
    """Do nothing, on a thread."""


def make_broker(url: str = "") -> RedisBroker:
    broker = RedisBroker(url=url or os.environ[BROKER])  # type: ignore[no-untyped-call]  # it is untyped
    dramatiq.set_broker(broker)
    dramatiq.actor(broker=broker)(noop)
    return broker


def send(url: str, jobs: int) -> None:
    broker = make_broker(url)
    actor = broker.get_actor("noop")
    for _ in range(jobs):
        broker.enqueue(actor.message())
    broker.close()


def command(processes: int) -> tuple[str, ...]:
    """Return the worker's command; eight threads a process are dramatiq's default, and what Celery's pool gets."""
    options = ("--processes", str(processes), "--threads", "8")
    return (sys.executable, "-m", "dramatiq", "benchmarks.dramatiq_queue:make_broker", *options)

"""Celery over a Redis transport, kombu's or memtend's: run as a script, the worker of one no-op task."""

import sys
from pathlib import Path

from celery import Celery

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from workers.transport import register  # noqa: E402  # a script must find the tree first

#: Worker options per pool; the two transports get the same.
POOLS = {
    "prefork": ("--pool", "prefork", "--concurrency", "2", "--prefetch-multiplier", "4"),
    "solo": ("--pool", "solo", "--prefetch-multiplier", "64"),
    "threads": ("--pool", "threads", "--concurrency", "8", "--prefetch-multiplier", "4"),
}

#: Jobs that wait, and jobs taken and not acknowledged.
COUNTS = """
local sorted = redis.call('GET', 'celery:sorted') or 0
return {redis.call('LLEN', 'celery') + sorted, redis.call('HLEN', 'unacked')}
"""


def noop() -> None:
    """Do nothing: what remains is the price of the queue."""


def make_app(url: str) -> Celery:
    register()
    app = Celery("bench", broker=url, set_as_current=False)
    app.conf.update(
        task_acks_late=True,
        task_ignore_result=True,
        worker_send_task_events=False,
        broker_connection_retry_on_startup=True,
        broker_transport_options={"visibility_timeout": 60},
    )
    app.task(noop, name="noop")
    return app


def send(url: str, jobs: int) -> None:
    app = make_app(url)
    with app.connection_for_write() as connection, connection.Producer() as producer:
        for _ in range(jobs):
            app.send_task("noop", producer=producer)
    app.close()


def command(url: str, pool: str) -> tuple[str, ...]:
    return (sys.executable, __file__, url, *POOLS[pool])


if __name__ == "__main__":
    make_app(sys.argv[1]).worker_main(
        ["worker", "--without-gossip", "--without-mingle", "--loglevel=ERROR", *sys.argv[2:]]
    )

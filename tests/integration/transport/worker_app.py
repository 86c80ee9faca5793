"""A Celery app whose jobs write down that they ran; started as ``python worker_app.py URL DIARY [worker options]``."""

import os
import sys
from pathlib import Path
from time import sleep

from celery import Celery

#: Seconds, as a store worker has it; tests make messages older instead of waiting.
VISIBILITY_SECONDS = 60

ROOT = Path(__file__).parents[3]


def make_app(url: str, diary: Path) -> Celery:
    app = Celery("diarist", broker=url)
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_ignore_result=True,
        worker_soft_shutdown_timeout=float(os.environ.get("SOFT_SHUTDOWN_SECONDS", "0")),
        worker_enable_soft_shutdown_on_idle=False,
        worker_prefetch_multiplier=4,
        broker_connection_retry_on_startup=True,
        broker_transport_options={
            "visibility_timeout": int(os.environ.get("VISIBILITY_SECONDS", VISIBILITY_SECONDS)),
            "unacked_restore_interval": 1,
        },
    )

    def work(number: int, seconds: float) -> None:
        write(diary, f"start {number}")
        sleep(seconds)
        write(diary, f"end {number}")

    app.task(work, name="work")
    return app


def write(diary: Path, line: str) -> None:
    with diary.open("a") as pages:
        pages.write(f"{line}\n")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    from workers.lifecycle import defer_shutdown
    from workers.transport import register

    register()
    defer_shutdown()
    make_app(sys.argv[1], Path(sys.argv[2])).worker_main(["worker", "--loglevel=INFO", *sys.argv[3:]])

"""The apps for Celery's own commands: ``celery -A workers COMMAND``; of another group ``-A workers.celery:llm``.

An app is built when its name is asked for, with settings from the environment or the stack file.
"""

import os
from functools import cache
from typing import Any

from celery import Celery, signals

from memcore.config.settings import Settings
from memcore.telemetry import tracing
from workers.app import create_app
from workers.beat import schedule, scheduler_of
from workers.groups import GROUPS, STORE
from workers.lifecycle import end_within
from workers.logs import set_up_logs


def __getattr__(name: str) -> Celery:
    group = STORE.name if name == "app" else name
    if group not in GROUPS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _app_of(group)


@cache
def _app_of(name: str) -> Celery:
    group, settings = GROUPS[name], Settings.load(os.environ)
    set_up_logs(settings)
    app = create_app(settings, group=group)
    # As workers.run and workers.beat have it; options of the command line win.
    app.conf.update(
        worker_pool=group.pool,
        worker_concurrency=group.concurrency,
        beat_schedule=schedule(settings),
        beat_scheduler=scheduler_of(settings),
    )
    app.amqp.queues.select([str(queue) for queue in group.queues])
    # Flower listens to everybody otherwise, and asks for no password.
    os.environ.setdefault("FLOWER_ADDRESS", "127.0.0.1")

    def prepare(**_: Any) -> None:
        tracing.start(settings.traces, service=f"worker-{group.name}")
        end_within()

    signals.celeryd_init.connect(prepare, weak=False)
    return app

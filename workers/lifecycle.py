"""When the crew comes and goes: after the fork, never before; closed when its process ends."""

import gc
from collections.abc import Callable
from importlib import import_module
from typing import Any

from celery import Celery, signals

from memcore.config.settings import Settings
from workers.crew import CrewOnDuty
from workers.groups import WorkerGroup
from workers.heartbeat import Heartbeat
from workers.pulse import beat_once, worker_pulse
from workers.shutdown import defer_shutdown


def watch_pool(crew: CrewOnDuty, group: WorkerGroup, *, share: Callable[[], object]) -> None:
    """Open the crew where jobs will run, before the first job comes, and close it at the end.

    Args:
        crew: the crew of the process.
        group: how this worker runs.
        share: loads what children of one parent can share; it must open no connection and start no thread.
    """

    def spread(**_: Any) -> None:
        # Loaded before the fork, 100 MB are there once instead of once in each child, and a new child starts at once.
        import_module("memcore.backends.mem0.backend")
        share()
        gc.collect()
        # Kept out of later collections, which would write to these pages and so copy them after all.
        gc.freeze()

    def arrive(**_: Any) -> None:
        crew.get()

    def leave(**_: Any) -> None:
        crew.dismiss()

    # weak=False: the signal would otherwise forget these closures as soon as this function returns.
    if group.pool == "prefork":
        defer_shutdown()
        signals.worker_init.connect(spread, weak=False)
        signals.worker_process_init.connect(arrive, weak=False)
        signals.worker_process_shutdown.connect(leave, weak=False)
    else:
        if group.opens_early:
            signals.worker_init.connect(arrive, weak=False)
        signals.worker_shutdown.connect(leave, weak=False)


def watch_pulse(app: Celery, settings: Settings, group: WorkerGroup) -> None:
    """Keep the worker's heartbeat going for as long as it takes jobs."""
    heartbeat = Heartbeat.of(settings.home, f"worker-{group.name}")
    signals.worker_ready.connect(lambda **_: beat_once(heartbeat), weak=False)
    steps: Any = app.steps
    steps["consumer"].add(worker_pulse(heartbeat))

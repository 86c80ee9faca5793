"""One worker process: ``workers.run --group store``, with settings from the environment or the stack file."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from socket import gethostname
from typing import Any

from celery import Celery

from memcore.config.settings import Settings
from memcore.config.urls import scheme_of
from memcore.errors import MemoryConnectionError
from memcore.ledger.ledger import Ledger
from memcore.operational import report_error
from memcore.telemetry import tracing
from workers.app import create_app
from workers.groups import GROUPS, STOP_SECONDS, WorkerGroup
from workers.lifecycle import end_within
from workers.logs import set_up_logs
from workers.scaling import PatientScaler

#: Seconds between two events by which Flower knows that a worker lives; it waits for two of them.
_EVENT_SECONDS = 10


def options_of(group: WorkerGroup) -> dict[str, Any]:
    """Return the options of Celery's worker."""
    scaling = {"autoscale": (group.concurrency, 1), "autoscaler_cls": PatientScaler} if group.is_scaled else {}
    return {
        "hostname": f"{group.name}@{gethostname()}",
        "queues": [str(queue) for queue in group.queues],
        "pool": group.pool,
        "concurrency": group.concurrency,
        "without_gossip": True,
        "without_mingle": True,
        "heartbeat_interval": _EVENT_SECONDS,
        # Celery sets the level of the root logger, and memtend's own lines are below it; see workers/logs.py.
        "loglevel": logging.getLogger().level,
        **scaling,
    }


def main(argv: Sequence[str]) -> int:
    """Run a worker until it is told to stop; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m memcore.programs workers.run", description=__doc__)
    parser.add_argument("--group", required=True, choices=sorted(GROUPS))
    chosen = GROUPS[parser.parse_args(argv).group]
    try:
        settings = Settings.load(os.environ)
        set_up_logs(settings)
        _require_ledger(settings)
        tracing.start(settings.traces, service=f"worker-{chosen.name}")
        app = create_app(settings, group=chosen)
    except Exception as error:  # noqa: BLE001  # a defect is raised again
        return report_error(error)
    work(app, chosen)
    return 0


def work(app: Celery, group: WorkerGroup, *, stop_seconds: float = STOP_SECONDS) -> None:
    """Run the app's worker until it is told to stop; it then exits in time, even without a broker."""
    end_within(stop_seconds)
    # Not by Celery's command line, which would import a shell for people.
    app.Worker(**options_of(group)).start()


def _require_ledger(settings: Settings) -> None:
    """Refuse to start without a driver, or on a damaged or missing file: every job would fail.

    A server that does not answer may come back, and jobs wait for it.
    """
    with closing(Ledger.open(settings.ledger_urls)) as ledger:
        try:
            ledger.companies.paused(settings.company)
        except MemoryConnectionError:
            if scheme_of(settings.database_url) == "sqlite":
                raise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Celery beat: ``workers.beat`` sends the static schedule and stores nothing: the ledger knows who is due."""

import os
import sys

from memcore.config.settings import Settings
from memcore.operational import report_error
from workers.app import create_app
from workers.health import Heartbeat
from workers.heartbeat_step import beat_scheduler
from workers.lifecycle import end_within
from workers.logs import set_up_logs


def main() -> int:
    """Run beat until it is told to stop; return its exit code."""
    try:
        settings = Settings.load(os.environ)
        set_up_logs(settings)
        app = create_app(settings)
    except Exception as error:  # noqa: BLE001  # a defect is raised again
        return report_error(error)
    end_within()
    heartbeat = Heartbeat.of(settings.home, "beat")
    app.Beat(
        scheduler=beat_scheduler(heartbeat), loglevel="WARNING", quiet=True, redirect_stdouts=False, logfile=None
    ).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Beat: ``workers.beat`` rings the static schedule, and keeps nothing: the ledger knows who is due."""

import os
import sys

from memcore.config.settings import Settings
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from workers.app import create_app
from workers.heartbeat import Heartbeat
from workers.logs import set_up_logs
from workers.pulse import beat_scheduler
from workers.run import EXIT_CONFIG


def main() -> int:
    """Run beat until it is told to stop; return its exit code."""
    try:
        settings = Settings.load(os.environ)
        set_up_logs(settings)
        app = create_app(settings)
    except MemoryError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_CONFIG
    heartbeat = Heartbeat.of(settings.home, "beat")
    app.Beat(
        scheduler=beat_scheduler(heartbeat), loglevel="WARNING", quiet=True, redirect_stdouts=False, logfile=None
    ).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())

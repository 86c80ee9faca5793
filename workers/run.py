"""One worker process: the program ``workers.run --group store``, with settings from environment or stack file."""

import argparse
import os
import sys
from collections.abc import Sequence

from memcore.config.settings import Settings
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from workers.app import create_app
from workers.groups import GROUPS, WorkerGroup, group
from workers.logs import set_up_logs

#: Exit code for a mistake in settings or policy: the supervisor must not try again.
EXIT_CONFIG = 2


def arguments_of(group: WorkerGroup) -> list[str]:
    """Return what Celery's worker is started with."""
    return [
        "worker",
        f"--hostname={group.name}@%h",
        f"--queues={','.join(map(str, group.queues))}",
        f"--pool={group.pool}",
        f"--concurrency={group.concurrency}",
        "--without-gossip",
        "--without-mingle",
        "--loglevel=WARNING",
    ]


def main(argv: Sequence[str]) -> int:
    """Run a worker until it is told to stop; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m memcore.programs workers.run", description=__doc__)
    parser.add_argument("--group", required=True, choices=sorted(GROUPS))
    chosen = group(parser.parse_args(argv).group)
    try:
        settings = Settings.load(os.environ)
        set_up_logs(settings)
        app = create_app(settings, group=chosen)
    except MemoryError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_CONFIG
    app.worker_main(arguments_of(chosen))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""``workers.health PART``: exit code 0 while a worker or beat on this machine takes jobs, else 1.

For probes of containers and machines. It looks at the part's heartbeat alone, so it costs a few milliseconds and asks
nobody; a part that runs and has stopped taking jobs is not well.
"""

import os
import sys
from collections.abc import Sequence

from memcore.config.home_folder import home_folder
from workers.heartbeat import STALE_SECONDS, Heartbeat

#: Exit code for a wrong call.
EXIT_USAGE = 2


def main(argv: Sequence[str]) -> int:
    """Look at one part's heartbeat; return the exit code and say in one sentence what was seen."""
    if len(argv) != 1:
        sys.stderr.write("usage: python -m memcore.programs workers.health PART, such as worker-store or beat\n")
        return EXIT_USAGE
    heartbeat = Heartbeat.of(home_folder(os.environ), argv[0])
    age = heartbeat.age_seconds()
    if age is None:
        sys.stdout.write(f"{argv[0]} has not taken a job yet: there is no {heartbeat.path}\n")
        return 1
    sys.stdout.write(f"{argv[0]} was last well {age:.0f} seconds ago, of {STALE_SECONDS:g} allowed\n")
    return 0 if heartbeat.is_fresh() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

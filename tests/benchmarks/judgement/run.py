"""``make bench-judgement``: what memtend decides about memories, held against cases of which the truth is known."""

import logging
import os
import platform
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.figure import Figure, Target  # noqa: E402  # a script must find the tree first
from benchmarks.judgement.asking import asking  # noqa: E402  # a script must find the tree first
from benchmarks.judgement.current import current  # noqa: E402
from benchmarks.judgement.diary import diary  # noqa: E402
from benchmarks.judgement.evidence import evidence  # noqa: E402
from benchmarks.judgement.fleets import fleets  # noqa: E402
from benchmarks.judgement.languages import languages  # noqa: E402
from benchmarks.judgement.lessons import lessons  # noqa: E402
from benchmarks.judgement.merging import merging  # noqa: E402
from benchmarks.judgement.replacing import replacing  # noqa: E402
from benchmarks.judgement.showing import showing  # noqa: E402
from benchmarks.report import show  # noqa: E402

#: Each measures one kind of decision.
SECTIONS = {
    "showing": showing,
    "asking": asking,
    "evidence": evidence,
    "current": current,
    "diary": diary,
    "fleets": fleets,
    "lessons": lessons,
    "languages": languages,
    "merging": merging,
    "replacing": replacing,
}


def main(names: list[str]) -> int:
    """Measure the named sections, or all, and print each figure beside its target."""
    # A simulated fleet has many conflicts, and each is an event.
    logging.getLogger("memcore").setLevel(logging.ERROR)
    figures, targets = list[Figure](), list[Target]()
    for name in names or SECTIONS:
        measured = SECTIONS[name]()
        figures += measured[0]
        targets += measured[1]
    show(figures, targets, {"python": platform.python_version(), "cores": os.cpu_count()})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A reindex of 20,000 memories under a constant load: ``python tests/benchmarks/reindexing.py``.

The worker is killed half-way. Prints how long it took, what the load noticed of it, and what was lost.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from time import monotonic, sleep

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.command_line import CommandLine  # the tests' own modules
from support.reindex_load import Load, constant_load, filled, kill_run, lost
from support.running_stack import running_stack, wait_until

from memcore.ledger.ledger import Ledger


def main() -> int:
    """Run it once and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=20_000)
    parser.add_argument("--embedder", default="static-mean")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running_stack(Path(folder) / "home") as stack:
        memtend, ledger = CommandLine(home=stack.home), Ledger.open(stack.settings.ledger_urls)
        filled(stack, options.memories)

        def fraction() -> float:
            reindex = ledger.reindexes.last("default")
            return 0.0 if reindex is None else reindex.fraction

        with constant_load(stack) as load:
            sleep(20)
            before = len(load.reads)
            with pytest.MonkeyPatch.context() as environ:
                environ.setenv("MEMTEND_EMBEDDER", options.embedder)
                memtend.ok("reindex", "--no-wait")
            began = monotonic()
            wait_until(lambda: fraction() >= 0.45, seconds=3600, what="half of it")
            killed = monotonic()
            kill_run(stack)
            stood_at = fraction()
            wait_until(lambda: fraction() > stood_at, seconds=3600, what="the next worker")
            resumed = monotonic()
            wait_until(lambda: fraction() == 1.0, seconds=3600, what="the end")
            ended, during = monotonic(), len(load.reads)
            sleep(10)
        wait_until(lambda: not lost(stack, load), seconds=120, what="the last memories")
        reindex = ledger.reindexes.last("default")
        assert reindex is not None
        ledger.close()
        lines = len(memtend.ok("export").out.splitlines())
        kept = options.memories + sum(map(len, load.stored.values()))
        _say("memories before, written meanwhile", f"{options.memories}, {kept - options.memories}")
        _say("seconds in all, of them a dead worker's", f"{ended - began:.0f}, {resumed - killed:.0f}")
        _say("killed at, stopped writes", f"{stood_at:.0%}, {reindex.freezes} times")
        _say("search, ms, median and 95th percentile before", _spread(load.reads[:before]))
        _say("search, ms, median and 95th percentile during", _spread(load.reads[before:during]))
        _say("store and read back, ms, median, longest", _longest(load))
        _say("failed reads and writes", str(len(load.failed)))
        _say("memories lost, or there twice", f"{len(lost(stack, load))}, {lines - kept}")
        for failure in load.failed[:5]:
            _say("failed", failure)
    return 0


def _spread(seconds: list[float]) -> str:
    cuts = statistics.quantiles(seconds, n=20)
    return f"{statistics.median(seconds) * 1000:.0f}, {cuts[18] * 1000:.0f} ({len(seconds)} searches)"


def _longest(load: Load) -> str:
    return f"{statistics.median(load.writes) * 1000:.0f}, {max(load.writes) * 1000:.0f} ({len(load.writes)} stores)"


def _say(what: str, figure: str) -> None:
    sys.stdout.write(f"{what:<50} {figure}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

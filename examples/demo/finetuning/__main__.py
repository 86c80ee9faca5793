"""The demo of fine-tuning: ``examples.demo.finetuning`` trains an embedder, lets it serve, goes back."""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

from examples.demo.finetuning.commands import Commands
from examples.demo.finetuning.corpus import notes
from examples.demo.finetuning.report import show_end
from examples.demo.finetuning.story import FineTuneScript
from examples.demo.fleet import agents
from examples.demo.fleet_night import TICK_SECONDS, UNTIL_LATER, fleet_demo
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from ops.cli.console import say
from workers.stack.running import running_stack


def main(argv: Sequence[str]) -> int:
    """Run the demo; return 0 when the checkpoint served, nobody was hurt, and the way back led back."""
    parser = argparse.ArgumentParser(prog="python -m memcore.programs examples.demo.finetuning", description=__doc__)
    parser.add_argument("--home", type=Path, help="keep the data here; else a temporary folder that is removed")
    home: Path | None = parser.parse_args(argv).home
    folder = (home or Path(tempfile.mkdtemp(prefix="memtend-demo-"))).absolute()
    try:
        return _demo(folder)
    except (MemoryError, TimeoutError) as error:
        sys.stderr.write(f"memtend demo: {error}\n")
        return 1
    finally:
        if home is None:
            shutil.rmtree(folder, ignore_errors=True)


def _demo(folder: Path) -> int:
    begun = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).with_name("policy.yaml"), folder / "policy.yaml")
    say(f"starting broker, store, workers, beat and Flower in {folder}, with a worker for fine-tuning ...")
    with (
        running_stack(folder, os.environ, tick_seconds=TICK_SECONDS, also=("finetune",)) as stack,
        fleet_demo(stack.settings) as demo,
    ):
        now = datetime.now(UTC)
        demo.register(agents(), not_before=now + UNTIL_LATER)
        noted = notes()
        stored = demo.bring_in(note.memory(now) for note in noted)
        say(f"{len(noted)} notes of {len(stored)} agents are stored")
        keys = {memory_id: note.key for note, memory_id in zip(noted, chain(*stored.values()), strict=True)}
        is_well = FineTuneScript(stack.settings, demo.ledger, Commands(folder)).run_script(keys)
    show_end(time.monotonic() - begun, stack.supervisor.peak_resident_bytes)
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A fine-tune run in a real stack, whose worker is killed with -9; needs torch, and MEMTEND_TEST_TORCH=1."""

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from support.command_line import CommandLine
from support.running_stack import MEMTEND, clean_environ, running_stack, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(os.environ.get("MEMTEND_TEST_TORCH") != "1", reason="MEMTEND_TEST_TORCH is not 1"),
]

PLACES = ("hall", "yard", "gate", "dock", "roof", "shed")
THINGS = ("pump", "valve", "lift", "crane", "bell", "boiler")


@contextmanager
def worker(home: Path) -> "Iterator[subprocess.Popen[bytes]]":
    process = subprocess.Popen(
        [MEMTEND, "worker", "--group", "finetune"], env={**clean_environ(), "MEMTEND_HOME": str(home)}
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(120)


def test_a_run_goes_from_plan_to_checkpoint_though_its_worker_is_killed(tmp_path: Path) -> None:
    documents = tmp_path / "docs"
    documents.mkdir()
    for place in PLACES:
        for thing in THINGS:
            text = f"The {thing} of the {place} failed at night, and whoever had the {place} mended the {thing}."
            (documents / f"{place}-{thing}.md").write_text(text, "utf-8")
    with running_stack(tmp_path / "home") as stack:
        memtend = CommandLine(home=stack.home)
        for place in PLACES:
            memtend.ok("store", "ada", f"I saw the {place} at noon, and nobody was there.")
        started = memtend.ok(
            "finetune", "start", "--kind", "static", "--source-dir", str(documents), "--epochs", "1", "--json"
        )
        run_id = started.value["run_id"]

        def status() -> dict[str, object]:
            found: dict[str, object] = memtend.ok("finetune", "status", run_id, "--json").value
            return found

        with worker(stack.home) as first:
            wait_until(lambda: "generating_data" in str(status()["stages_completed"]))
            for process in [*psutil.Process(first.pid).children(recursive=True), psutil.Process(first.pid)]:
                if "memcore.finetune.runner" not in " ".join(process.cmdline()):
                    process.kill()
        with worker(stack.home):
            wait_until(lambda: status()["stage"] in {"complete", "failed"})
        assert (status()["error"], status()["stage"]) == (None, "complete")
        (checkpoint,) = memtend.ok("finetune", "checkpoints", "--json").value
        assert checkpoint["run_id"] == run_id
        assert checkpoint["doc_count"] == len(PLACES) * len(THINGS) + len(PLACES)
        runners = [each for each in psutil.process_iter(["cmdline"]) if "memcore.finetune.runner" in str(each.info)]
        assert not [each for each in runners if str(stack.home) in str(each.environ())]

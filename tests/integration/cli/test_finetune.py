"""Fine-tune runs from the command line; no worker takes them here."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import CommandLine


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(12):
        (folder / f"{number}.md").write_text(f"Hall {number} has a pump.", "utf-8")
    return folder


@pytest.fixture
def run_id(memtend: CommandLine, documents: Path) -> Iterator[str]:
    """A run that waits for a worker."""
    started = memtend.ok(
        "finetune", "start", "--no-preflight", "--no-memories", "--kind", "static", "--source-dir", str(documents),
        "--epochs", "2", "--json",
    )  # fmt: skip
    yield started.value["run_id"]
    memtend("finetune", "cancel", "--by", "grace")


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("--epochs", "0"), "epochs"),
        (("--kind", "magic"), "kind"),
        (("--no-memories",), "source_dir"),
        (("--base-model", "https://models"), "base_model"),
        (("--validation-split", "1.0"), "validation_split"),
        (("--base-model", "../x"), "base_model"),
        (("--base-model", "C:\\models\\x"), "base_model"),
        (("--kind", "static", "--base-model", "mine"), "base_model"),
        (("--threads", "0"), "threads"),
    ],
)
def test_a_bad_plan_is_refused_by_its_field_before_anything_starts(
    memtend: CommandLine, words: tuple[str, ...], field: str
) -> None:
    before = memtend.ok("finetune", "runs", "--json").value["total"]
    for command in ("plan", "start"):
        answer = memtend("finetune", command, *words)
        assert (answer.code, answer.err.startswith(f"memtend: {field}: ")) == (2, True), answer
    assert memtend.ok("finetune", "runs", "--json").value["total"] == before


def test_a_plan_is_looked_at_and_nothing_is_started(memtend: CommandLine, documents: Path) -> None:
    looked = memtend("finetune", "plan", "--no-memories", "--source-dir", str(documents), "--json")
    found = looked.value
    said = {check["name"]: check["status"] for check in found["checks"]}
    assert len(said) == 7
    assert (said["documents"], said["source_dir_exists"], said["output_dir_writable"]) == ("warn", "pass", "pass")
    assert found["can_proceed"] is ("fail" not in said.values()) is (looked.code == 0)
    nowhere = str(documents / "nowhere")
    cannot = memtend("finetune", "plan", "--source-dir", nowhere)
    assert (cannot.code, "a run cannot be started like this" in cannot.out) == (1, True)
    refused = memtend("finetune", "start", "--source-dir", nowhere)
    assert refused.code == 2
    assert "source_dir: names no folder on this machine" in refused.err
    assert "or say --no-preflight where the worker has another machine" in refused.err
    refused = memtend("finetune", "start", "--base-model", nowhere)
    assert (refused.code, "base_model: names no model on this machine" in refused.err) == (2, True)
    assert memtend.ok("finetune", "status", "--json").value["stage"] != "generating_data"


def test_a_run_is_queued_seen_cancelled_and_resumed(memtend: CommandLine, documents: Path, run_id: str) -> None:
    status = memtend.ok("finetune", "status", "--json").value
    assert (status["run_id"], status["stage"], status["waits_for_a_worker"]) == (run_id, "generating_data", True)
    assert (status["plan"]["epochs"], status["plan"]["source_dir"]) == (2, str(documents))
    second = memtend("finetune", "start", "--no-preflight")
    assert (second.code, "a run has not ended" in second.err) == (1, True)
    assert memtend("finetune", "resume", run_id).code == 1

    refused = memtend("finetune", "cancel", "--by", "grace", "--reason", " ")
    assert (refused.code, refused.err.startswith("memtend: reason: must not be blank")) == (2, True)
    cancelled = memtend.ok("finetune", "cancel", "--by", "grace", "--reason", "the wrong folder", "--json").value
    assert (cancelled["run_id"], cancelled["stage"]) == (run_id, "cancelled")
    (line,) = memtend.ok("audit", "--actor", "grace", "--action", "finetune.cancel", "--json").value
    assert (line["subject"], line["reason"]) == (run_id, "the wrong folder")
    assert memtend.ok("finetune", "cancel", "--by", "grace", "--json").value == {"run_id": None}
    watched = memtend("finetune", "watch", run_id, "--json")
    assert (watched.code, watched.value["error"]) == (1, "a person cancelled the run")
    assert memtend.ok("finetune", "resume", run_id, "--json").value["stage"] == "generating_data"
    assert run_id in memtend.ok("finetune", "runs").out
    assert memtend.ok("finetune", "checkpoints", "--json").value == []
    assert memtend("finetune", "status", "another").code == 1


def test_the_stack_takes_no_worker_that_nobody_knows(memtend: CommandLine) -> None:
    answer = memtend("up", "--with", "store")
    assert (answer.code, "with: 'store' is not one of finetune" in answer.err) == (2, True)

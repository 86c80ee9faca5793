"""The stage runner as a process: markers, reasons, signals, health."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from memcore.finetune.documents import Pair, read_lines
from memcore.finetune.runner import CONFIG, HOST, PORT, main

TEXTS = ("The pump of hall seven failed at night.", "Invoices are paid on the first Monday.", "Ada keeps the keys.")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def documents(folder: Path) -> Path:
    folder.mkdir()
    for number, text in enumerate(TEXTS):
        (folder / f"{number}.md").write_text(text, "utf-8")
    return folder


def generating(tmp_path: Path, **more: Any) -> dict[str, Any]:
    source = tmp_path / "docs"
    return {
        "stage": "generating_data",
        "source_dir": str(source if source.exists() else documents(source)),
        "output_dir": str(tmp_path / "out"),
        **more,
    }


def environ(tmp_path: Path, config: object, **environment: str) -> dict[str, str]:
    path = tmp_path / "config.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config), "utf-8")
    return {**os.environ, CONFIG: str(path), PORT: str(free_port()), **environment}


def ran(tmp_path: Path, config: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the runner as executors do, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "memcore.finetune.runner"],
        env=environ(tmp_path, config, **environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def ran_here(tmp_path: Path, config: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the runner in this process: another one takes a second to start."""
    out, errors = StringIO(), StringIO()
    with patch.dict(os.environ), redirect_stdout(out), redirect_stderr(errors):
        code = main([], environ(tmp_path, config, **environment))
    return subprocess.CompletedProcess([], code, out.getvalue(), errors.getvalue())


def test_a_stage_says_that_it_begins_how_far_it_is_and_that_its_files_are_there(tmp_path: Path) -> None:
    done = ran(tmp_path, generating(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert (lines[0], lines[-1]) == ("STAGE_START:generating_data", "STAGE_COMPLETE:generating_data")
    assert "PROGRESS:1.0000" in lines
    passages = {
        pair.positive_passage
        for name in ("training.jsonl", "validation.jsonl")
        for pair in read_lines(tmp_path / "out" / name, Pair)
    }
    assert passages == set(TEXTS)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("{", "is no JSON"),
        ("[]", "config: must be a JSON object"),
        ({"stage": "lunch"}, "stage: must be one of generating_data"),
        ({"stage": "complete"}, "stage: must be one of generating_data"),
        ({}, "stage: must be one of generating_data"),
        ({"stage": "generating_data"}, "output_dir"),
        ({"stage": "training", "output_dir": "o", "training_data_path": "t", "epochs": 0}, "epochs"),
        ({"stage": "training", "output_dir": "../o", "training_data_path": "t"}, "output_dir"),
        (
            {"stage": "mining_negatives", "output_dir": "o", "training_data_path": "t", "base_model": "http://x"},
            "base_model",
        ),
    ],
)
def test_a_broken_configuration_is_told_in_one_line_before_anything_begins(
    tmp_path: Path, config: object, reason: str
) -> None:
    done = ran_here(tmp_path, config)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
    assert reason in line


def test_a_missing_configuration_is_told(tmp_path: Path) -> None:
    done = ran_here(tmp_path, {}, **{CONFIG: str(tmp_path / "nowhere.json")})
    assert done.returncode == 1
    assert "cannot be read: No such file or directory" in done.stderr


def test_a_stage_that_cannot_write_says_why(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("in the way", "utf-8")
    done = ran_here(tmp_path, generating(tmp_path))
    assert done.returncode == 1
    assert "STAGE_COMPLETE" not in done.stdout
    assert "ERROR: generating_data failed: File exists" in done.stderr.splitlines()


def test_too_little_to_train_on_is_told(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "one.txt").write_text("Only this.", "utf-8")
    done = ran_here(tmp_path, generating(tmp_path))
    assert "ERROR: generating_data failed: 1 passages are too few" in done.stderr


def test_a_health_port_that_is_none_is_refused(tmp_path: Path) -> None:
    done = ran_here(tmp_path, generating(tmp_path), **{PORT: "70000"})
    assert (done.returncode, done.stdout) == (1, "")
    assert PORT in done.stderr


def test_a_taken_health_port_is_a_warning_and_the_stage_goes_on(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = ran(tmp_path, generating(tmp_path), **{PORT: str(taken.getsockname()[1])})
    assert done.returncode == 0
    assert "bind_failed" in done.stderr


@contextmanager
def held(tmp_path: Path, port: int) -> Iterator["subprocess.Popen[bytes]"]:
    """A runner that has begun its stage, and reads passages from a pipe into which nobody writes yet."""
    pipe = tmp_path / "passages.jsonl"
    os.mkfifo(pipe)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(generating(tmp_path, passages_path=str(pipe))), "utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "memcore.finetune.runner"],
        env={**os.environ, CONFIG: str(path), PORT: str(port), HOST: "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"STAGE_START:generating_data\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_signal_cancels_the_stage_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    with held(tmp_path, free_port()) as process:
        process.send_signal(signal.SIGTERM)
        (tmp_path / "passages.jsonl").write_text('{"text": "More.", "source": "memory"}\n', "utf-8")
        _, errors = process.communicate(timeout=600)
    assert process.returncode == 1
    assert b"ERROR: generating_data cancelled" in errors.splitlines()
    assert not (tmp_path / "out").exists()


def test_the_health_endpoint_answers_while_the_stage_runs(tmp_path: Path) -> None:
    port = free_port()
    with held(tmp_path, port):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30) as answer:
            status = json.loads(answer.read())
        assert status["status"] == "ok"
        assert status["uptime_seconds"] >= 0
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30)

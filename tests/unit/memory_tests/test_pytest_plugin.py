"""The pytest plug-in, in a pytest of its own that asks a server on loopback."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.memories import record
from support.recording_server import Request, recorder
from support.repository import ROOT

from memcore.memory_tests.running import MOST_ERRORS

PLUGIN = "memcore.memory_tests.pytest_plugin"

TESTS = """
agent: oncall
tests:
  - {name: pages, question: when, finds: [pages at 500]}
  - {name: freezes, question: when, finds: [frozen on Fridays]}
"""


def answer(request: Request) -> tuple[int, object]:
    found = record("oncall", "The payment queue pages at 500 messages.").entry
    assert request.headers["authorization"] == "Bearer mt_secret"
    return 200, {"memories": [found.model_dump(mode="json")]}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("memory_tests", "others"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "oncall.yaml").write_text(TESTS)
    return tmp_path


def asked(project: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environ = {"PYTHONPATH": str(ROOT), "MEMTEND_KEY": "mt_secret", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", PLUGIN, "-q", "-p", "no:cacheprovider", *words],
        cwd=project, env=environ, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def test_memory_tests_are_tests_of_pytest_beside_others(project: Path) -> None:
    (project / "test_own.py").write_text("from memcore import Memory\ndef test() -> None:\n    assert Memory\n")
    with recorder(answer) as server:
        done = asked(project, "--memtend-url", server.url)
    assert done.returncode == 1, done.stdout
    assert "1 failed, 2 passed" in done.stdout
    assert "finds: text frozen on Fridays is not shown" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_wrong_file_is_an_error_of_the_collection(project: Path) -> None:
    (project / "memory_tests" / "oncall.yaml").write_text("tests: [{name: n}]")
    done = asked(project)
    assert done.returncode == 2, done.stdout
    assert "agent: is missing" in done.stdout
    assert "Traceback" not in done.stdout
    assert "files.py" not in done.stdout


def test_without_a_server_the_reason_is_a_sentence_and_the_key_is_not_shown(project: Path) -> None:
    for words in (["--memtend-url", "nowhere"], []):
        done = asked(project, *words)
        assert "2 failed" in done.stdout, done.stdout
        assert "InputError: url: must begin with" in done.stdout or "nothing runs at" in done.stdout
        assert "mt_secret" not in done.stdout
        assert "environ" not in done.stdout


def test_after_many_tests_without_an_answer_no_further_one_is_asked(project: Path) -> None:
    tests = [{"name": f"{number}", "question": "when", "finds": ["x"]} for number in range(MOST_ERRORS + 5)]
    (project / "memory_tests" / "oncall.yaml").write_text(json.dumps({"agent": "oncall", "tests": tests}))
    with recorder(lambda _request: (403, {"detail": "no"})) as server:
        done = asked(project, "--memtend-url", server.url)
        assert len(server.requests) == MOST_ERRORS
    assert f"{MOST_ERRORS + 5} failed" in done.stdout, done.stdout
    assert done.stdout.count("\nnot asked, since others had no answer") == 5

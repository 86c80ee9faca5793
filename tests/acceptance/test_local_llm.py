"""`memtend up --local-llm`: the stack serves the model itself; it loads, is killed, is asked again; nothing fails."""

import os
import signal
import subprocess
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from support.command_line import CommandLine
from support.running_stack import MEMTEND, StackAddress, clean_environ, running_stack, wait_until

from memcore import MemoryClient, ids
from memcore.models.conversation import resolve_owner_id
from ops.cli.session import ledger_of

pytestmark = pytest.mark.acceptance

#: Where the module is that stands in for llama.cpp's server.
ENGINE = Path(__file__).parents[1] / "support" / "engine"

#: A file of weights, for the test that asks a real model.
GGUF = os.environ.get("MEMTEND_TEST_GGUF")

PART = "local-llm"

#: As often as it may: the model is away for as long as it loads.
POLICY = "memory: {llm: {attempts: 10}}\n"


def with_engine() -> str:
    """Return the PYTHONPATH by which the stand-in is found."""
    return os.pathsep.join((str(ENGINE), os.environ.get("PYTHONPATH", "")))


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "small.gguf"
    path.write_bytes(b"GGUF and no more")
    return path


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, weights: Path) -> Generator[StackAddress]:
    home = tmp_path_factory.mktemp("local") / "home"
    home.mkdir()
    (home / "policy.yaml").write_text(POLICY, encoding="utf-8")
    words = ("--local-llm", str(weights))
    with running_stack(home, MEMTEND, None, words, PYTHONPATH=with_engine()) as address:
        yield address


def send_turn(stack: StackAddress, text: str) -> None:
    with MemoryClient.from_settings(stack.settings) as client:
        assert client.extract_turn("ada", session_id="s", user_id="mia", user_text=text, assistant_text="I see.")


def outcomes(stack: StackAddress) -> list[bool]:
    """Return of each turn that is recorded whether it has an outcome."""
    company, subject = stack.settings.company, resolve_owner_id(user_id="mia")
    key = ids.session_key(company=company, agent_id="ada", subject=subject, session_id="s")
    with ledger_of(stack.settings) as ledger:
        turns = ledger.turns.of_session(company, key)
    return [turn.outcome is not None for turn in turns]


def test_jobs_wait_while_it_loads_and_while_it_is_dead(stack: StackAddress, weights: Path) -> None:
    assert (stack.settings.llm_local, stack.is_ready(PART)) == ("small", False)
    memtend = CommandLine(home=stack.home)
    (part,) = (each for each in memtend.ok("status", "--json").value["parts"] if each["name"] == PART)
    assert (part["starting"], part["restarts"]) == (True, 0)
    (seen,) = (each for each in memtend("doctor", "--json").value if each["check"] == f"part {PART}")
    assert (seen["ok"], seen["seen"]) == (True, "starting, 0 restarts")

    send_turn(stack, "I moved to Porto.")
    wait_until(lambda: outcomes(stack) == [False], what="the turn to be recorded")
    weights.with_suffix(".loaded").touch()
    wait_until(lambda: outcomes(stack) == [True], what="the turn to be read")
    wait_until(lambda: stack.is_ready(PART), what="the part to be seen ready")
    assert "small" in memtend.ok("usage", "--by", "model").out

    weights.with_suffix(".loaded").unlink()
    os.kill(stack.pid(PART) or 0, signal.SIGKILL)
    send_turn(stack, "I have a cat.")
    wait_until(lambda: outcomes(stack) == [True, False], what="the second turn to be recorded")
    weights.with_suffix(".loaded").touch()
    wait_until(lambda: outcomes(stack) == [True, True], what="the second turn to be read")
    wait_until(lambda: stack.restarts(PART) == 1, what="the supervisor to say so")


def test_nobody_else_may_ask_it(stack: StackAddress) -> None:
    command = psutil.Process(stack.pid(PART)).cmdline()
    key = stack.settings.llm_api_key
    assert key is not None
    assert key.get_secret_value() not in " ".join(command)
    assert (stack.home / "run" / "llm.key").stat().st_mode & 0o777 == 0o600


def test_the_address_that_a_person_set_wins_and_that_is_said(tmp_path: Path, weights: Path) -> None:
    words = ("--local-llm", str(weights))
    environ = {"PYTHONPATH": with_engine(), "MEMTEND_LLM_URL": "http://127.0.0.1:9/v1"}
    with running_stack(tmp_path / "home", MEMTEND, None, words, **environ) as address:
        assert (address.settings.llm_url, address.settings.llm_local) == ("http://127.0.0.1:9/v1", None)
        assert PART not in {part.name for part in address.state.parts}
    said = (tmp_path / "home.up.log").read_text()
    assert f"Language model: that of MEMTEND_LLM_URL; {weights} is not served" in said


def test_a_file_that_cannot_be_served_is_refused_before_anything_starts(tmp_path: Path) -> None:
    words = [str(MEMTEND), "up", "--home", str(tmp_path / "home"), "--local-llm", str(tmp_path / "none.gguf")]
    environ = {**clean_environ(), "PYTHONPATH": with_engine()}
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode != 0
    assert "local-llm: " in done.stderr
    assert not (tmp_path / "home").exists()


@pytest.mark.skipif(
    GGUF is None or find_spec("xllamacpp") is None, reason="needs memtend[local-llm], MEMTEND_TEST_GGUF"
)
def test_a_real_model_answers_in_the_form_that_it_is_asked_for(tmp_path: Path) -> None:
    with running_stack(tmp_path / "home", MEMTEND, None, ("--local-llm", str(GGUF))) as address:
        wait_until(lambda: address.is_ready(PART), what="the weights to be loaded")
        found = CommandLine(home=address.home).ok("models", "check", "--json").value
        assert found["has_form"]

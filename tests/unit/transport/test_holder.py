import os
import subprocess
from pathlib import Path

import pytest

from workers.transport import holder
from workers.transport.holder import holder_of, is_dead


def test_this_process_lives() -> None:
    assert holder_of(os.getpid())
    assert not is_dead(holder_of(os.getpid()))


def test_a_process_that_has_ended_is_dead() -> None:
    with subprocess.Popen(["/bin/sleep", "600"]) as process:
        name = holder_of(process.pid)
        process.kill()
    assert is_dead(name)


def test_a_process_that_bears_the_number_of_another_is_not_that_one() -> None:
    assert is_dead(f"{holder_of(os.getpid())}1")


@pytest.mark.parametrize("name", ["", "elsewhere:1:1", "x", "::", "a:b:c"])
def test_of_a_name_that_is_not_of_this_machine_nothing_is_known(name: str) -> None:
    assert not is_dead(name)


@pytest.mark.parametrize("process", ["", "1", "one:1", "1:"])
def test_a_name_in_another_form_says_nothing(process: str) -> None:
    place = holder_of(os.getpid()).partition(":")[0]
    assert not is_dead(f"{place}:{process}")


def test_a_hidden_process_of_another_user_is_not_taken_for_dead(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = holder_of(os.getpid()).partition(":")[0]
    monkeypatch.setattr(holder, "_PROC", tmp_path)

    def refuse(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert not is_dead(f"{place}:1:1")


def test_a_system_that_does_not_tell_gives_no_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(holder, "_PROC", tmp_path)
    holder._place.cache_clear()
    try:
        assert holder_of(os.getpid()) == ""
    finally:
        holder._place.cache_clear()

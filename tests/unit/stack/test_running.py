"""Folders of throw-away stacks that a killed process left behind."""

import fcntl
import os
import tempfile
from pathlib import Path

import pytest

from workers.stack.running import remove_left_behind


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_of_nobody_is_removed_and_one_in_use_stays(temporary: Path) -> None:
    left, used, other = (temporary / name for name in ("memtend-throwaway-a", "memtend-throwaway-b", "memtend-demo-c"))
    for each in (left, used, other):
        (each / "run").mkdir(parents=True)
    lock = os.open(used, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    remove_left_behind()
    assert not left.exists()
    assert used.is_dir()
    assert other.is_dir()

    os.close(lock)
    remove_left_behind()
    assert not used.exists()
    assert other.is_dir()


def test_a_link_is_not_followed(temporary: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    kept = tmp_path_factory.mktemp("kept")
    (kept / "file").touch()
    (temporary / "memtend-throwaway-link").symlink_to(kept)
    remove_left_behind()
    assert (kept / "file").exists()


def test_a_folder_whose_supervisor_runs_stays(temporary: Path) -> None:
    home = temporary / "memtend-throwaway-a"
    (home / "run").mkdir(parents=True)
    lock = os.open(home / "run" / "supervisor.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    remove_left_behind()
    assert home.is_dir()
    os.close(lock)

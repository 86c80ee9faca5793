"""The version of what is installed."""

from importlib.metadata import version
from pathlib import Path

from support.command_line import CommandLine


def test_the_version_is_shown_where_nothing_runs(tmp_path: Path) -> None:
    assert CommandLine(home=tmp_path / "none").ok("--version").out == f"memtend {version('memtend')}\n"

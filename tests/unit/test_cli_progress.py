"""Progress bars: for a person at a terminal alone, beside what a command prints, and names in them are data."""

import ast
import io
import sys

import pytest
from support.repository import ROOT

from ops.cli.progress import progress_bar

HOSTILE = "[red]x[/red]\x1b[2J\x9b31m"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def draw(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, *, is_silent: bool = False) -> str:
    """Draw a bar, print a line meanwhile, and return what was printed."""
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    with progress_bar("storing", total=None, is_silent=is_silent) as bar:
        sys.stdout.write("a line\n")
        bar.reached(1, 4)
        bar.advance()
        bar.show(what=f"asking {HOSTILE}")
    return out.getvalue()


def test_a_terminal_shows_how_much_is_done_and_obeys_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    err = Terminal()
    assert draw(monkeypatch, err) == "a line\n"
    drawn = err.getvalue()
    assert "50%" in drawn
    assert "[red]x[/red]" in drawn
    assert "\x1b[2J" not in drawn
    assert "\x9b" not in drawn


@pytest.mark.parametrize(("stderr", "is_silent"), [(io.StringIO(), False), (Terminal(), True)], ids=["pipe", "json"])
def test_a_pipe_and_json_show_nothing(monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO, is_silent: bool) -> None:
    assert draw(monkeypatch, stderr, is_silent=is_silent) == "a line\n"
    assert stderr.getvalue() == ""


def test_every_bar_comes_from_one_place() -> None:
    users = set[str]()
    for path in (ROOT / "ops").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "rich.progress":
                users.add(path.relative_to(ROOT).as_posix())
    assert users == {"ops/cli/progress.py"}

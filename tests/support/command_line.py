"""Runs `memtend` commands in this process and returns output and exit code."""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ops.cli.main import run


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Output and exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """The output as JSON."""
        return json.loads(self.out)


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """`memtend` on one data folder."""

    home: Path

    def __call__(self, *words: str, stdin: bytes = b"") -> Answer:
        """Run the command; `--home` is added where the command takes it."""
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            for name in ("MEMTEND_HOME", "MEMTEND_BROKER_URL"):
                patch.delenv(name, raising=False)
            patch.setenv("MEMTEND_HOME", str(self.home))
            patch.setattr(sys, "argv", ["memtend", *words])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
            try:
                run()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
            else:
                code = 0
        out.flush()
        said = out.buffer
        assert isinstance(said, io.BytesIO)
        return Answer(code=code, out=said.getvalue().decode(), err=err.getvalue())

    def purge_dead_letters(self) -> None:
        """Delete all dead letters, which doctor complains of, behind a test that sent what cannot be done."""
        if letters := self.ok("dead", "list", "--limit", "1000", "--json").value:
            self.ok("dead", "purge", *(each["job_id"] for each in letters), "--yes")

    def ok(self, *words: str, stdin: bytes = b"") -> Answer:
        """Run the command and require exit code 0."""
        answer = self(*words, stdin=stdin)
        assert answer.code == 0, answer
        return answer

"""memtend's commands as a person types them: each in a process of its own, printing where the demo prints."""

import shlex
import subprocess
from pathlib import Path

from memcore.errors import MemoryStoreError
from memcore.programs import program_argv
from ops.cli.console import say

#: How long a command may take, in seconds: the longest stays until a run has ended.
_LIMIT_SECONDS = 1_800.0


class Commands:
    """Type commands on one data folder.

    Args:
        home: the folder.
    """

    def __init__(self, home: Path) -> None:
        self._home = home

    def type(self, *words: str) -> None:
        """Show the line, run it, and let it print what it prints. Raises MemoryStoreError when it ends badly."""
        say(f"\n$ {shlex.join(['memtend', *words])}")
        argv = [*program_argv("ops.cli.main"), *words, "--home", str(self._home)]
        code = subprocess.run(argv, stdin=subprocess.DEVNULL, timeout=_LIMIT_SECONDS, check=False).returncode
        if code:
            raise MemoryStoreError(f"memtend {words[0]} {words[1]} ended with exit code {code}")

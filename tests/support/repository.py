"""The tree as git knows it, for tests that hold the repository's rules."""

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: The folders that ship.
PRODUCT_FOLDERS = ("memcore", "ops", "scheduler", "tasks", "workers")


@cache
def tree_files() -> tuple[Path, ...]:
    """Return every file that is, or is about to be, in the repository, as absolute paths."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607  # git, wherever it is
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return tuple(path for name in sorted(filter(None, listed.split("\0"))) if (path := ROOT / name).is_file())


def source_files(*folders: str) -> tuple[Path, ...]:
    """Return the Python files of these top-level folders."""
    return tuple(path for path in tree_files() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in folders)

"""Break the product one line at a time, and say whether the tests see it: ``python tests/measure/mutants.py``.

Each mutant is a line of the product, what it becomes, and the tests that must fail then. The line is looked for in the
whole product, so that modules may be moved; a house test says when one is no longer there. A copy of the tree is
changed, never the tree itself.

    python tests/measure/mutants.py --list          whether every line is still there, once
    python tests/measure/mutants.py --area undo     one area
    python tests/measure/mutants.py                 all of them; exit code 1 when one survives
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from measure.mutated_areas import TESTS  # noqa: E402  # found by the line above
from measure.mutations import MUTANTS, Mutant  # noqa: E402

PRODUCT_FOLDERS = ("memcore", "ops", "scheduler", "tasks", "workers")

#: What the tests need of the tree.
COPIED = (*PRODUCT_FOLDERS, "tests", "docs", "docker", "compose.yml", "pyproject.toml", "README.md", "Makefile")

#: Seconds for the tests of one mutant; one that hangs is killed, and has been seen.
LIMIT_SECONDS = 600


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def places(root: Path, line: str) -> list[tuple[Path, int]]:
    """Return the files of the product that have the line, and where."""
    return _lines(root).get(line, [])


@cache
def _lines(root: Path) -> dict[str, list[tuple[Path, int]]]:
    """Return the places of every line of the product as it was when the first was asked for."""
    found: dict[str, list[tuple[Path, int]]] = {}
    for folder in PRODUCT_FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            for number, text in enumerate(path.read_text(encoding="utf-8").splitlines()):
                found.setdefault(text.strip(), []).append((path, number))
    return found


def fails(root: Path, tests: Sequence[str]) -> bool:
    """Return whether one of the tests fails, or none of them ends in time."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return True
    if done.returncode not in {0, 1}:
        # An error while a module is imported is seen by every test, and says nothing about them.
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return done.returncode == 1


def break_one(root: Path, mutant: Mutant) -> tuple[Path, str]:
    """Put the mutant into the tree; return the file and what it held."""
    ((path, number),) = places(root, mutant.line)
    before = path.read_text(encoding="utf-8")
    lines = before.splitlines(keepends=True)
    indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
    lines[number] = f"{indent}{mutant.becomes}\n"
    path.write_text("".join(lines), encoding="utf-8")
    return path, before


def copied(folder: Path) -> Path:
    """Return a copy of the tree, whose own modules are what its tests import."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy2(source, folder / name)
    return folder


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--area", choices=sorted(TESTS), action="append")
    parser.add_argument("--list", action="store_true", help="only look for the lines")
    given = parser.parse_args(argv)
    chosen = [each for each in MUTANTS if not given.area or each.area in given.area]
    lost = [each for each in chosen if len(places(ROOT, each.line)) != 1]
    for each in lost:
        say(f"found {len(places(ROOT, each.line))} times: {each.line}")
    say(f"{len(chosen) - len(lost)} of {len(chosen)} lines are there once")
    if given.list:
        return bool(lost)
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="memtend-mutants-") as folder:
        root = copied(Path(folder))
        for area in dict.fromkeys(each.area for each in chosen):
            tests = TESTS[area]
            if fails(root, tests):
                say(f"{area}: its tests fail without a mutant")
                return 2
            for each in (each for each in chosen if each.area == area and each not in lost):
                path, before = break_one(root, each)
                begin = monotonic()
                seen = fails(root, tests)
                path.write_text(before, encoding="utf-8")
                survivors += not seen
                became = "killed" if seen else "SURVIVED"
                say(f"{area}: {became} in {monotonic() - begin:.0f} s: {each.line}")
    say(f"{len(chosen) - len(lost) - survivors} killed, {survivors} survived, {len(lost)} not found")
    return 1 if survivors or lost else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

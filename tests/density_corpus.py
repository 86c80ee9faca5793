"""Texts whose density is known from where they come from, and the half of them on which nothing is tuned.

``fixtures/density`` holds what was written for it; to these come pieces of this repository's own files. A text's label
follows from its origin alone: source files, logs, traces, JSON, YAML, configuration, tables and shell transcripts are
dense; chat, narrative, minutes, letters, diaries, notes and what agents tell are sparse.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml
from repository import ROOT

FOLDER = Path(__file__).with_name("fixtures") / "density"

#: Files of this repository that are cut for the dense side, a piece of each.
FILES = (
    "memcore/ids.py",
    "memcore/clock.py",
    "memcore/errors.py",
    "memcore/frozen.py",
    "memcore/models.py",
    "memcore/backends/mem0/payload.py",
    "memcore/backends/mem0/search.py",
    "memcore/embedding/sparse_vector.py",
    "memcore/jobs/queues.py",
    "memcore/ledger/due.py",
    "memcore/ledger/engine.py",
    "memcore/ledger/runs.py",
    "memcore/maintenance/selection.py",
    "memcore/maintenance/undo.py",
    "memcore/retrieval/diversity.py",
    "memcore/retrieval/linear.py",
    "memcore/retrieval/rrf.py",
    "tasks/maintain.py",
    "tasks/store.py",
    "workers/desk.py",
    "workers/groups.py",
    "workers/task.py",
    "scheduler/sweep.py",
    "scheduler/tick.py",
    "ops/cli/agents.py",
    "ops/cli/doctor.py",
    "tests/conftest.py",
    "tests/repository.py",
    "tests/databases.py",
    "tests/servers.py",
    "Makefile",
    "compose.yml",
    "docker/worker.Dockerfile",
    "pyproject.toml",
    "constraints.txt",
    ".gitignore",
)

#: Lines of a piece, which begins a third into its file: past the docstring and the imports, before the end.
PIECE_LINES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One text.

    Attributes:
        kind: where such a text comes from.
        language: of its prose, or of the comments and strings in it.
        trap: what makes it look like the other side; empty when nothing does.
        held_out: whether it is kept from tuning.
    """

    text: str
    density: str
    kind: str
    language: str
    trap: str = ""
    held_out: bool


@cache
def samples() -> tuple[Sample, ...]:
    """Return all texts; in each group the second, fourth, sixth and so on are held out."""
    return tuple(
        Sample(**group, text=text, held_out=index % 2 == 1)
        for group, texts in _groups()
        for index, text in enumerate(texts)
    )


def _groups() -> Iterator[tuple[dict[str, str], list[str]]]:
    for path in sorted(FOLDER.glob("*.yaml")):
        for group in yaml.safe_load(path.read_text(encoding="utf-8")):
            yield {key: value for key, value in group.items() if key != "texts"}, group["texts"]
    yield {"density": "dense", "kind": "repository", "language": "en"}, [_piece(ROOT / name) for name in FILES]


def _piece(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    start = len(lines) // 3
    return "\n".join(lines[start : start + PIECE_LINES])

"""Compares the product with snapshots in fixtures/frozen of what must not change."""

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from support.repository import ROOT

#: Where the snapshots are.
FOLDER = ROOT / "tests" / "fixtures" / "frozen"

#: Set to 1, it writes the snapshots anew instead of comparing.
RENEW = "MEMTEND_TEST_RENEW"

#: Each thing by its name, with what must not change about it.
Facts = Mapping[str, str]


def require_frozen(subject: str, found: Facts, *, renew: str, may_grow: bool = False) -> None:
    """Fail unless the snapshot of a subject says the same.

    Args:
        subject: the name of its file.
        found: what the product has now.
        renew: the test file that writes it anew.
        may_grow: whether new things pass.
    """
    path = FOLDER / f"{subject}.json"
    if os.environ.get(RENEW) == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(dict(sorted(found.items())), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    frozen: Facts = json.loads(path.read_text(encoding="utf-8"))
    lines = differences(frozen, found, may_grow=may_grow)
    command = f"{RENEW}=1 .venv/bin/python -m pytest {renew} -n 0 -k {subject}"
    assert not lines, "\n".join([f"{subject} must not change:", *lines, f"If it is meant: {command}"])


def differences(frozen: Facts, found: Facts, *, may_grow: bool) -> list[str]:
    """Return a line for each thing that vanished, changed or is new."""
    lines = [f"  vanished: {name} ({frozen[name]})" for name in sorted(frozen.keys() - found.keys())]
    lines += [
        f"  changed:  {name}: {frozen[name]} -> {found[name]}"
        for name in sorted(frozen.keys() & found.keys())
        if frozen[name] != found[name]
    ]
    if not may_grow:
        lines += [f"  new:      {name} ({found[name]})" for name in sorted(found.keys() - frozen.keys())]
    return lines


def key_paths(value: Any, path: str, *, open_maps: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the path of every key of a JSON value; rows of a list share their paths.

    Args:
        value: as json.loads gives it.
        path: what the paths begin with.
        open_maps: names of keys whose own keys are data, not words of ours.
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            yield f"{path}.{name}"
            if name not in open_maps:
                yield from key_paths(inner, f"{path}.{name}", open_maps=open_maps)
    elif isinstance(value, list):
        for inner in value:
            yield from key_paths(inner, f"{path}[]", open_maps=open_maps)

"""What an extra of memtend installs, as a folder of links to this environment's libraries: nothing is downloaded."""

import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.repository import PRODUCT_FOLDERS, ROOT


def declared() -> dict[str, list[Requirement]]:
    """Return the requirements of pyproject.toml by extra; those without an extra under the empty name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {"": project["dependencies"], **project["optional-dependencies"]}
    return {extra: [Requirement(line) for line in lines] for extra, lines in extras.items()}


def closure(*extras: str) -> dict[str, Distribution]:
    """Return what `pip install memtend[EXTRAS]` installs beside memtend itself, as this environment has it."""
    ours = declared()
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    pending = [requirement for extra in ("", *extras) for requirement in ours[extra]]
    while pending:
        wanted = pending.pop()
        name, asked = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if (name, asked) in seen or not _applies(wanted, {""}):
            continue
        seen.add((name, asked))
        if name == "memtend":
            pending += [requirement for extra in asked for requirement in ours[extra]]
            continue
        found[name] = distribution(name)
        for line in found[name].requires or ():
            further = Requirement(line)
            if _applies(further, {"", *asked}):
                further.marker = None
                pending.append(further)
    return found


def library_folder(folder: Path, *extras: str, ours: Path = ROOT) -> Path:
    """Fill a folder with links to our own folders and to all that the extras install; it serves as PYTHONPATH."""
    folder.mkdir(parents=True)
    for capacity in PRODUCT_FOLDERS:
        if (ours / capacity).is_dir():
            (folder / capacity).symlink_to(ours / capacity)
    for each in closure(*extras).values():
        for top in {path.parts[0] for path in each.files or () if path.parts[0] not in {"..", "__pycache__"}}:
            if not (folder / top).exists():
                (folder / top).symlink_to(Path(str(each.locate_file(top))))
    return folder


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    return requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras)

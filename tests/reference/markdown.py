"""The pages of the repository, parsed for the tests that check them."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from support.repository import ROOT, tree_files

from reference.page import MARK

DOCS = ROOT / "docs"
README = ROOT / "README.md"

_FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")


@cache
def pages() -> tuple[Path, ...]:
    """Return every page: README, docs and what else stands at the top."""
    return tuple(path for path in tree_files() if path.suffix == ".md" and path.parent in {ROOT, *_folders()})


def text_of(page: Path) -> str:
    """Return a page as it stands."""
    return page.read_text(encoding="utf-8")


def written(page: Path) -> str:
    """Return what people wrote on a page: what stands before the mark."""
    text = text_of(page)
    return text.partition(MARK)[0]


def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return _FENCE.sub("", text_of(page))


def blocks(page: Path, *languages: str) -> Iterator[str]:
    """Yield the blocks of code in one of these languages, unindented."""
    for language, block in _FENCE.findall(text_of(page)):
        if language in languages:
            margin = min((len(line) - len(line.lstrip()) for line in block.splitlines() if line.strip()), default=0)
            yield "".join(f"{line[margin:]}\n" for line in block.splitlines())


def links(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the target and the anchor of each link to a file of ours; either may be empty."""
    for target in _LINK.findall(prose(page)):
        if "://" not in target and not target.startswith("mailto:"):
            path, _, anchor = target.partition("#")
            yield path, anchor


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as the site and the code hosts write them."""
    return frozenset(_slug(heading) for heading in _HEADING.findall(prose(page)))


@cache
def _folders() -> frozenset[Path]:
    return frozenset(path.parent for path in tree_files() if DOCS in path.parents)


def _slug(heading: str) -> str:
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    letters = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", letters).strip().lower())

"""A page of docs, most of them of docs/reference: a head that people write, then a mark, then what the code says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.repository import ROOT

DOCS = ROOT / "docs"

#: Everything up to this line is written by hand.
MARK = "<!-- Generated from here on: make reference -->\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page.

    Attributes:
        name: of its file.
        folder: where it lies.
        generate: returns the Markdown behind the mark.
    """

    name: str
    folder: Path = DOCS / "reference"
    generate: Callable[[], str]

    @property
    def path(self) -> Path:
        return self.folder / self.name

    def written(self) -> str:
        """Return what the file holds behind the mark."""
        head, mark, generated = self.path.read_text(encoding="utf-8").partition(MARK)
        assert mark, f"{self.name} has lost its mark after: {head[-80:]!r}"
        return generated.strip()

    def generated(self) -> str:
        """Return what the file should hold behind the mark."""
        return self.generate().strip()

    def renew(self) -> None:
        """Write the part behind the mark."""
        head = self.path.read_text(encoding="utf-8").partition(MARK)[0]
        self.path.write_text(f"{head}{MARK}\n{self.generated()}\n", encoding="utf-8")


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; a vertical bar in a cell is escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)

"""Migrations of one tree follow each other: two changes that land at once must not take one number."""

import re

import pytest
from support.repository import ROOT

MIGRATIONS = ROOT / "memcore" / "ledger" / "migrations"
REVISION = re.compile(r'^(down_)?revision = (?:"(\w+)"|None)$', re.MULTILINE)


@pytest.mark.parametrize("tree", ["ledger", "journal", "history"])
def test_the_revisions_of_a_tree_are_one_line(tree: str) -> None:
    pairs = [REVISION.findall(path.read_text(encoding="utf-8")) for path in (MIGRATIONS / tree).rglob("*.py")]
    follows = {own: before for (_, own), (_, before) in filter(None, pairs)}
    assert len(follows) == len([pair for pair in pairs if pair])
    # Each follows one that is there, or none, and no two follow the same.
    assert sorted(follows.values()) == sorted({"", *follows} - {max(follows, key=lambda name: int(name.split("_")[1]))})

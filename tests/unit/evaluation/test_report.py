"""The page of an evaluation: well-formed, self-contained, and harmless whatever people wrote."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from support.evaluation_pages import AFTER, BEFORE, HOSTILE, evaluation_page, judged

from memcore.errors import MemoryInputError
from memcore.evaluation.asking import SHOWN_CHARS
from memcore.evaluation.results import Asked
from ops.cli.memory.evaluation_report import MOST_WRONG, check_report


def tree(text: str) -> ET.Element:
    return ET.fromstring(text.partition("\n")[2])  # noqa: S314  # our own page


def said(element: ET.Element | None) -> str:
    assert element is not None
    return "".join(element.itertext())


def test_hostile_texts_are_shown_and_do_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["memtend", "eval", HOSTILE])
    text, _ = evaluation_page(tmp_path, [BEFORE, AFTER], [AFTER, BEFORE])
    found = tree(text)
    assert {each.tag for each in found.iter()}.isdisjoint({"script", "link", "img", "iframe", "form", "a"})
    attributes = {name for each in found.iter() for name in each.attrib}
    assert not {name for name in attributes if name.startswith("on") or name in {"src", "href", "style"}}
    # What people wrote is text and labels alone: no other attribute and no rule of style names an address.
    named = [value for each in found.iter() for name, value in each.attrib.items() if name != "aria-label"]
    named.append(said(found.find(".//style")))
    assert not re.search(r"//|url\(|@import", "".join(named))
    # As people wrote it, but for what acts instead of being seen.
    assert "<script src='http://evil'>alert(1)</script>\\x07\\x1b[31m\\u202e & \"quoted\" {{ 7 * 7 }}" in said(found)
    assert "49" not in said(found.find(".//article"))


def test_its_figures_are_those_of_the_results(tmp_path: Path) -> None:
    text, (first, second) = evaluation_page(tmp_path, [BEFORE, AFTER], [AFTER, BEFORE])
    measures, *apart = tree(text).findall(".//table")
    rows = {said(row[0]).partition("share")[0]: [cell.text for cell in row[1:]] for row in measures.findall("tbody/tr")}
    columns = (first.measures, first.after[0].measures, second.measures, second.after[0].measures)
    means = [next(each.mean for each in found if each.measure == "recall") for found in columns]
    assert rows["recall"] == [f"{mean:.3f}" for mean in means] == ["1.000", "0.250", "0.250", "1.000"]
    shown = [[tuple(map(said, row)) for row in table.findall("tbody/tr")] for table in apart]
    figures = [
        [(each.measure, f"{each.mean:+.3f}", f"{each.low:+.3f} to {each.high:+.3f}", each.verdict) for each in found]
        for found in (
            first.after[0].beside_before, second.beside_first, second.after[0].beside_before,
            second.after[0].beside_first,
        )
    ]  # fmt: skip
    assert shown == figures
    assert "after 30 days: evidence found -0.750 (" in said(tree(text))
    assert "3 memories were merged into 1" in said(tree(text))


def test_what_maintenance_lost_stands_first_and_the_list_is_bounded(tmp_path: Path) -> None:
    many = MOST_WRONG + 20
    before = Asked(days=0, judged=[judged(n, float(n == many - 1)) for n in range(many)])
    text, _ = evaluation_page(tmp_path, [before, Asked(days=1, judged=[judged(n, 0.0) for n in range(many)])])
    articles = tree(text).findall(".//article")
    assert len(articles) == MOST_WRONG
    assert said(articles[0]).strip().startswith(f"{many - 1}: ")
    assert "it was right before maintenance" in said(articles[0])
    assert "it was right" not in said(articles[1])
    assert "20 more are left out." in said(tree(text))
    assert max(len(said(each)) for article in articles for each in article.iter("li")) < 2 * SHOWN_CHARS


def test_nothing_went_wrong(tmp_path: Path) -> None:
    text, _ = evaluation_page(tmp_path, [BEFORE])
    assert "None." in said(tree(text))
    assert "maintenance" not in said(tree(text).find("body"))


@pytest.mark.parametrize("name", ["", "missing/report.html"])
def test_a_page_that_cannot_be_written_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(MemoryInputError, match="report: must be a file in a folder that exists"):
        check_report(tmp_path / name)

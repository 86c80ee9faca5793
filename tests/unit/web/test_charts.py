"""Charts: whatever the numbers and the texts, a picture is whole, stays inside, and says what its table says."""

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from xml.etree.ElementTree import Element, fromstring  # of texts that the test has made

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.thorough import examples

from ops.web.charts import Figure, Node, Point, bars, graph, lines, lying_bars, points
from ops.web.pages import number

SVG = "{http://www.w3.org/2000/svg}"

#: Width of a character at the largest size of the stylesheet, a phone's, in units: of digits and most letters.
CHARACTER = 8.0

quickly = settings(max_examples=examples(30), deadline=None)

SINCE = datetime(2026, 3, 1, tzinfo=UTC)
UNTIL = SINCE + timedelta(days=1)

TEXTS = st.text(max_size=40) | st.sampled_from(
    ["<script>alert(1)</script>", "\"'&]]>", "\x00\x0b\ud800\ufffe", "\u202e"]
)
NUMBERS = st.integers(0, 10**6) | st.floats() | st.integers(-(10**30), 10**30)
ADDRESSES = st.none() | st.just("/console/runs?a=1&b=2")
KINDS = st.sampled_from(["instruct", "inform", "reference", "quarantined", "unknown"])


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], dict[str, list[float]]]:
    labels = draw(st.lists(TEXTS, max_size=8))
    names = draw(st.lists(TEXTS, min_size=1, max_size=6, unique=True))
    column = st.lists(NUMBERS, min_size=len(labels), max_size=len(labels))
    return labels, {name: draw(column) for name in names}


def parsed(figure: Figure) -> Element:
    found = fromstring(str(figure.svg))  # noqa: S314  # see above
    for each in found.iter():
        assert each.tag.removeprefix(SVG) in {
            "svg", "title", "desc", "g", "a", "rect", "line", "polygon", "polyline", "circle", "text"
        }  # fmt: skip
        assert not [name for name in each.attrib if name == "style" or name.startswith("on")]
    children = [each.tag.removeprefix(SVG) for each in found]
    assert children[:2] == ["title", "desc"]
    assert found.attrib["aria-labelledby"].split() == [found[0].attrib["id"], found[1].attrib["id"]]
    return found


def numbers_in(each: Element, *names: str) -> list[float]:
    return [float(each.attrib[name]) for name in names]


def spots(root: Element) -> list[tuple[float, float]]:
    """Return the corners of all that is drawn."""
    found = list[tuple[float, float]]()
    for each in root.iter():
        tag = each.tag.removeprefix(SVG)
        if tag == "rect":
            x, y, width, height = numbers_in(each, "x", "y", "width", "height")
            assert width >= 0
            assert height >= 0
            found += [(x, y), (x + width, y + height)]
        elif tag == "circle":
            x, y, r = numbers_in(each, "cx", "cy", "r")
            found += [(x - r, y - r), (x + r, y + r)]
        elif tag == "line":
            x, y, to_x, to_y = numbers_in(each, "x1", "y1", "x2", "y2")
            found += [(x, y), (to_x, to_y)]
        elif tag in {"polygon", "polyline"}:
            corners = (map(float, spot.split(",")) for spot in each.attrib["points"].split())
            found += [(x, y) for x, y in corners]
        elif tag == "text":
            x, y = numbers_in(each, "x", "y")
            width = CHARACTER * len(each.text or "")
            left = x - {"start": 0.0, "middle": 0.5, "end": 1.0}[each.attrib["class"]] * width
            found += [(left, y - 8), (left + width, y + 2)]
    return found


def assert_inside(root: Element) -> None:
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    outside = [spot for spot in spots(root) if not (-0.5 <= spot[0] <= width + 0.5 and -0.5 <= spot[1] <= height + 0.5)]
    assert outside == []


def titled(root: Element, tag: str) -> list[tuple[str, Element]]:
    return [(str(each[0].text), each) for each in root.iter(f"{SVG}{tag}") if len(each)]


def said_by_table(figure: Figure, *, zeros: bool) -> list[str]:
    """Return what the marks of a picture must say, by its table."""
    return [
        f"{series}, {row[0].text}: {cell.text}"
        for row in figure.rows
        for series, cell in zip(figure.head[1:], row[1:], strict=True)
        if zeros or cell.text != "0"
    ]


@pytest.mark.parametrize(
    ("draws", "tag", "zeros"), [(bars, "rect", False), (lying_bars, "rect", False), (lines, "circle", True)]
)
@quickly
@given(table=tables(), title=TEXTS)
def test_whatever_the_numbers_the_picture_is_whole_inside_and_as_its_table(
    draws: Callable[..., Figure], tag: str, zeros: bool, table: tuple[list[str], dict[str, list[float]]], title: str
) -> None:
    labels, series = table
    figure = draws("one", title, title, labels, series, of="day")
    root = parsed(figure)
    assert_inside(root)
    marks = titled(root, tag)
    assert sorted(said for said, _ in marks) == sorted(said_by_table(figure, zeros=zeros))
    assert len(figure.rows) == len(labels)
    assert root.attrib["role"] == "img"


@quickly
@given(values=st.lists(st.integers(0, 10**9), min_size=1, max_size=12))
def test_the_size_of_a_bar_is_its_number(values: Sequence[int]) -> None:
    labels = [f"day {place}" for place in range(len(values))]
    for figure, side in (
        (bars("one", "t", "a", labels, {"gone": values}, of="day"), "height"),
        (lying_bars("one", "t", "a", labels, {"gone": values}, of="day"), "width"),
    ):
        drawn = {said: float(each.attrib[side]) for said, each in titled(parsed(figure), "rect")}
        largest = max(values)
        for label, value in zip(labels, values, strict=True):
            if value:
                full = drawn[f"gone, day {values.index(largest)}: {number(largest)}"]
                assert drawn[f"gone, {label}: {number(value)}"] == pytest.approx(full * value / largest, abs=0.02)


def test_bars_are_stacked_without_a_gap() -> None:
    figure = bars("one", "t", "a", ["a"], {"x": [3], "y": [4], "z": [0]}, of="day")
    (_, x), (_, y) = titled(parsed(figure), "rect")
    x_top, y_top, y_height = *numbers_in(x, "y"), *numbers_in(y, "y", "height")
    assert y_top + y_height == pytest.approx(x_top, abs=0.02)
    assert figure.legend == (("s0", "x"), ("s1", "y"), ("s2", "z"))


@quickly
@given(
    tracks=st.dictionaries(
        TEXTS,
        st.lists(
            st.builds(
                Point,
                at=st.floats(-0.5, 1.5).map(lambda share: SINCE + share * (UNTIL - SINCE)),
                label=TEXTS,
                address=ADDRESSES,
                weight=NUMBERS,
            ),
            max_size=8,
        ),
        max_size=5,
    )
)
def test_points_lie_in_their_time_and_each_stands_in_the_table(tracks: dict[str, list[Point]]) -> None:
    figure = points("one", "t", "a", tracks, since=SINCE, until=UNTIL)
    root = parsed(figure)
    assert_inside(root)
    shown = [each for track in tracks.values() for each in track if SINCE <= each.at <= UNTIL]
    assert len(titled(root, "circle")) == len(figure.rows) == len(shown)
    assert [row[0].text for row in figure.rows] == sorted(row[0].text for row in figure.rows)
    links = [each.attrib["href"] for each in root.iter(f"{SVG}a")]
    assert len(links) == sum(each.address is not None for each in shown)
    assert root.attrib["role"] == ("group" if links else "img")


@quickly
@given(
    kinds=st.lists(st.tuples(KINDS, st.integers(-3, 3), TEXTS, ADDRESSES), max_size=20),
    edges=st.lists(st.tuples(st.integers(0, 25), st.integers(0, 25)), max_size=30),
)
def test_a_graph_has_each_node_and_only_edges_between_its_nodes(
    kinds: list[tuple[str, int, str, str | None]], edges: list[tuple[int, int]]
) -> None:
    nodes = [
        Node(node_id=str(place), layer=layer, label=label, word=kind, kind=kind, address=address)
        for place, (kind, layer, label, address) in enumerate(kinds)
    ]
    figure = graph("one", "t", "a", nodes, [(str(one), str(other)) for one, other in edges])
    root = parsed(figure)
    assert_inside(root)
    assert len(titled(root, "g")) == len(figure.rows) == len(nodes)
    drawn = [each for each in root.iter(f"{SVG}line") if each.attrib["class"] == "edge"]
    assert len(drawn) == sum(max(edge) < len(nodes) for edge in edges)


def test_each_authority_has_a_shape_of_its_own_and_its_word() -> None:
    kinds = ["instruct", "inform", "reference", "quarantined", "unknown"]
    nodes = [Node(node_id=kind, layer=0, label="m", word=kind, kind=kind) for kind in kinds]
    drawn = [each for _, each in titled(parsed(graph("one", "t", "a", nodes, [])), "g")]
    corners = {len(each[1].attrib.get("points", "").split()) for each in drawn}
    slanted = [each[1].attrib["points"].split()[0].split(",")[0] for each in drawn[:3]]
    assert (corners, len(set(slanted))) == ({0, 4, 6, 8}, 2)
    assert [str(each[0].text) for each in drawn] == [f"m, {kind}" for kind in kinds]


def test_texts_stay_texts() -> None:
    hostile = "</title><script>alert(1)</script>"
    figure = bars("one", hostile, hostile, [hostile], {hostile: [1]}, of=hostile)
    assert "<script" not in figure.svg
    assert re.search(r"&lt;script&gt;", figure.svg)
    assert {each.text for each in parsed(figure).iter(f"{SVG}desc")} == {hostile}


def test_a_series_of_another_length_is_refused_and_what_is_no_number_is_none() -> None:
    with pytest.raises(ValueError, match="each series must have a value for each label"):
        bars("one", "t", "a", ["a"], {"x": [1, 2]}, of="day")
    figure = bars("one", "t", "a", ["a", "b", "c"], {"x": [math.nan, -3, math.inf]}, of="day")
    assert [row[1].text for row in figure.rows][:2] == ["0", "0"]

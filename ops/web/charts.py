"""Charts as SVG without script: stacked bars, lines, points on a time axis, a layered graph; each with its table."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup, escape

from ops.web.pages import fenced, number, when

#: The width of a picture in its own units, and pixels of a unit where its column is wide enough.
WIDTH, _PIXELS = 480.0, 1.5

#: Space for the names of values on the left, of places below, and beside the last one.
_LEFT, _BELOW, _EDGE = 56.0, 24.0, 10.0

#: Height of the plot of bars and lines, and of a row of names or of points.
_PLOT, _ROW = 150.0, 26.0

#: Width of the names of rows, and the characters that fit there at the largest size of the stylesheet.
_NAMES, _NAME_CHARS = 120.0, 14

#: Most names below a plot, and their longest.
_PLACES, _PLACE_CHARS = 4, 12

#: A node of a graph: its size, the space between layers and between neighbours, and the characters of its texts.
_NODE_WIDTH, _NODE_HEIGHT, _BETWEEN, _GAP, _NODE_CHARS = 96.0, 34.0, 44.0, 10.0, 11

#: Largest value of a chart: beyond it floating point has no steps that could be drawn.
_MOST = 10**15

#: What XML has no place for, and what controls or turns the text.
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A part of a table's row, which may lead somewhere."""

    text: str
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A picture and its numbers.

    Attributes:
        legend: the class and the name of each series.
        head: names of the table's columns; the rows have as many cells.
    """

    title: str
    about: str
    svg: Markup
    legend: tuple[tuple[str, str], ...] = ()
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Something that happened at a time; its circle grows with its weight."""

    at: datetime
    label: str
    address: str | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of a graph; layers go from left to right.

    Attributes:
        kind: a class of the stylesheet and a shape, see ``_SHAPES``; ``word`` says the same.
    """

    node_id: str
    layer: int
    label: str
    word: str
    kind: str
    address: str | None = None


def bars(
    name: str, title: str, about: str, labels: Sequence[str], series: Mapping[str, Sequence[float]], *, of: str
) -> Figure:
    """Return stacked bars, one for each label; ``of`` names what the labels are."""
    values = _cleaned(series, len(labels))
    top, step = _top(sum(each) for each in zip(*values.values(), strict=True)), _step(len(labels))
    drawn = [_axis(top), _names_below(labels, lambda place: _LEFT + (place + 0.5) * step)]
    for place, label in enumerate(labels):
        stacked = 0.0
        for index, (of_series, each) in enumerate(values.items()):
            if each[place]:
                stacked += each[place]
                height = each[place] / top * _PLOT
                y = _EDGE + _PLOT - stacked / top * _PLOT
                said = f"{of_series}, {label}: {number(each[place])}"
                drawn.append(_rect(_LEFT + (place + 0.1) * step, y, 0.8 * step, height, f"s{index}", said))
    return _with_table(name, title, about, labels, values, drawn, height=_EDGE + _PLOT + _BELOW, of=of)


def lying_bars(
    name: str, title: str, about: str, labels: Sequence[str], series: Mapping[str, Sequence[float]], *, of: str
) -> Figure:
    """Return stacked bars that lie, each beside its name."""
    values = _cleaned(series, len(labels))
    top, drawn = max(map(sum, zip(*values.values(), strict=True)), default=0) or 1, list[Markup]()
    for place, label in enumerate(labels):
        y, x = _EDGE + place * _ROW, _NAMES
        drawn.append(_text(_NAMES - 6, y + 14, _cut(label, _NAME_CHARS), "end"))
        for index, (of_series, each) in enumerate(values.items()):
            if each[place]:
                width = each[place] / top * (WIDTH - _NAMES - _EDGE)
                said = f"{of_series}, {label}: {number(each[place])}"
                drawn.append(_rect(x, y, width, _ROW - 8, f"s{index}", said))
                x += width
    return _with_table(name, title, about, labels, values, drawn, height=2 * _EDGE + len(labels) * _ROW, of=of)


def lines(
    name: str, title: str, about: str, labels: Sequence[str], series: Mapping[str, Sequence[float]], *, of: str
) -> Figure:
    """Return a line for each series, the first one over its area."""
    values = _cleaned(series, len(labels))
    top, step = _top(value for each in values.values() for value in each), _step(len(labels) - 1)
    drawn = [_axis(top), _names_below(labels, lambda place: _LEFT + place * step)]
    for index, (of_series, each) in enumerate(values.items()):
        spots = [(_LEFT + place * step, _EDGE + _PLOT - value / top * _PLOT) for place, value in enumerate(each)]
        if not spots:
            continue
        path = " ".join(f"{_at(x)},{_at(y)}" for x, y in spots)
        if not index:
            ground = _at(_EDGE + _PLOT)
            closed = f"{_at(spots[0][0])},{ground} {path} {_at(spots[-1][0])},{ground}"
            drawn.append(_element("polygon", "", points=closed, **{"class": "area s0"}))
        drawn.append(_element("polyline", "", points=path, **{"class": f"line l{index}"}))
        for (x, y), label, value in zip(spots, labels, each, strict=True):
            said = f"{of_series}, {label}: {number(value)}"
            drawn.append(_element("circle", _said(said), cx=_at(x), cy=_at(y), r="2.5", **{"class": f"dot s{index}"}))
    return _with_table(name, title, about, labels, values, drawn, height=_EDGE + _PLOT + _BELOW, of=of)


def points(
    name: str, title: str, about: str, tracks: Mapping[str, Sequence[Point]], *, since: datetime, until: datetime
) -> Figure:
    """Return a row of points for each name, on one axis of time; what lies outside of it is left out."""
    length, height = (until - since).total_seconds() or 1.0, 2 * _EDGE + len(tracks) * _ROW + _BELOW
    width, drawn, rows = WIDTH - _NAMES - 2 * _EDGE, list[Markup](), list[tuple[datetime, tuple[Cell, ...]]]()
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        at = f"{since + (until - since) * share:%m-%d %H:%M}"
        drawn.append(_text(_NAMES + _EDGE + share * width, height - 8, at, anchor))
    for index, (track, all_points) in enumerate(tracks.items()):
        shown = sorted((each for each in all_points if since <= each.at <= until), key=lambda each: each.at)
        y, most = _EDGE + (index + 0.5) * _ROW, max((_clean(each.weight) for each in shown), default=0.0) or 1.0
        drawn.append(_text(_NAMES - 6, y + 4, _cut(track, _NAME_CHARS), "end"))
        drawn.append(_line(_NAMES + _EDGE, y, WIDTH - _EDGE, y))
        for each in shown:
            x = _NAMES + _EDGE + (each.at - since).total_seconds() / length * width
            radius = 3.0 + 6.0 * math.sqrt(_clean(each.weight) / most)
            circle = _element(
                "circle", _said(f"{track}, {when(each.at)}: {each.label}"), cx=_at(x), cy=_at(y), r=_at(radius),
                **{"class": f"point s{index}"},
            )  # fmt: skip
            drawn.append(_linked(circle, each.address, f"{track}, {when(each.at)}: {each.label}"))
            rows.append((each.at, (_cell(when(each.at)), _cell(track), _cell(each.label, each.address))))
    table = tuple(row for _, row in sorted(rows, key=lambda each: each[0]))
    svg = _svg(name, title, about, drawn, height=height, is_linked=any(row[-1].address for row in table))
    return Figure(title=_plain(title), about=_plain(about), svg=svg, head=("Time", "What", "Which"), rows=table)


def graph(name: str, title: str, about: str, nodes: Sequence[Node], edges: Sequence[tuple[str, str]]) -> Figure:
    """Return nodes in layers, with a line for each edge between two of them."""
    layers = {
        layer: [each for each in nodes if each.layer == layer] for layer in sorted({each.layer for each in nodes})
    }
    step = _NODE_HEIGHT + _GAP
    height = 2 * _EDGE + max((len(each) for each in layers.values()), default=0) * step
    spots, drawn, shapes = dict[str, tuple[float, float]](), list[Markup](), list[Markup]()
    for column, layer in enumerate(layers.values()):
        for place, each in enumerate(layer):
            x, y = _EDGE + column * (_NODE_WIDTH + _BETWEEN), (height - len(layer) * step) / 2 + place * step + _GAP / 2
            spots[each.node_id] = x, y
            said = f"{each.label}, {each.word}"
            drawn_node = _said(said) + _shape(each.kind, x, y)
            for down, text in ((15, each.label), (27, each.word)):
                drawn_node += _text(x + _NODE_WIDTH / 2, y + down, _cut(text, _NODE_CHARS), "middle")
            drawn_node = _element("g", drawn_node, **{"class": f"node {each.kind}"})
            shapes.append(_linked(drawn_node, each.address))
    joined = [(one, other) for one, other in edges if one in spots and other in spots]
    for one, other in joined:
        (x, y), (to_x, to_y), middle = spots[one], spots[other], _NODE_HEIGHT / 2
        drawn.append(_line(x + _NODE_WIDTH, y + middle, to_x, to_y + middle, "edge"))
    labels = {each.node_id: each.label for each in nodes}
    into = {each: [labels[other] for one, other in joined if one == each] for each in spots}
    rows = tuple(
        (_cell(each.label, each.address), _cell(each.word), _cell(", ".join(into[each.node_id]) or "none"))
        for each in nodes
    )
    width = 2 * _EDGE + len(layers) * _NODE_WIDTH + max(0, len(layers) - 1) * _BETWEEN
    is_linked = any(each.address for each in nodes)
    svg = _svg(name, title, about, drawn + shapes, height=height, width=width, is_linked=is_linked)
    return Figure(
        title=_plain(title), about=_plain(about), svg=svg, head=("Memory", "Authority", "Made into"), rows=rows
    )


def _with_table(
    name: str, title: str, about: str, labels: Sequence[str], values: Mapping[str, Sequence[float]],
    drawn: Sequence[Markup], *, height: float, of: str,
) -> Figure:  # fmt: skip
    rows = (
        (_cell(label), *(_cell(number(each[place])) for each in values.values())) for place, label in enumerate(labels)
    )
    return Figure(
        title=_plain(title),
        about=_plain(about),
        svg=_svg(name, title, about, drawn, height=height),
        legend=tuple((f"s{index}", _plain(each)) for index, each in enumerate(values)),
        head=(_plain(of), *map(_plain, values)),
        rows=tuple(rows),
    )


def _clean(value: float) -> float:
    """Return a number as tables show it: none is below zero, and none is beyond what floating point counts."""
    return 0 if math.isnan(value) else round(min(max(value, 0), _MOST), 4) or 0


def _cleaned(series: Mapping[str, Sequence[float]], length: int) -> dict[str, list[float]]:
    """Return the values of each series. Raises ValueError where one has not as many as there are labels."""
    if any(len(each) != length for each in series.values()):
        raise ValueError("each series must have a value for each label")
    return {of_series: [_clean(value) for value in each] for of_series, each in series.items()}


def _top(values: Iterable[float]) -> float:
    """Return the end of an axis, a round number whose half is one too; no value is above it."""
    most = max(values, default=0.0)
    if not most:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next((power * each for each in (1, 2, 4, 6, 8) if power * each >= most), power * 10)


def _step(places: int) -> float:
    return (WIDTH - _LEFT - _EDGE) / max(places, 1)


def _axis(top: float) -> Markup:
    drawn = Markup("")
    for share in (0.0, 0.5, 1.0):
        y = _EDGE + _PLOT - share * _PLOT
        drawn += _line(_LEFT, y, WIDTH - _EDGE, y) + _text(_LEFT - 5, y + 4, _short(top * share), "end")
    return drawn


def _short(value: float) -> str:
    for power, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= power:
            return f"{value / power:.4g}{letter}"
    return f"{value:.3g}"


def _names_below(labels: Sequence[str], x_of: Callable[[int], float]) -> Markup:
    drawn, last = Markup(""), len(labels) - 1
    for place in sorted({round(last * share / (_PLACES - 1)) for share in range(_PLACES)} if labels else ()):
        # The first and the last one stay inside, however long they are.
        anchor = "start" if place == 0 else "end" if place == last else "middle"
        drawn += _text(
            _LEFT if place == 0 else x_of(place), _EDGE + _PLOT + 16, _cut(labels[place], _PLACE_CHARS), anchor
        )
    return drawn


#: By a node's kind the corners of its shape, as shares of its width and height; of a kind that is not here, an oval.
_SHAPES: dict[str, tuple[tuple[float, float], ...]] = {
    "instruct": ((0, 0), (1, 0), (1, 1), (0, 1)),
    "inform": ((0.08, 0), (0.92, 0), (1, 0.5), (0.92, 1), (0.08, 1), (0, 0.5)),
    "reference": ((0.08, 0), (1, 0), (0.92, 1), (0, 1)),
    "quarantined": ((0.1, 0), (0.9, 0), (1, 0.3), (1, 0.7), (0.9, 1), (0.1, 1), (0, 0.7), (0, 0.3)),
}


def _shape(kind: str, x: float, y: float) -> Markup:
    corners = _SHAPES.get(kind)
    if corners is None:
        return _element("rect", "", x=_at(x), y=_at(y), width=_at(_NODE_WIDTH), height=_at(_NODE_HEIGHT), rx="17")
    drawn = " ".join(f"{_at(x + right * _NODE_WIDTH)},{_at(y + down * _NODE_HEIGHT)}" for right, down in corners)
    return _element("polygon", "", points=drawn)


def _svg(
    name: str, title: str, about: str, drawn: Sequence[Markup], *, height: float, width: float = WIDTH,
    is_linked: bool = False,
) -> Markup:  # fmt: skip
    # What an image holds is no link for a screen reader: a picture with links is a group.
    said = _element("title", escape(_plain(title)), id=f"{name}-title")
    said += _element("desc", escape(_plain(about)), id=f"{name}-about")
    attributes = {
        "xmlns": "http://www.w3.org/2000/svg",
        "role": "group" if is_linked else "img",
        "aria-labelledby": f"{name}-title {name}-about",
        "class": "chart",
        "viewBox": f"0 0 {_at(width)} {_at(height)}",
        "width": _at(width * _PIXELS),
    }
    return _element("svg", said + Markup("").join(drawn), **attributes)


def _element(tag: str, inside: Markup | str, /, **attributes: str) -> Markup:
    # Put together as text: the formatting of Markup takes ten times as long, and a picture has hundreds of elements.
    given = "".join(f' {each}="{escape(value)}"' for each, value in attributes.items())
    return Markup(f"<{tag}{given}>{escape(inside)}</{tag}>")  # noqa: S704  # all parts are escaped


def _rect(x: float, y: float, width: float, height: float, kind: str, said: str) -> Markup:
    size = {"x": _at(x), "y": _at(y), "width": _at(width), "height": _at(height)}
    return _element("rect", _said(said), **size, **{"class": f"bar {kind}"})


def _line(x: float, y: float, to_x: float, to_y: float, kind: str = "grid") -> Markup:
    return _element("line", "", x1=_at(x), y1=_at(y), x2=_at(to_x), y2=_at(to_y), **{"class": kind})


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return _element("text", escape(_plain(text)), x=_at(x), y=_at(y), **{"class": anchor})


def _said(text: str) -> Markup:
    return _element("title", escape(_plain(text)))


def _linked(shape: Markup, address: str | None, said: str | None = None) -> Markup:
    """Return a shape as a link; one that has no text of its own says where it leads."""
    named = {} if said is None else {"aria-label": _plain(said)}
    return shape if address is None else _element("a", shape, href=address, **named)


def _cell(text: str, address: str | None = None) -> Cell:
    return Cell(text=_plain(text), address=address)


def _plain(text: str) -> str:
    """Return a text without what XML has no place for."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", fenced(text))


def _cut(text: str, most: int) -> str:
    plain = _plain(text)
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def _at(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")

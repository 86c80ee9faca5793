"""The picture of a lineage: both ways, bounded, with the authority of each memory as a word and a shape."""

import re
from collections.abc import Iterable

import pytest

from memcore.maintenance.provenance import MemoryHistory, MemoryState, MemoryTrace, TextLocation
from memcore.models.origin import Authority
from ops.web.routes.memories import MOST_NODES, lineage


def trace(
    memory_id: str, made_of: Iterable[str] = (), made_into: Iterable[str] = (), authority: Authority | None = None
) -> MemoryTrace:
    return MemoryTrace(
        memory_id=memory_id,
        state=MemoryState.LIVE,
        text_in=TextLocation.STORE,
        authority=authority,
        made_of=tuple(made_of),
        made_into=tuple(made_into),
    )


def history(*traces: MemoryTrace) -> MemoryHistory:
    return MemoryHistory(memory_id=traces[0].memory_id, agent_id="ada", memories=traces)


def test_what_a_memory_was_made_of_lies_left_and_what_it_was_made_into_right() -> None:
    drawn = lineage(
        history(
            trace("summary", made_of=["one", "two"], made_into=["next"], authority=Authority.INFORM),
            trace("one", made_into=["summary"], authority=Authority.REFERENCE),
            trace("two", made_into=["summary"], authority=Authority.QUARANTINED),
            trace("next", made_of=["summary"]),
        )
    )
    assert [[cell.text for cell in row] for row in drawn.rows] == [
        ["one", "reference", "this memory"],
        ["two", "quarantined", "this memory"],
        ["this memory", "inform", "next"],
        ["next", "unknown", "none"],
    ]
    assert drawn.rows[0][0].address == "/console/memories/one?agent=ada&id=one"
    assert str(drawn.svg).count('class="edge"') == 3
    for word in ("reference", "quarantined", "inform", "unknown"):
        assert f'class="node {word}"' in drawn.svg
    left = [float(x) for x in re.findall(r'<line [^>]*x1="([\d.]+)"', str(drawn.svg))]
    assert max(left) > min(left)
    assert "more are not drawn" not in drawn.about


@pytest.mark.parametrize("sources", [MOST_NODES - 1, MOST_NODES + 500])
def test_no_more_memories_are_drawn_than_fit_and_the_rest_is_counted(sources: int) -> None:
    ids = [f"{place:08}" for place in range(sources)]
    drawn = lineage(history(trace("all", made_of=ids), *(trace(each, made_into=["all"]) for each in ids)))
    assert len(drawn.rows) == MOST_NODES
    more = sources + 1 - MOST_NODES
    assert (f"{more} more are not drawn." in drawn.about) is (more > 0)


def test_a_deep_lineage_is_cut_and_one_that_leads_back_to_itself_ends() -> None:
    chain = [trace(str(place), made_of=[str(place + 1)], made_into=[str(place - 1)]) for place in range(1, 50)]
    drawn = lineage(history(trace("0", made_of=["1"]), *chain))
    assert [row[0].text for row in drawn.rows] == ["3", "2", "1", "this memory"]
    assert "46 more are not drawn." in drawn.about
    circle = lineage(history(trace("a", made_of=["b"], made_into=["b"]), trace("b", made_of=["a"], made_into=["a"])))
    assert len(circle.rows) == 2

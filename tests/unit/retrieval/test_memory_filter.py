"""Filters of memories before the prompt."""

import pytest
from support.scored_memories import ids, scored

from memcore.errors import MemoryInputError
from memcore.models.memory import NON_INFERABLE_TAG
from memcore.retrieval.filters import MemoryFilterStrategy, PassthroughMemoryFilter, TagBasedMemoryFilter

_FOUND = (
    scored("a", 0.9, tags=(NON_INFERABLE_TAG,)),
    scored("b", 0.8),
    scored("c", 0.7, tags=("x", NON_INFERABLE_TAG)),
)


def test_the_tag_based_filter_keeps_what_carries_the_tag_in_order() -> None:
    assert ids(TagBasedMemoryFilter().filter_for_injection(_FOUND)) == ["a", "c"]
    assert ids(TagBasedMemoryFilter("x").filter_for_injection(_FOUND)) == ["c"]


def test_the_passthrough_filter_keeps_everything() -> None:
    assert PassthroughMemoryFilter().filter_for_injection(_FOUND) is _FOUND


def test_both_keep_the_protocol_and_have_names() -> None:
    assert isinstance(TagBasedMemoryFilter(), MemoryFilterStrategy)
    assert isinstance(PassthroughMemoryFilter(), MemoryFilterStrategy)
    assert TagBasedMemoryFilter().strategy_name == "tag_based"
    assert PassthroughMemoryFilter().strategy_name == "passthrough"


def test_a_blank_tag_is_refused() -> None:
    with pytest.raises(MemoryInputError, match=r"^required_tag: "):
        TagBasedMemoryFilter(" ")

"""The warning for stores without the tag."""

import pytest

from memcore.models.memory import NON_INFERABLE_TAG
from memcore.retrieval.filters import StoreGuard


def test_an_agent_that_stores_without_the_tag_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    guard = StoreGuard()
    for agent_id in ("ada", "ada", "bob", "ada"):
        guard.check_now(agent_id, ("other",))
    said = [(each.message, each.agent_id, each.tag) for each in caplog.records]  # type: ignore[attr-defined]  # the event's fields
    event = "memory.filter.store_missing_tag"
    assert said == [(event, "ada", NON_INFERABLE_TAG), (event, "bob", NON_INFERABLE_TAG)]


def test_a_tagged_memory_is_no_reason_to_warn(caplog: pytest.LogCaptureFixture) -> None:
    StoreGuard().check_now("ada", ("x", NON_INFERABLE_TAG))
    assert caplog.records == []

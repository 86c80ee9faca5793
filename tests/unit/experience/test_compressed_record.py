import json

import pytest
from support.memories import record
from support.wiki_fixture import compressed

from memcore.experience import experience_of, record_of
from memcore.models.memory import COMPRESSED_TAG, MemoryCategory


def test_a_compressed_experience_comes_back_from_its_memory() -> None:
    made = compressed(1, says='naïve 日本 "quoted"\n\x01')
    found = experience_of(made.entry)
    assert found is not None
    assert record_of(found) == made
    assert made.entry.category is MemoryCategory.EPISODIC
    assert "naïve 日本" in made.entry.content, "people and keyword searches read it"
    assert next(iter(json.loads(made.entry.content))) == "strategic_decisions"


@pytest.mark.parametrize(
    "content", ["no JSON", "[]", "{}", "1", '{"strategic_decisions": ["x"]}', "[" * 50_000, '"\\ud800"']
)
def test_what_only_carries_the_tag_is_no_experience(content: str) -> None:
    assert experience_of(record("ada", content, tags=(COMPRESSED_TAG,)).entry) is None


def test_without_the_tag_nothing_is_an_experience() -> None:
    assert experience_of(record("ada", compressed(1).entry.content).entry) is None

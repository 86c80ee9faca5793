from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from examples.demo.evaluation import data_of
from examples.demo.fleet import FleetMemory, agents, evaluation, fleet, searches
from examples.demo.fleet import tests as memory_tests
from memcore.evaluation.dataset import read_dataset
from memcore.models.memory import MemoryCategory, MemoryStoreRequest

#: Two days that fall differently in week, month and year.
DAYS = (datetime(2026, 11, 21, 22, 30, tzinfo=UTC), datetime(2025, 3, 1, 0, 5, tzinfo=UTC))

#: How often, at least, a text is expected in each script.
SCRIPTS = {"ü": 10, "つばめ": 15, "🍡": 1, "。": 12}


@pytest.fixture(scope="module", params=DAYS, ids=lambda day: day.date().isoformat())
def now(request: pytest.FixtureRequest) -> datetime:
    day: datetime = request.param
    return day


@pytest.fixture(scope="module")
def memories(now: datetime) -> list[FleetMemory]:
    return list(fleet(now))


def test_the_fleet_is_as_large_and_as_mixed_as_the_demo_promises(memories: list[FleetMemory]) -> None:
    categories = Counter(memory.request.category for memory in memories)
    assert 1100 <= len(memories) <= 1500
    assert len(agents()) == 8
    assert {memory.agent_id for memory in memories} == {agent.id for agent in agents()}
    assert all(categories[category] >= 50 for category in MemoryCategory)
    assert len({(memory.agent_id, memory.request.namespace) for memory in memories}) >= 30
    assert len({memory.request.metadata.source for memory in memories}) >= 300


def test_the_history_is_eight_months_long_and_ends_before_now(memories: list[FleetMemory], now: datetime) -> None:
    ages = [now - memory.created_at for memory in memories]
    assert min(ages) > timedelta(0)
    assert timedelta(days=235) < max(ages) < timedelta(days=250)
    assert [memory.created_at for memory in memories] == sorted(memory.created_at for memory in memories)


def test_every_line_is_a_store_request_after_a_trip_through_json(memories: list[FleetMemory]) -> None:
    for memory in memories:
        line = orjson.loads(orjson.dumps(memory.line()))
        assert line.pop("agent_id") == memory.agent_id
        assert datetime.fromisoformat(line.pop("created_at")) == memory.created_at
        assert MemoryStoreRequest.model_validate(line) == memory.request


def test_texts_have_the_length_of_memories_and_no_slot_left(memories: list[FleetMemory]) -> None:
    lengths = sorted(len(memory.request.content) for memory in memories)
    assert lengths[0] >= 60
    assert lengths[-1] <= 1500
    assert 100 <= lengths[len(lengths) // 2] <= 400
    assert not any(mark in memory.request.content for memory in memories for mark in "«»")


def test_the_same_day_tells_the_same_history_at_any_hour(now: datetime) -> None:
    morning, evening = now.replace(hour=1, minute=0), now.replace(hour=23, minute=59)
    assert list(fleet(morning)) == list(fleet(evening))
    assert list(fleet(now)) != list(fleet(now + timedelta(days=1)))


def test_agents_repeat_themselves_word_for_word_and_nearly(memories: list[FleetMemory]) -> None:
    texts = Counter((memory.agent_id, memory.request.content) for memory in memories)
    twice = [text for text, count in texts.items() if count == 2]
    nearly = [a for a, text in texts if text.startswith(("Noted again", "For the record once more"))]
    assert 30 <= len(twice) <= 60
    assert max(texts.values()) == 2
    assert len(nearly) >= 3


def test_dense_and_chatty_texts_tags_and_scripts_are_all_there(memories: list[FleetMemory]) -> None:
    texts = [memory.request.content for memory in memories]
    tags = Counter(tag for memory in memories for tag in memory.request.metadata.tags)
    assert sum("```" in text or "|---" in text for text in texts) >= 80
    assert sum("conversation" in memory.request.metadata.tags for memory in memories) >= 4
    assert min(tags[tag] for tag in ("pinned", "core", "non-inferable", "distillation")) >= 4
    assert all(sum(sign in text for text in texts) >= least for sign, least in SCRIPTS.items())


def test_questions_name_memories_that_their_agent_holds(memories: list[FleetMemory], now: datetime) -> None:
    keys = {(memory.agent_id, memory.key) for memory in memories if memory.key}
    asked = (*searches(now), *evaluation(now))
    assert len(keys) == sum(memory.key is not None for memory in memories)
    assert len(searches(now)) >= 3
    assert len(evaluation(now)) >= 25
    assert all((question.agent_id, key) in keys for question in asked for key in question.expects)
    assert not any("«" in question.text for question in asked)
    assert all(question.answer for question in searches(now))


def test_every_question_of_the_evaluation_has_a_memory_that_answers_it(
    memories: list[FleetMemory], now: datetime, tmp_path: Path
) -> None:
    questions = [*memory_tests(now), *evaluation(now), *searches(now)]
    file = tmp_path / "fleet.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, data_of(memories, questions))))
    dataset = read_dataset(file)
    contents = {record.id: record.content for each in dataset.memories.values() for record in each}
    assert len(contents) == len(memories)
    for asked, question in zip(questions, dataset.questions, strict=True):
        assert question.question == asked.text
        assert question.finds
        assert asked.expects or all(asked.answer in contents[name] for name in question.finds)


def test_what_the_example_searches_expect_outlives_the_first_run(memories: list[FleetMemory], now: datetime) -> None:
    expected = {(question.agent_id, key) for question in searches(now) for key in question.expects}
    for memory in memories:
        if (memory.agent_id, memory.key) in expected:
            assert now - memory.created_at < timedelta(days=120)
            assert memory.request.expires_at is None

"""The order of an answer, whatever its relevance."""

from datetime import timedelta

from support.memories import DAWN, NOW

from memcore.backends.mem0.answer import Answer
from memcore.backends.mem0.points import Found
from memcore.models.answers import MemoryScores
from memcore.models.memory import MemoryQuery


def test_what_nothing_speaks_for_stands_by_its_score_and_not_by_its_age() -> None:
    near = {"rain": 0.1, "lamp": 0.2, "sea": 0.3, "last": 0.0}
    points = [
        Found(key, score, {"data": key, "agent_id": "a", "created_at": (NOW - place * timedelta(days=1)).isoformat()})
        for place, (key, score) in enumerate(near.items())
    ]
    answer = Answer(points, near)
    found = answer.best(MemoryQuery(text="x", limit=2), dict.fromkeys(near, 0.0), lambda _: MemoryScores())
    assert [entry.id for entry in found] == ["sea", "lamp"]


def test_of_memories_with_one_score_the_newest_stands_first() -> None:
    points = [
        Found(str(day), 0.5, {"data": "x", "agent_id": "a", "created_at": (DAWN + timedelta(days=day)).isoformat()})
        for day in range(4)
    ]
    answer = Answer(points, dict.fromkeys("0123", 0.5))
    found = answer.best(MemoryQuery(text="x", limit=2), dict.fromkeys("0123", 0.5), lambda _: MemoryScores())
    assert [entry.id for entry in found] == ["3", "2"]

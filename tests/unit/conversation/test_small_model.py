"""What a real small model answered about sixty turns, through the capture path: nothing is kept that nobody said."""

import pytest
from benchmarks.small_model.capture import answers_of, captured, people, recorded

from memcore.config.urls import LedgerUrls

#: By the model, the least share of what is kept that is worth it, and of what is worth keeping that is kept.
LEAST = {"qwen15": (0.85, 0.2), "qwen05": (0.2, 0.03)}


@pytest.mark.parametrize("name", LEAST)
async def test_a_small_model_makes_nobody_say_what_they_did_not(name: str, sqlite_ledger: LedgerUrls) -> None:
    found = await captured(people(), recorded(answers_of(name)), sqlite_ledger)
    assert [(text, turn.said) for text, turn in found.inventions] == []
    precision, recall = LEAST[name]
    assert (found.precision >= precision, found.recall >= recall) == (True, True), (found.precision, found.recall)


def test_a_third_of_the_turns_holds_nothing() -> None:
    turns = [turn for person in people() for turn in person.turns]
    nothing = [turn for turn in turns if turn.nothing]
    assert (len(turns), len(nothing) >= 20) == (60, True)
    assert not any(turn.keep for turn in nothing)

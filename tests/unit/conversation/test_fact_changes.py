"""What a small model's recorded answers make of facts of people, when what replaces them is said in other words."""

import pytest
from support.fact_changes import FOLDER, Judged, judged, people
from support.recorded_answers import RecordedAnswers


@pytest.mark.parametrize("kind", ["seen", "unseen"])
async def test_a_small_model_hardly_ever_takes_what_holds(kind: str) -> None:
    found = await _found(kind)
    wrong = [each for each in found if each.wrong]
    assert len(wrong) <= 0.02 * len(found), wrong


async def test_few_changes_are_sure_enough() -> None:
    """The target, four of five, is missed by so small a model: read in either order, it seldom says the same."""
    found = await _found("seen")
    assert any(each.replaced for each in found)


async def _found(kind: str) -> list[Judged]:
    return await judged(RecordedAnswers.read(FOLDER / "answers.json"), people(kind))

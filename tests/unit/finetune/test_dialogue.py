"""A question right before a remark is one that the remark answers, in the third person where names are given."""

import pytest

from memcore.finetune.dataset import MOST, questions_before

ANSWER = "[8 May] Ada: I painted the lighthouse at dawn, with the brushes that my aunt left me."


@pytest.mark.parametrize(
    ("earlier", "expected"),
    [
        ("Boris: What did you paint last week?", ("What did Ada paint last week?",)),
        ("[8 May] Boris: Nice! Do you keep your brushes?", ("Does Ada keep Ada's brushes?",)),
        ("Boris: Are you painting for me?", ("Is Ada painting for Boris?",)),
        ("Boris: I'm late. How was it at the coast?", ("Ada: How was it at the coast?",)),
        (
            "Boris: You\N{RIGHT SINGLE QUOTATION MARK}ve found time for my party?",
            ("Ada has found time for Boris's party?",),
        ),
        ("What did you paint last week?", ("What did you paint last week?",)),
    ],
)
def test_you_is_who_answers_and_i_is_who_asks(earlier: str, expected: tuple[str, ...]) -> None:
    assert questions_before(ANSWER, earlier) == expected


@pytest.mark.parametrize(
    "earlier",
    [
        "Boris: I was at the coast.",
        "Boris: And you?",
        f"Boris: {'why ' * 80}so?",
        "[7 May] Ada: What shall I paint next week?",
        "",
    ],
    ids=["no question", "too short", "a speech", "the same speaker", "nothing"],
)
def test_nothing_is_made_up(earlier: str) -> None:
    assert questions_before(ANSWER, earlier) == ()


def test_a_nod_answers_nothing() -> None:
    assert questions_before("Ada: Yes, thanks!", "Boris: Did you find the brushes?") == ()


def test_of_many_questions_the_last_are_what_is_answered() -> None:
    asked = " ".join(f"What about the thing number {number}?" for number in range(5))
    found = questions_before("It lies where it always lay, behind the old boiler.", asked)
    assert len(found) == MOST
    assert found == ("What about the thing number 3?", "What about the thing number 4?")

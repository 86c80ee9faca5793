"""Questions of the gate: what they ask for, in any script, and that they are the same for the same texts."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.embedding.bm25 import Tokenizer, Vocabulary
from memcore.maintenance.gate import GateFigures, answers
from memcore.maintenance.probes import MOST_PROBES, Probe, probes_of, recorded_probe

PLAIN = [
    "The team talks about the plan.",
    "The team talks about the weather.",
    "A plan is what the team needs.",
    "It needs a plan.",
]


def rarity_in(*texts: str) -> Callable[[str], float]:
    known, tokenizer = Vocabulary([*PLAIN, *texts]), Tokenizer()
    return lambda word: sum(map(known.rarity, tokenizer.both_terms(word)[0]))


def probes(*texts: str, summary: str = "") -> tuple[Probe, ...]:
    return probes_of(texts, summary, rarity=rarity_in(*texts))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The team plan costs 4711 euros.", "4711"),
        ("Today the team asked Quentin about the plan.", "quentin"),
        ("The plan of the team ends on 2026-03-17.", "2026"),
        ("The team plan needs a theodolite.", "theodolit"),
        ("Команда обсуждает план Евгении", "евгении"),
        ("計画は東京で", "東"),
        ("خطة الفريق في القاهرة", "القاهرة"),
    ],
)
def test_a_question_leaves_out_the_word_that_answers_it(text: str, answer: str) -> None:
    (probe,) = set(probes(text))
    asked = Vocabulary().terms_of([probe.question])[0]
    assert asked
    assert probe.answer not in asked
    if text.isascii():
        assert probe.answer == answer
    else:
        assert probe.answer in Vocabulary().terms_of([text])[0]


@pytest.mark.parametrize("texts", [(), ("",), ("   \n ",), ("...",), ("word",), ("the of and",)])
def test_texts_that_say_nothing_have_no_question(texts: tuple[str, ...]) -> None:
    assert probes(*texts) == ()


def test_questions_are_about_what_the_summary_leaves_out() -> None:
    kept, left_out = "Farida lives in Tbilisi near the old bridge.", "Okello plays the oboe on Thursday evenings."
    found = probes(*([kept] * 10), left_out, summary=f"- {kept}")
    assert found
    assert {each.answer for each in found} <= Vocabulary().terms_of([left_out])[0]


def test_where_the_summary_says_all_questions_are_about_all() -> None:
    text = "Farida lives in Tbilisi near the old bridge."
    assert probes(text, summary=text)


@given(st.lists(st.text(max_size=200), max_size=12), st.text(max_size=200))
def test_questions_are_few_and_the_same_each_time(texts: list[str], summary: str) -> None:
    found = probes(*texts, summary=summary)
    assert found == probes(*texts, summary=summary)
    assert len(found) <= MOST_PROBES


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What does the plan of the team cost?", "4711"),
        ("When does Okello play?", "thursday"),
        ("Who plays on a Thursday?", "okello"),
        ("Okello plays the oboe on Thursday evenings", None),
        ("Is the ferry late?", None),
        ("Who minds?", None),
        ("", None),
    ],
)
def test_a_recorded_question_is_answered_by_the_sentence_that_matches_it_best(
    question: str, answer: str | None
) -> None:
    text = "The team plan costs 4711 euros. Nobody minds. Okello plays the oboe on Thursday evenings."
    found = recorded_probe(question, text, "Nobody minds.", rarity=rarity_in(text))
    if answer is None:
        assert found is None
    else:
        assert found == Probe(question=question, answer=answer)


def test_an_answer_must_stand_in_one_memory_with_what_was_asked() -> None:
    probe = Probe(question="allergic kitchen", answer="peanut")
    for fence in (
        '<memory-entry own="episodic 0.88">\n{}\n</memory-entry>',
        '<for-reference tool="episodic 0.88">\n{}\n</for-reference>',
    ):
        assert answers(fence.format("Ada is allergic to peanuts."), probe)
        assert not answers(fence.format("Ada is allergic.") + "\n" + fence.format("Peanuts are on sale."), probe)
    assert not answers("peanut allergic", Probe(question="x", answer="own"))
    assert not answers("", probe)


@pytest.mark.parametrize(("before", "after", "loss"), [(0, 0, 0.0), (4, 4, 0.0), (4, 3, 0.25), (2, 0, 1.0)])
def test_the_loss_is_a_share_of_what_was_answered_before(before: int, after: int, loss: float) -> None:
    assert GateFigures(probes=4, found_before=before, found_after=after).loss == loss

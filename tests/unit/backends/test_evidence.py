"""Evidence: what names, words, numbers and similarity say of a question, and what has none."""

import string
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scored_memories import entry

from memcore.backends.evidence import (
    DEFAULT_MIN_EVIDENCE,
    DEFAULT_NOISE,
    MOST_JUDGED,
    MOST_WEAK,
    Candidate,
    Evidence,
    absolute,
    best_of,
    evidence_of,
    standings,
)
from memcore.backends.when import AskedRange
from memcore.models.answers import Shown, Standing

TEXTS = (
    "The payment queue pages at 500 messages.",
    "Maria gets a rash from peanuts.",
    "Deployments happen on Tuesdays.",
    "Der Vertrag mit Weber läuft im Oktober aus.",
    "会議は金曜日の三時に始まります。",
)
STORE = tuple(Candidate(text=text, cosine=0.1) for text in TEXTS)


def best_evidence(question: str, candidates: Sequence[Candidate], *, noise: float = DEFAULT_NOISE) -> float:
    return best_of(evidence_of(question, candidates, noise=noise))


@pytest.mark.parametrize(
    "question",
    [
        "When does the payment queue page?",
        "What does Maria react to with a rash?",
        "When do deployments happen?",
        "Wann endet der Vertrag mit Weber?",
        "Welche Verträge laufen aus?",
        "金曜日の会議は何時ですか",
        "Thanks for the report on the printer. We will order toner next week. When do deployments happen?",
        "PEANUTS",
    ],
)
def test_a_question_about_what_is_there_has_evidence(question: str) -> None:
    assert best_evidence(question, STORE) >= DEFAULT_MIN_EVIDENCE


@pytest.mark.parametrize(
    "question",
    [
        "quantum chromodynamics lattice",
        "bananas and apples",
        "Which database do we use?",
        "What does Ines get from the pharmacy?",
        "Which airline lost the suitcase of Peter in 2019?",
        "Wie heißt der Hund von Frau Schmidt?",
        "what is it?",
        "?!",
        "",
    ],
)
def test_a_question_about_something_else_has_none(question: str) -> None:
    assert best_evidence(question, STORE) < DEFAULT_MIN_EVIDENCE


def test_nothing_found_is_no_evidence() -> None:
    assert best_evidence("peanuts", ()) == 0.0


def test_a_name_says_more_than_another_word() -> None:
    same_rarity = [Candidate(text="Ines drinks tea"), Candidate(text="somebody likes coffee")]
    assert best_evidence("does Ines like coffee", same_rarity[:1]) > best_evidence(
        "does Ines like coffee", same_rarity[1:]
    )
    assert best_evidence("the code 4711", [Candidate(text="4711")]) > best_evidence(
        "the code 4711", [Candidate(text="code")]
    )


def test_similarity_counts_from_chance_on() -> None:
    def evidence(cosine: float | None, noise: float = 0.4) -> float:
        return best_evidence("unsaid", [Candidate(text="other words", cosine=cosine)], noise=noise)

    assert evidence(None) == evidence(-0.5) == evidence(0.4) == 0.0
    assert evidence(0.7) == pytest.approx(0.5)
    assert evidence(1.0) == pytest.approx(1.0)
    # An embedder that finds everything alike says nothing.
    assert evidence(1.0, noise=1.0) == 0.0


def test_what_ranks_far_behind_is_not_judged() -> None:
    behind = [Candidate(text="nothing of it")] * MOST_JUDGED
    assert best_evidence("peanuts", [*behind, Candidate(text="peanuts")]) == 0.0


def test_the_day_of_a_memory_is_words_of_it() -> None:
    memory = entry("a", "it went well with Ines")
    asked = f"What did Ines say on {memory.created_at.day} {memory.created_at:%B %Y}?"
    assert best_evidence(asked, [Candidate.of(memory, None)]) >= DEFAULT_MIN_EVIDENCE


def test_what_a_memory_is_tagged_with_counts_as_its_words() -> None:
    plain = entry("m", content="It closes at five.")
    tags = plain.metadata.model_copy(update={"tags": ("canteen", "Ghent")})
    tagged = plain.model_copy(update={"metadata": tags})
    asked = "When does the canteen in Ghent close?"
    assert best_evidence(asked, [Candidate.of(plain, None)]) < DEFAULT_MIN_EVIDENCE
    assert best_evidence(asked, [Candidate.of(tagged, None)]) >= DEFAULT_MIN_EVIDENCE


words = st.lists(st.sampled_from(["maria", "peanuts", "queue", "tuesday", "500", "rash"]), max_size=6).map(" ".join)


@given(
    question=words | st.text(max_size=60),
    texts=st.lists(words, max_size=6),
    cosines=st.lists(st.none() | st.floats(-1, 1), min_size=6, max_size=6),
)
def test_evidence_is_a_share_and_more_memories_of_other_words_never_raise_it_above_one(
    question: str, texts: list[str], cosines: list[float | None]
) -> None:
    found = [Candidate(text=text, cosine=cosine) for text, cosine in zip(texts, cosines, strict=False)]
    assert 0.0 <= best_evidence(question, found) <= 1.0


@given(shares=st.lists(st.floats(0, 1), max_size=20), evidence=st.floats(0.01, 1))
def test_the_least_evidence_never_changes_the_order(shares: list[float], evidence: float) -> None:
    ranked = sorted(shares, reverse=True)
    scores = [absolute(share, evidence) for share in ranked]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= score <= 1.0 for score in scores)


def test_a_long_text_is_read_to_its_end() -> None:
    long = " ".join(string.ascii_lowercase) * 200
    assert best_evidence("peanuts", [Candidate(text=f"{long} peanuts")]) == pytest.approx(1.0)


def test_the_relevance_of_the_best_is_its_evidence() -> None:
    assert absolute(1.0, 0.5) == 0.5
    assert absolute(0.25, 0.5) == 0.25


NOTHING = Evidence(words=0.0, meaning=0.0, alone=0.0, is_foreign=False)
ANSWER = Evidence(words=1.0, meaning=0.0, alone=0.0, is_foreign=False)
FOREIGN = Evidence(words=0.0, meaning=0.0, alone=0.0, is_foreign=True)


def standing_of(scores: Sequence[float], *evidence: Evidence) -> list[Standing]:
    found = standings(dict(enumerate(scores)), dict(enumerate(evidence)), least=DEFAULT_MIN_EVIDENCE)
    return [found[place] for place in range(len(scores))]


def test_the_best_of_an_answered_question_is_strong_and_what_is_far_behind_is_absent() -> None:
    assert standing_of([1.0, 0.9, 0.3], ANSWER, NOTHING, NOTHING) == [Standing.STRONG, Standing.STRONG, Standing.ABSENT]


def test_more_stand_near_where_the_scores_tell_little() -> None:
    facts = standing_of([1.0, 0.6, *[0.1] * 10], ANSWER)
    chat = standing_of([1.0, 0.6, *[0.5] * 10], ANSWER)
    assert facts[:3] == [Standing.STRONG, Standing.ABSENT, Standing.ABSENT]
    assert chat == [Standing.STRONG] * 12


def test_without_an_answer_the_nearest_few_are_weak_and_what_is_foreign_is_absent() -> None:
    found = standing_of([1.0, 0.99, 0.98, 0.97], NOTHING, FOREIGN, NOTHING, NOTHING)
    assert found == [Standing.WEAK, Standing.ABSENT, Standing.WEAK, Standing.ABSENT]
    assert standing_of([1.0] * 9, *[NOTHING] * 9).count(Standing.WEAK) == MOST_WEAK
    assert standing_of([1.0, 0.3], NOTHING, NOTHING) == [Standing.WEAK, Standing.ABSENT]


def test_what_alone_answers_a_part_of_the_question_is_strong() -> None:
    texts = ("Payments page Dora at 500 messages, day and night.", "Peanuts give Maria a rash.", "Trains run on time.")
    found = evidence_of("At how many messages does payments page Dora, and what gives a rash?", [*map(_said, texts)])
    assert found[1].alone > DEFAULT_MIN_EVIDENCE
    assert found[2].alone == 0.0
    assert standing_of([1.0, 0.55, 0.1], *found) == [Standing.STRONG, Standing.STRONG, Standing.ABSENT]


def test_what_is_of_the_asked_time_is_not_cut_where_no_memory_has_more_of_the_words() -> None:
    texts = ("Planted the currants.", "Sold the car.", "Signed the lease.", "Painted the door.")
    found = [Candidate(text=text, is_in_time=place < 3) for place, text in enumerate(texts)]
    asked = AskedRange(
        start=datetime.min.replace(tzinfo=UTC), end=datetime.max.replace(tzinfo=UTC), words=frozenset({"last", "week"})
    )
    scores = [1.0, 0.3, 0.2, 0.2]
    strong, absent = Standing.STRONG, Standing.ABSENT
    of_all = evidence_of("What happened last week?", found, asked=asked)
    assert standing_of(scores, *of_all) == [strong, strong, strong, absent]
    # Else the memories of a time would all be shown for what one of them says.
    of_one = evidence_of("Who painted, planted and sold the currants last week?", found, asked=asked)
    assert standing_of(scores, *of_one) == [strong, absent, absent, absent]


def _said(text: str) -> Candidate:
    return Candidate(text=text, cosine=0.1)


def test_a_part_that_two_memories_answer_is_no_reason_for_either() -> None:
    texts = ("Maria gets a rash from nuts.", "Tom gets a rash from wool.", "Trains run on time.")
    assert [each.alone for each in evidence_of("When do trains run, and who gets a rash?", [*map(_said, texts)])][
        :2
    ] == [
        0.0,
        0.0,
    ]


@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40),
    st.lists(st.floats(0.0, 1.0), max_size=MOST_JUDGED),
    st.integers(0, 39),
    st.floats(0.0, 1.0),
)
def test_more_evidence_never_lowers_a_standing_and_a_cut_keeps_the_order(
    scores: list[float], words: list[float], at: int, more: float
) -> None:
    scores.sort(reverse=True)
    evidence = [Evidence(words=each, meaning=0.0, alone=0.0, is_foreign=False) for each in words[: len(scores)]]
    before = standing_of(scores, *evidence)
    # What is left out has no better score than what is strong.
    assert before == sorted(before, key=lambda each: each is not Standing.STRONG)
    if at < len(evidence):
        evidence[at] = Evidence(words=max(more, words[at]), meaning=more, alone=0.0, is_foreign=False)
        surest = (Standing.ABSENT, Standing.WEAK, Standing.STRONG)
        assert surest.index(standing_of(scores, *evidence)[at]) >= surest.index(before[at])


@pytest.mark.parametrize(
    ("shown", "standings_shown"),
    [
        (Shown.STRONG, {Standing.STRONG}),
        (Shown.WEAK, {Standing.STRONG, Standing.WEAK}),
        (Shown.ANY, {*Standing}),
    ],
)
def test_which_standings_are_shown(shown: Shown, standings_shown: set[Standing]) -> None:
    assert {each for each in Standing if shown.has(each)} == standings_shown

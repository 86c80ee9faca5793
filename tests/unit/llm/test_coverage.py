"""What a text in place of others leaves out of them: each statement that it does not bear, word for word."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.memories import record

from memcore.embedding.bm25 import Tokenizer
from memcore.embedding.languages import ENGLISH_STOP_WORDS
from memcore.llm.grounding import Coverage
from memcore.maintenance.consolidation.dual_mode import AbstractiveSummarizer
from memcore.maintenance.consolidation.llm import LLMSynthesisOp, Question, Reply, completed

FIXTURES = Path(__file__).parents[2] / "fixtures"


def _read(name: str) -> Any:
    return yaml.safe_load((FIXTURES / name).read_text(encoding="utf-8"))


SHORTENED = _read("grounding/shortened.yaml")


@pytest.mark.parametrize("language", SHORTENED)
def test_of_a_shorter_text_that_says_all_nothing_is_left_out(language: str) -> None:
    each = SHORTENED[language]

    assert Coverage(each["whole"]).left_out(each["memory"]) == ""


@pytest.mark.parametrize("language", SHORTENED)
def test_a_sentence_of_which_something_is_missing_is_left_out_and_the_other_is_not(language: str) -> None:
    each = SHORTENED[language]

    left_out = Coverage(each["lacking"]).left_out(each["memory"])

    assert left_out
    assert each["memory"].startswith(left_out)
    assert left_out != each["memory"]


SOURCE = "The lease of the flat ends on 31 May. Rent is due before the 5th, for 1,240 euros. We do it in spring."


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        (SOURCE, ""),
        ("Lease of flat ends 31 May; rent due before the 5th, 1,240 euros. We do it in spring.", ""),
        (SOURCE.replace("1,240", "1,204"), "Rent is due before the 5th, for 1,240 euros. We do it in spring."),
        (SOURCE.replace("before", "on"), "Rent is due before the 5th, for 1,240 euros. We do it in spring."),
        (
            SOURCE.replace("We do it", "They paint it"),
            "Rent is due before the 5th, for 1,240 euros. We do it in spring.",
        ),
        (SOURCE.replace("flat", "house"), "The lease of the flat ends on 31 May."),
        ("", SOURCE),
    ],
    ids=["itself", "shorter", "number", "function word", "few words", "noun", "empty"],
)
def test_numbers_function_words_and_short_sentences_count(text: str, left_out: str) -> None:
    assert Coverage(text).left_out(SOURCE) == left_out


@pytest.mark.parametrize("mark", [".", ";"])
def test_words_far_from_one_another_are_not_a_sentence(mark: str) -> None:
    source = "The red kiln is hired from Amara."
    text = f"The kiln is new{mark} Nobody minds the noise at all{mark} Amara hired two red cars{mark} It rained again."

    assert Coverage(text).left_out(source) == source


def test_a_text_of_any_marks_leaves_nothing_out_of_itself() -> None:
    text = "He left; I stayed. ... Is the kiln new; or is it old? Yes; no. \U0001f642 [8 May] Mel: So; it is."

    assert Coverage(text).left_out(text) == ""
    assert Coverage("It rained on Sunday and Monday.").left_out("It rained on Sunday and Monday. ... ---") == ""


def test_a_denial_and_an_exact_form_count() -> None:
    source = "Amara does not lease the kiln. The kiln runs at -20 with getUser set."

    assert Coverage("Amara leases the kiln; it runs at -20, getUser set.").left_out(source) == (
        "Amara does not lease the kiln."
    )
    assert Coverage("Amara does not lease the kiln. The kiln runs at 20 with getuser set.").left_out(source) == (
        "The kiln runs at -20 with getUser set."
    )


def test_who_said_it_and_when_counts_and_stays_with_what_is_left_out() -> None:
    source = (
        "[8 May 2023] Caroline: I fired the blue kiln. My sister came, too.\n[9 May 2023] Mel: I sold the old kiln."
    )
    said = "[8 May 2023] Caroline: Fired blue kiln. My sister came, too."

    assert Coverage(f"{said}\n[9 May 2023] Mel: I sold the old kiln.").left_out(source) == ""
    assert Coverage(f"{said}\nI sold the old kiln.").left_out(source) == "[9 May 2023] Mel: I sold the old kiln."


def test_each_fact_that_a_person_missed_in_an_answer_of_a_small_model_stands_in_the_completed_text() -> None:
    groups = _read("merging/groups.yaml")

    unseen = [
        fact
        for each in _read("merging/read.yaml")
        for fact, words in each["missing"].items()
        if words not in completed(each["text"], [record("ada", memory) for memory in groups[each["group"]]])
    ]

    # "Mr. Pohl and I moved it", of which "and I" went: function words that short may be missing.
    assert unseen == ["who writes moved the start, too"]


class AnAnswer:
    """Answers every question with one text."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def ask(self, question: Question) -> Reply:
        del question
        return Reply(text=self._text)


@pytest.mark.parametrize("text", ["Rent is due before the 5th, for 1,240 euros.", "The lease ends."])
async def test_a_short_version_says_all_or_is_the_memory_itself_and_a_merged_text_says_all(text: str) -> None:
    again = "As said, the rent is due before the 5th, and that is for 1,240 euros. The rent is 1,240 euros, as said."
    memory = f"The lease of the flat ends on 31 May. {again}"

    found = await AbstractiveSummarizer(AnAnswer(text), model="small").summarize(record("ada", memory))
    merged = await LLMSynthesisOp(AnAnswer(text)).write([record("ada", memory), record("ada", SOURCE)])

    assert len(found) <= len(memory)
    assert _content(memory) <= _content(found)
    assert _content(f"{memory} {SOURCE}") <= _content(merged.content)


def test_a_text_leaves_nothing_out_of_what_it_has_word_for_word() -> None:
    memories = [memory for group in _read("merging/groups.yaml") for memory in group]
    coverage = Coverage(" ".join(f"2026-03-01: {memory}" for memory in memories))

    assert [left_out for memory in memories if (left_out := coverage.left_out(memory))] == []


WORDS = st.sampled_from(
    [
        "kiln",
        "lease",
        "Amara",
        "fired",
        "firing",
        "blue",
        "1,240",
        "86",
        "May",
        "crane",
        "not",
        "before",
        "getUser",
        "-20",
    ]
)
SENTENCES = st.lists(WORDS, min_size=1, max_size=8).map(lambda words: f"The {' of the '.join(words)}. ")
MEMORIES = st.lists(st.lists(SENTENCES, min_size=1, max_size=4).map("".join), min_size=1, max_size=3)


@given(memories=MEMORIES, answer=st.lists(SENTENCES, max_size=6).map("".join), kept=st.integers(0, 100))
def test_whatever_the_model_answers_each_content_word_of_the_memories_stands_in_the_completed_text(
    memories: list[str], answer: str, kept: int
) -> None:
    # A part of what the memories say, and something else.
    said = " ".join(memories).split()
    text = f"{' '.join(said[: len(said) * kept // 100])}. {answer}"

    whole = completed(text, [record("ada", memory) for memory in memories])

    assert _content(" ".join(memories)) <= _content(whole)


def _content(text: str) -> frozenset[str]:
    return frozenset(Tokenizer.stems(word for word in Tokenizer.words(text) if word not in ENGLISH_STOP_WORDS))

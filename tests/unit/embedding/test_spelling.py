"""Which words of a question may be misspelled, and what they are read as."""

import pytest

from memcore.embedding.bm25 import Tokenizer
from memcore.embedding.spelling import doubtful, respelled, spellings

TEXTS = [
    "Croissants: three single folds.",
    "The dentist of the children is away.",
    "Vault has the secrets.",
    "Die Führung der本shader本 \ud800",
]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("crossiants", "croissants"),  # a letter in another place
        ("secerts", "secrets"),
        ("denstist", "dentist"),  # one too many
        ("chilren", "chilren"),  # too short for one left out
        ("croisants", "croissants"),
        ("croiszants", "croissants"),
        ("fürhung", "führung"),
        ("shdaer", "shader"),  # beside a script without spaces
    ],
)
def test_a_misspelled_word_is_read_as_memories_spell_the_word(typed: str, meant: str) -> None:
    question = f"What about the {typed}?"
    assert doubtful(question, [], tokenizer=Tokenizer())[0] == [typed]
    assert respelled(question, [typed], TEXTS) == f"What about the {meant}?"


@pytest.mark.parametrize(
    ("typed", "other"),
    [("contact", "contract"), ("field", "fried"), ("least", "last"), ("weekend", "weeks"), ("state", "taste")],
)
def test_another_word_is_no_misspelling(typed: str, other: str) -> None:
    assert respelled(f"the {typed}", [typed], [f"The {other} is there."]) == f"the {typed}"


def test_a_plural_may_lack_its_ending() -> None:
    assert respelled("a shdaer", ["shdaer"], ["Two shaders."]) == "a shaders"
    assert respelled("the shdaers", ["shdaers"], ["One shader."]) == "the shader"


def test_the_word_that_most_memories_have_is_meant_and_of_equals_the_first() -> None:
    texts = ["A trial ends.", "Trails: one.", "The trails are wet."]
    assert respelled("which trials", ["trials"], texts) == "which trials"
    assert respelled("which tirals", ["tirals"], texts[:2]) == "which trial"
    assert respelled("which triasl", ["triasl"], ["A trials bike.", "Two trials."]) == "which trials"


@pytest.mark.parametrize(
    "question",
    [
        "Who is Croissamt?",  # a name
        "see /srv/crossiants",
        "the crossiants_v2",
        "mail crossiants@shop",
        "would which there",  # stop words
        "the bun",  # short
        "the croissant",  # in the texts, with another ending
    ],
)
def test_names_paths_and_words_that_memories_have_are_left(question: str) -> None:
    assert doubtful(question, TEXTS, tokenizer=Tokenizer())[0] == []


def test_a_question_of_which_a_text_has_half_the_words_is_understood() -> None:
    texts = ["Other things.", "The dentist of the children is away."]
    assert doubtful("When is the dentist of the chlidren away?", texts, tokenizer=Tokenizer())[0] == []
    assert doubtful("Who is a good dentist for chlidren, and near?", texts, tokenizer=Tokenizer())[0] == ["chlidren"]


def test_of_a_long_turn_the_longest_words_are_looked_up() -> None:
    question = "the planet around another galaxy carries continents without mountains"
    assert doubtful(question, [], tokenizer=Tokenizer())[0] == ["continents", "mountains"]


def test_a_misspelling_keeps_the_first_letter() -> None:
    assert spellings("abcde") >= {"abcde", "acbde", "abced", "aebcd"}
    assert all(other[0] == "a" for other in spellings("abcdefgh"))
    assert spellings("abcdefgh") >= {"abcdefg", "abcdefghi", "abcdxfgh", "abdcefgh"}
    assert {len(other) for other in spellings("abcde")} == {5}

"""What a model quotes is found in what a person said where its words stand there, near each other, and only there."""

import time

import pytest
from support.quotes import FALSE_QUOTES, MORE_FALSE_QUOTES, MORE_TRUE_QUOTES, TRUE_QUOTES

from memcore.conversation.quotes import own_words


def test_true_quotes_are_found_and_false_ones_are_not() -> None:
    true = [(text, quote) for text, quote, _ in TRUE_QUOTES] + list(MORE_TRUE_QUOTES)
    false = [*FALSE_QUOTES, *MORE_FALSE_QUOTES]
    missed = [quote for text, quote in true if own_words(quote, text) is None]
    taken = [quote for text, quote in false if own_words(quote, text) is not None]
    found = len(true) - len(missed)
    precision, recall = found / max(1, found + len(taken)), found / len(true)
    said = f"precision {precision:.2f}, recall {recall:.2f}; missed {missed}; taken {taken}"
    assert len(TRUE_QUOTES) == len(FALSE_QUOTES) == 40
    assert recall >= 1.0, said
    assert precision >= 1.0, said


@pytest.mark.parametrize(("text", "quote", "kept"), TRUE_QUOTES)
def test_the_persons_words_are_kept_and_not_the_models(text: str, quote: str, kept: str) -> None:
    assert own_words(quote, text) == kept
    assert own_words(kept, text) == kept


def test_a_turn_that_repeats_a_word_costs_no_time() -> None:
    began = time.process_time()
    assert own_words("a " * 100 + "b", "a " * 30_000) is None
    assert own_words("i am so tired " * 4, "i am so very tired " * 500) is not None
    # A tenth of it on a quiet machine; a search that grows with the square of the text takes an hour.
    assert time.process_time() - began < 20.0

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.thorough import examples

from memcore.embedding import static as word_tokens
from memcore.embedding.static import StaticTable, WordTokens

#: What a text may be cut wrongly at, beside ordinary words.
PIECES = [
    "",
    " ",
    "  ",
    "a",
    "the",
    "backup",
    "<s>",
    "</s>",
    "<unk>",
    "▁",
    "▁▁",
    "é",
    "東京",
    "\n",
    "\t",
    "\u3000",
    "42)",
]

TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=12).flatmap(
    lambda pieces: st.sampled_from([" ".join(pieces), "".join(pieces)])
)


@pytest.fixture(scope="module")
def model() -> StaticTable:
    return StaticTable.of_wheel()


@pytest.fixture(scope="module")
def tokens(model: StaticTable) -> WordTokens:
    return WordTokens(model.tokenizer)


def whole(model: StaticTable, texts: list[str]) -> list[list[int]]:
    return [model.tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def test_no_token_reaches_from_one_word_into_the_next(model: StaticTable) -> None:
    assert [token for token in model.tokenizer.get_vocab() if "▁" in token.lstrip("▁")] == []


@settings(max_examples=examples(60), deadline=None)
@given(texts=st.lists(TEXTS, max_size=5))
@example(texts=["", " ", " a", "a ", "a  b", "a▁ b", "x <s> y", "a\n b", "one two one"])
def test_words_give_the_tokens_of_the_whole_text(model: StaticTable, tokens: WordTokens, texts: list[str]) -> None:
    assert tokens.ids(texts) == whole(model, texts)


def test_a_full_memory_starts_again(model: StaticTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_tokens, "_KEPT_WORDS", 8)
    tokens = WordTokens(model.tokenizer)
    texts = [f"word{n} and word{n + 1} then {'long' * 20}{n}" for n in range(30)]
    for text in texts * 2:
        assert tokens.ids([text]) == whole(model, [text])
        assert len(tokens._known) <= 8


def test_threads_do_not_meet(model: StaticTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_tokens, "_KEPT_WORDS", 8)
    tokens = WordTokens(model.tokenizer)
    texts = [f"word{n % 7} meets word{n % 5} in a hall{n}" for n in range(400)]
    expected = whole(model, texts)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: [tokens.ids([text])[0] for text in texts], range(4)):
            assert found == expected

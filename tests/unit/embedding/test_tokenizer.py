import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.embedding.bm25 import Tokenizer, fold


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Deploy v2.3 on Friday!", ["deploy", "v2", "3", "on", "friday"]),
        ("retry_count and __init__", ["retry", "count", "and", "init"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("\N{LATIN SMALL LIGATURE FI}le \N{FULLWIDTH LATIN CAPITAL LETTER A}1", ["file", "a1"]),
        ("cafe\u0301 caf\u00e9", ["caf\u00e9", "caf\u00e9"]),
        ("東京タワー", ["東", "京", "タ", "ワ", "ー"]),
        ("ひらがな", ["ひ", "ら", "が", "な"]),
        ("서울 시청", ["서", "울", "시", "청"]),
        ("API設計v2", ["api", "設", "計", "v2"]),
        ("\U00020000x", ["\U00020000", "x"]),
        ("हिन्दी भाषा।", ["हिन्दी", "भाषा"]),
        ("Привет, Мир", ["привет", "мир"]),
        ("\N{SMILING FACE WITH SUNGLASSES} \N{ZERO WIDTH JOINER} ...", []),
        ("", []),
    ],
)
def test_words_are_found_in_every_script(text: str, words: list[str]) -> None:
    assert Tokenizer.words(text) == words


def test_stop_words_go_and_stems_meet() -> None:
    tokenizer = Tokenizer()
    assert tokenizer.terms("She adopted a dog, and they didn't mind") == tokenizer.terms("adopting the dogs minded")


def test_may_is_kept_because_it_is_a_month() -> None:
    assert Tokenizer().terms("in May") == ["may"]


def test_a_question_frame_is_dropped_from_questions_only() -> None:
    tokenizer = Tokenizer()
    assert tokenizer.query_terms("What kind of queue do we use?") == tokenizer.terms("queue use")
    assert tokenizer.terms("a kind of queue") == ["kind", "queue"]
    assert tokenizer.query_terms("Is the type checker kind?") == tokenizer.terms("type checker kind")


@pytest.mark.parametrize(
    ("text", "further"),
    [
        ("error E1042 in worker.py", ["=E1042", "=worker.py"]),
        ("Blood group AB-, at -8 degrees", ["=AB-", "=-8"]),
        ("It is 8 degrees there", ["=8"]),
        ("fetchRow and FetchRow", ["=fetchRow", "=FetchRow"]),
        ("the plain words of a text, which isn't long", []),
    ],
)
def test_words_whose_exact_form_tells_are_further_terms(text: str, further: list[str]) -> None:
    assert Tokenizer().both_terms(text)[1] == further


def test_a_word_of_a_question_is_its_bare_or_its_exact_form() -> None:
    tokenizer = Tokenizer()
    assert tokenizer.query_forms("Who has group AB-?") == [("group",), ("ab", "=AB-")]
    assert tokenizer.query_forms("What is in /srv/Kiln?") == [("srv", "=/srv/Kiln"), ("kiln",)]
    assert tokenizer.query_forms("Which A+ is >= B?") == [("b", "=B"), ("=A+",), ("=>=",)]
    assert tokenizer.query_forms("what is rows.fetchRow") == [("row", "=rows.fetchRow"), ("fetchrow", "=fetchRow")]


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_no_text_is_refused_and_every_word_is_folded(text: str) -> None:
    tokenizer = Tokenizer()
    words = tokenizer.words(text)
    assert all(word and not word.isspace() and "_" not in word for word in words)
    assert words == tokenizer.words(" ".join(words))
    tokenizer.terms(text)
    tokenizer.query_terms(text)


@given(st.text())
def test_folding_twice_is_folding_once(text: str) -> None:
    assert unicodedata.is_normalized("NFKC", fold(text))
    assert fold(fold(text)) == fold(text)


def test_threads_share_one_tokenizer() -> None:
    texts = [f"running{number} adoption{number} relational{number} hopping" for number in range(300)]
    expected = [Tokenizer().terms(text) for text in texts]
    shared = Tokenizer()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(shared.terms, texts)) == expected


@given(text=st.text(alphabet=st.characters(max_codepoint=127)))
def test_ascii_text_has_the_words_that_other_text_would_have(text: str) -> None:
    # "é" sends the same text down the way of all scripts.
    assert Tokenizer.words(f"{text} é") == [*Tokenizer.words(text), "é"]

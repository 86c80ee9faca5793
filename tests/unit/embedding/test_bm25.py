from concurrent.futures import ThreadPoolExecutor

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.embedding import bm25
from memcore.embedding.bm25 import BEGINNING, Bm25Encoder, TermWeighting, Tokenizer

#: Any string at all, half surrogates included.
ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=()))


def index(term: str) -> int:
    return mmh3.hash(term, 0, signed=False)


def test_the_hash_is_murmur3_of_32_bits_unsigned() -> None:
    # Published test vectors of MurmurHash3_x86_32 with seed 0.
    encoder = Bm25Encoder()
    assert encoder.encode_query("this is the hello").indices == (0x248BFA47,)
    assert encoder.encode_query("this is the test").indices == (0xBA6BD213,)


def test_the_weight_is_that_of_bm25() -> None:
    vector = Bm25Encoder().encode_document("queue queue broker queue broker worker")
    weights = dict(zip(vector.indices, vector.values, strict=True))
    halfway = 0.5 * (0.6 + 0.4 * 6 / 64)
    for term, count in (("queue", 3), ("broker", 2), ("worker", 1)):
        assert weights[index(term)] == pytest.approx(count * 1.5 / (count + halfway))


def test_an_exact_form_weighs_as_much_again_one_with_a_sign_twice_and_a_bare_number_a_quarter() -> None:
    vector = Bm25Encoder().encode_query("Which AB- of -8 is of 20 in fetchRow?")
    weights = dict(zip(vector.indices, vector.values, strict=True))
    expected = {"ab": 1.0, "=AB-": 2.0, "8": 1.0, "=-8": 2.0, "20": 1.0, "=20": 0.25, "fetchrow": 1.0, "=fetchRow": 1.0}
    assert weights == {index(term): weight for term, weight in expected.items()}


def test_the_beginning_of_a_word_weighs_a_quarter() -> None:
    vector = Bm25Encoder().encode_query("teyzesi")
    weights = dict(zip(vector.indices, vector.values, strict=True))
    assert weights == {index("teyzesi"): 1.0, index("^teyze"): 0.25, index("^teyz"): 0.25}


def test_a_question_in_a_known_language_has_no_beginnings_of_words() -> None:
    # Few memories have them: those would win by a word that they write no better than the others.
    terms = Tokenizer().query_terms("Welche Möbel verleiht Familie Sonntag?")
    assert not any(term.startswith(BEGINNING) for term in terms)


def test_repetition_saturates_and_length_is_corrected() -> None:
    encoder = Bm25Encoder()
    once, ten, hundred = (encoder.encode_document("queue " * count).values[0] for count in (1, 10, 100))
    assert once < ten < bm25.K1 + 1.0
    assert hundred < bm25.K1 + 1.0
    short = encoder.encode_document("queue broker").values[0]
    long = encoder.encode_document("queue " + " ".join(f"word{number}" for number in range(500))).values
    assert max(long) < short


def test_raw_frequency_is_the_number_of_occurrences() -> None:
    encoder = Bm25Encoder(weighting=TermWeighting.FREQUENCY)
    vector = encoder.encode_document("queue broker queue")
    assert dict(zip(vector.indices, vector.values, strict=True)) == {index("queue"): 2.0, index("broker"): 1.0}


def test_a_question_counts_each_term_once() -> None:
    vector = Bm25Encoder().encode_query("queue, queue and the broker")
    assert vector.indices == tuple(sorted((index("queue"), index("broker"))))
    assert vector.values == (1.0, 1.0)


def test_terms_of_one_hash_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bm25, "_murmur3", lambda _term: 7)
    vector = Bm25Encoder(weighting=TermWeighting.FREQUENCY).encode_document("queue broker queue")
    assert (vector.indices, vector.values) == ((7,), (3.0,))


def test_a_label_is_found_by_and_changes_nothing_else() -> None:
    encoder = Bm25Encoder()
    text = "[8 May 2023] the queue is full"
    alone, labelled = (
        dict(zip(each.indices, each.values, strict=True))
        for each in (encoder.encode_document(text), encoder.encode_document(text, "8 May 2023 Mel"))
    )
    assert labelled.keys() - alone.keys() == {index("mel")}
    assert {key: labelled[key] for key in alone} == alone
    assert encoder.encode_documents([text, "x"], ["Mel", ""]) == [
        encoder.encode_document(text, "Mel"),
        encoder.encode_document("x"),
    ]


@pytest.mark.parametrize("text", ["", "   ", "?!", "and of the", "_"])
def test_a_text_without_terms_has_an_empty_vector(text: str) -> None:
    assert not Bm25Encoder().encode_document(text)
    assert not Bm25Encoder().encode_query(text)


@given(ANY_TEXT, st.sampled_from(TermWeighting))
def test_every_text_has_a_valid_vector_and_always_the_same(text: str, weighting: TermWeighting) -> None:
    vector = Bm25Encoder(weighting=weighting).encode_document(text)
    assert vector == Bm25Encoder(weighting=weighting).encode_document(text)
    assert list(vector.indices) == sorted(set(vector.indices))
    assert all(value > 0.0 for value in vector.values)
    # A question has beginnings of words in any script, since one word says little of its language.
    asked = {index(term) for term in Tokenizer().query_terms(text) if not term.startswith(BEGINNING)}
    assert asked <= set(vector.indices)


@given(st.lists(ANY_TEXT, max_size=8))
def test_a_batch_is_its_texts_one_by_one(texts: list[str]) -> None:
    encoder = Bm25Encoder()
    assert encoder.encode_documents(texts) == [Bm25Encoder().encode_document(text) for text in texts]


def test_threads_share_one_encoder() -> None:
    texts = [f"running{number} queues broker{number % 7} adopted{number}" for number in range(400)]
    expected = Bm25Encoder().encode_documents(texts)
    shared = Bm25Encoder()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(shared.encode_document, texts)) == expected

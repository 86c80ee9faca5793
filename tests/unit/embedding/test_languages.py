"""Words in other languages than English: stems, function words, accents, and scripts without spaces."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from memcore.embedding.bm25 import BEGINNING, Bm25Encoder, Tokenizer, bare
from memcore.embedding.languages import Stems, language_of

#: A question and a memory in one language that have no word in the same form.
INFLECTED = {
    "german": ("Wo stehen die Apfelbäume?", "Ein Apfelbaum steht am Zaun bei der Scheune."),
    "dutch": ("Waar zijn de boeken?", "Een boek lag in het gras."),
    "french": ("Où sont les chaudières révisées ?", "Une chaudière était en révision chez nous."),
    "spanish": ("¿Cuándo vencen los contratos?", "Ese contrato vence en el otoño."),
    "italian": ("Dove sono le biciclette?", "Una bicicletta era nel cortile."),
    "portuguese": ("Quantos bilhetes foram vendidos?", "Um bilhete não se vende na praça."),
}


@pytest.mark.parametrize(("language", "question", "memory"), [(key, *texts) for key, texts in INFLECTED.items()])
def test_a_question_meets_the_word_in_another_form(language: str, question: str, memory: str) -> None:
    assert [language_of(Tokenizer.words(text)) for text in (question, memory)] == [language, language]
    assert not set(Tokenizer.words(question)) & set(Tokenizer.words(memory))
    assert set(Tokenizer().query_terms(question)) & set(Tokenizer().terms(memory))


def test_the_terms_of_an_older_release_keep_their_weight_and_are_asked_for() -> None:
    encoder, tokenizer = Bm25Encoder(), Tokenizer()
    memory = "Ese contrato antiguo vence en el otoño."
    plain, further = tokenizer.both_terms(memory)
    assert (plain, further) == (
        ["ese", "contrato", "antiguo", "venc", "en", "el", "otoño"],
        ["contrat", "antigu", "oton"],
    )
    vector = encoder.encode_document(memory)
    # One occurrence among seven words, as ever.
    assert vector.values == (pytest.approx(1.5 / (1.0 + 0.5 * (0.6 + 0.4 * 7 / 64))),) * len({*plain, *further})
    assert {"contrato", "otoño"} <= set(tokenizer.query_terms("¿Qué contrato vence en otoño?"))


@pytest.mark.parametrize(
    "text",
    [
        "She adopted a dog, and they didn't mind.",
        "The die was cast at the La Brea pits.",
        "Los Angeles traffic is what I was told about, and it is bad.",
        "",
    ],
)
def test_english_texts_have_their_english_terms_alone(text: str) -> None:
    assert language_of(Tokenizer.words(text)) is None
    assert Tokenizer().both_terms(text)[1] == []


#: A question and a memory, in a language without a list of words here, that have no word in the same form.
ENDINGS = {
    "turkish": ("teyzenin köpeği", "Teyzesi de köyde, da\u011fda."),
    "russian": ("Самара", "Сестра живёт в Самаре."),
    "polish": ("piekarnia", "Ola pracuje w piekarni od roku, najchętniej nocą."),
    "finnish": ("sauna", "Mökillä on uusi saunan kiuas."),
    "czech": ("zahrada", "Petr tráví víkendy na zahradě."),
    "hungarian": ("macska", "A nagymama macskái mézszínűek."),
    "greek": ("θάλασσα", "στη θάλασσας"),
    "ukrainian": ("вулиця", "Крамниця стоїть на вулиці Лесі."),
}


@pytest.mark.parametrize(("question", "memory"), ENDINGS.values(), ids=ENDINGS.keys())
def test_a_question_meets_a_word_with_another_ending_where_no_stemmer_is(question: str, memory: str) -> None:
    tokenizer = Tokenizer()
    assert not set(Tokenizer.words(question)) & set(Tokenizer.words(memory))
    assert set(tokenizer.query_terms(question)) & set(tokenizer.terms(memory))
    # Two texts are compared by their words alone.
    assert not bare(tokenizer.query_terms(question)) & bare(tokenizer.terms(memory))


@pytest.mark.parametrize(
    "text",
    [
        "Which of our cafés is the nearest to the office?",
        "Où sont les chaudières que nous avons révisées ?",
        "Wo stehen die Apfelbäume des Gärtners?",
        "2026 2027",
        "東京タワー",
    ],
)
def test_texts_of_known_languages_numbers_and_unspaced_scripts_have_no_beginnings(text: str) -> None:
    terms = [*Tokenizer().query_terms(text), *Tokenizer().terms(text)]
    assert not any(term.startswith(BEGINNING) for term in terms)


def test_function_words_go_from_a_question_and_stay_in_a_memory() -> None:
    tokenizer = Tokenizer()
    assert tokenizer.query_terms("Wo sind die Ziegen von Thea?") == ["ziegen", "zieg", "thea"]
    assert "die" in tokenizer.terms("Die Ziegen sind im Stall.")
    assert tokenizer.query_terms("wer bist du") == tokenizer.terms("wer bist du") != []


def test_the_forms_of_a_word_share_its_weight() -> None:
    encoder = Bm25Encoder()
    vector = encoder.encode_query("Wo sind die Ziegen von Thea?")
    weights = dict(zip(vector.indices, vector.values, strict=True))
    assert weights == {encoder.index_of("ziegen"): 0.25, encoder.index_of("zieg"): 0.75, encoder.index_of("thea"): 1.0}


def test_accents_may_be_left_out() -> None:
    tokenizer = Tokenizer()
    assert set(tokenizer.query_terms("cafe Zoe")) <= set(tokenizer.terms("Zoë, café"))
    assert set(tokenizer.query_terms("café Zoë")) >= set(tokenizer.terms("cafe Zoe"))
    assert tokenizer.both_terms("हिन्दी")[0] == ["हिन्दी"]


@pytest.mark.parametrize(
    ("text", "pair"),
    [("東京タワー", "東京"), ("苹果树", "苹果"), ("서울시청", "서울"), ("สวัสดี", "สว"), ("API設計v2", "設計")],
)
def test_scripts_without_spaces_have_pairs_of_characters_too(text: str, pair: str) -> None:
    tokenizer = Tokenizer()
    assert pair in tokenizer.terms(text)
    assert pair in tokenizer.query_terms(text)
    assert tokenizer.both_terms(text)[0] == Tokenizer.words(text)


def test_what_is_grammar_in_japanese_and_chinese_is_not_asked_for() -> None:
    tokenizer = Tokenizer()
    assert tokenizer.query_terms("鍵はどこですか") == ["鍵"]
    assert tokenizer.query_terms("猫在哪里?") == ["猫", "里", "猫在", "哪里"]
    # A question in nothing else is asked as it is.
    assert tokenizer.query_terms("ですか") == tokenizer.terms("ですか") != []
    assert {"は", "鍵は"} <= set(tokenizer.terms("鍵は下です"))


def test_threads_share_the_stemmers() -> None:
    words = [f"contratos{number} herramientas{number} aprendiendo" for number in range(300)]
    expected = [[Stems().of(word, "spanish") for word in words]]
    shared = Stems()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: [shared.of(word, "spanish") for word in words], range(8))) == expected * 8

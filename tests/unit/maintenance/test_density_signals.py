import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.thorough import sized

from memcore.maintenance.consolidation.density import (
    ContentDensity,
    DensityClassifier,
    code,
    identifiers,
    line_structure,
    numeric,
    structured,
)

SIGNALS = (code, structured, identifiers, numeric, line_structure)

#: Characters of a hostile text; a pattern whose time grew with the square would take minutes for it.
HOSTILE_CHARS = sized(30_000, thorough=200_000)


def density(text: str) -> str:
    return str(DensityClassifier().classify(text))


@given(st.text(max_size=300))
def test_every_signal_lies_between_nothing_and_all(text: str) -> None:
    assert all(0.0 <= signal(text) <= 1.0 for signal in SIGNALS)


@pytest.mark.parametrize("text", ["", " ", "\n\n\n", "\t"])
def test_no_text_gives_no_signal_but_that_of_its_lines(text: str) -> None:
    assert [signal(text) for signal in SIGNALS[:-1]] == [0.0] * 4


#: What hostile texts are made of.
UNITS = (
    "a", "aA", "Aa", "1.", "1:", "/a", "0f", " ", "_", "_a", "a=", ":", "-", "\t", '"', "a ", "aaA1", "12:34 ",
    "\u6f22", "{", "a-", "https://", ",a", "\n ", "x\n", "a: b\n", "deadbeef", "$", "(", "2025-01-01T00:00:00.",
)  # fmt: skip


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", UNITS)
def test_no_pattern_backtracks_over_a_hostile_text(unit: str) -> None:
    text = unit * (HOSTILE_CHARS // len(unit))
    assert all(0.0 <= signal(f"{text}{tail}") <= 1.0 for signal in SIGNALS for tail in ("", "!", "\n"))


def test_long_plain_words_are_no_camel_case() -> None:
    assert identifiers("Unfortunately the internationalisation questionnaire misunderstood representatives") == 0.0


def test_the_names_of_products_and_people_are_no_camel_case() -> None:
    assert identifiers("McDonald told YouTube about the iPhone and about JavaScript in PostgreSQL") == 0.0


@pytest.mark.parametrize("name", ["maxRetryCount", "fontSize", "max_retry_count", "HttpClientFactory", "app.main.run"])
def test_names_that_only_programs_use_are_identifiers(name: str) -> None:
    assert identifiers(f"we then set {name} again") == 1.0


@pytest.mark.parametrize(
    "token",
    [
        "7f3c9a52-41de-4c0b-9a57-2f1be6a0d914",
        "7F3C9A52-41DE-4C0B-9A57-2F1BE6A0D914",
        "e83c5163316f89bfbde7d9ab23ca2e25",
        "https://example.org/a",
        "/var/log/app",
        "--verbose",
        "10.4.1.9:5432",
        "run()",
        "C:\\shop",
    ],
)
def test_ids_links_paths_and_options_are_identifiers(token: str) -> None:
    assert identifiers(token) == 1.0


@pytest.mark.parametrize("word", ["faded", "deadbeef", "e.g.", "well-known", "and/or", "9.30", "don't", "(well)"])
def test_what_only_looks_like_an_identifier_is_none(word: str) -> None:
    assert identifiers(word) == 0.0


def test_one_id_in_a_sentence_does_not_make_it_a_record() -> None:
    text = "Please look at 7f3c9a52-41de-4c0b-9a57-2f1be6a0d914 when you find the time, she is only confused."
    assert structured(text) == 0.0
    assert density(text) == ContentDensity.SPARSE


def test_a_smile_and_a_remark_in_brackets_are_no_code() -> None:
    assert density("We had a lovely time (mostly), and the dog came too :) He sends his love; so do I.") == "sparse"


def test_words_that_are_also_keywords_are_no_code() -> None:
    assert code("If we return for the class, import the chairs and else leave while they pass.") == 0.0


def test_imports_are_code_although_they_are_words() -> None:
    assert density("import json\nimport numpy as np\nfrom pathlib import Path") == "dense"
    assert density("Import the chairs from the hall.\nFrom then on import duties fell.\nImport is hard.") == "sparse"


def test_what_people_say_after_their_name_is_no_key_and_value() -> None:
    assert structured("Mara: did anyone hear back from the landlord?\nJoe: not yet, I called twice") == 0.0
    assert structured("Mara: yes!\nJoe: no.") == 0.0


def test_a_key_with_a_short_value_is_structure() -> None:
    assert structured("port: 8443\nname = mailer") == 1.0


def test_sentences_behind_bullets_are_no_structure() -> None:
    assert structured("- the keys stay with whoever closes\n- nobody works alone at the counter") == 0.0


def test_short_items_behind_bullets_are_structure() -> None:
    assert structured("- search\n- read_file") == 1.0


@pytest.mark.parametrize(
    "items",
    [
        "- \u6b22\u8fce\u65b0\u540c\u4e8b\u52a0\u5165\u6211\u4eec\u7684\u56e2\u961f",
        "- \u51b7\u8535\u5eab\u306e\u6383\u9664\u306f\u5f53\u756a\u5236\u306b\u3059\u308b",
        "- \u0e17\u0e38\u0e01\u0e04\u0e19\u0e40\u0e2b\u0e47\u0e19\u0e14\u0e49\u0e27\u0e22",
    ],
)
def test_a_sentence_without_spaces_is_not_one_word(items: str) -> None:
    assert structured(items) == 0.0


def test_the_time_before_a_chat_line_is_no_structure() -> None:
    chat = "[09:14] Anna: is the coffee machine working again?\n[09:15] Raj: it makes noises, that is a start"
    assert structured(chat) == code(chat) == 0.0
    assert density(chat) == "sparse"


def test_the_time_before_a_log_line_hides_no_structure() -> None:
    assert structured("2025-07-19 04:12:55 job=nightly removed=12 ms=2041") == 1.0


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_rows_with_as_many_delimiters_are_a_table(delimiter: str) -> None:
    table = "\n".join(delimiter.join(row) for row in (("city", "people", "size"), ("Lyon", "many", "large")))
    assert structured(table) == code(table) == 1.0


def test_one_line_is_no_table() -> None:
    assert structured("one,two,three") == structured("one,two,three\nand then four") == 0.0


def test_columns_of_spaces_are_a_table() -> None:
    assert structured("name    state   owner\nweb     ready   ada") == 1.0


def test_indented_lines_are_structure() -> None:
    assert structured("words\n  more words that go on for a while") == 1.0


def test_pairs_of_words_are_code_without_a_bracket() -> None:
    assert code("name: check\nwhen: push\nrun: make") == 1.0


def test_commas_of_two_sentences_are_no_table() -> None:
    text = "First the bread, then the cheese, which nobody knew.\nThen the uncle, late as always, with a melon."
    assert structured(text) == code(text) == 0.0


def test_numbers_in_a_history_do_not_make_it_dense() -> None:
    assert density("In 1987 they paid 62,000 pounds, in 2019 they had 3 children, 2 cats and 14 guitars.") == "sparse"


@pytest.mark.parametrize("figure", ["2.4.1", "v2.4.1", "10.4.1.9", "2025-04-11", "20931177", "04:12:55"])
def test_a_figure_counts_once_whatever_its_parts(figure: str) -> None:
    assert numeric(f"{figure} " + "word " * 19) == pytest.approx(0.5)


def test_one_line_has_no_line_structure() -> None:
    assert line_structure("x = 1") == 0.0


def test_many_short_lines_have_more_line_structure_than_few_or_long_ones() -> None:
    assert line_structure("x = 1\n" * 10) > line_structure("x = 1\n" * 3) > line_structure("word " * 15 + "\nx") > 0.0
    assert line_structure(("word " * 20 + "\n") * 10) == 0.0

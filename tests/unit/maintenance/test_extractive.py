import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.density_corpus import samples

from memcore.maintenance.consolidation.dual_mode import MAX_FACT_CHARS, ExtractivePreserver

UUID = "7f3c9a52-41de-4c0b-9a57-2f1be6a0d914"
HASH = "e83c5163316f89bfbde7d9ab23ca2e25"

#: Pieces from which texts with facts are made, beside any Unicode at all.
PIECES = ("https://example.org/a?b=c", "v1.2.3", "4.5.6", "10.0.0.1", "port: 80", "a=b", "\n", " ", ".", ")", "\u3002")
pieces = st.sampled_from([UUID, HASH, *PIECES]) | st.text(max_size=12)
texts = st.lists(pieces, max_size=40).map("".join) | st.text(max_size=600)


def extract(text: str, *, max_facts: int = 20, anchor_length: int = 150) -> str:
    return ExtractivePreserver(max_facts=max_facts, anchor_length=anchor_length).extract(text)


def facts(text: str, *, max_facts: int = 20) -> list[str]:
    """Return the facts of a text, of which each of its anchors has but one character."""
    head, _, listed = (
        extract(text, max_facts=max_facts, anchor_length=1).partition("[START] ")[0].partition("Key facts:\n")
    )
    assert head == "[Extractive preservation]\n"
    return [line.removeprefix("- ") for line in listed.splitlines()]


def test_an_extract_reads_as_the_reference_says() -> None:
    text = f"retries: 3\nsee https://example.org/a for {UUID}, {HASH} and v1.2.3\n" + "x" * 200
    assert extract(text, anchor_length=10) == (
        "[Extractive preservation]\n"
        "Key facts:\n"
        "- https://example.org/a\n"
        f"- {UUID}\n"
        f"- {HASH}\n"
        "- v1.2.3\n"
        "- retries: 3\n"
        "[START] retries: 3...\n"
        "[MID] ...xxxxxxxxxx...\n"
        "[END] ...xxxxxxxxxx"
    )


def test_a_text_without_facts_has_anchors_alone() -> None:
    assert extract("just words") == "[Extractive preservation]\n[START] just words"


def test_a_text_as_long_as_an_anchor_stands_whole_at_the_start() -> None:
    assert extract("x" * 150) == f"[Extractive preservation]\n[START] {'x' * 150}"


def test_a_text_one_character_longer_has_three_anchors_and_its_middle_no_mark_where_it_begins() -> None:
    assert extract("abc", anchor_length=2) == "[Extractive preservation]\n[START] ab...\n[MID] ab...\n[END] ...bc"


def test_facts_over_the_limit_are_left_out_the_last_first() -> None:
    text = f"port: 80\nv1.2.3 {HASH} {UUID} https://example.org/a"
    assert facts(text, max_facts=2) == ["https://example.org/a", UUID]


def test_a_fact_is_listed_once_at_its_first_place() -> None:
    assert facts("v2.0.0 v1.0.0 v2.0.0") == ["v2.0.0", "v1.0.0"]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v1.2.3", ["v1.2.3"]),
        ("V1.2.3.4", ["V1.2.3.4"]),
        ("1.2.3", ["1.2.3"]),
        ("\u7248\u672c1.2.3\u3002", ["1.2.3"]),
        ("1.2", []),
        ("v1.2", []),
        ("10.4.1.9", []),
        ("1.2.34.5", []),
        ("v1.2.3.4.5", []),
        ("x1.2.3", []),
        ("1.2.3.", ["1.2.3"]),
    ],
)
def test_versions_have_three_parts_and_addresses_are_none(text: str, version: list[str]) -> None:
    assert facts(text) == version


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("see https://example.org/a.", "https://example.org/a"),
        ("(see https://example.org/a_(b)).", "https://example.org/a_(b)"),
        ('{"url":"https://example.org/a","n":1}', "https://example.org/a"),
        ("[it](https://example.org/a), and", "https://example.org/a"),
        ("https://example.org/a\uff0c\u8bf7\u770b", "https://example.org/a"),
    ],
)
def test_a_link_ends_where_its_sentence_goes_on(text: str, link: str) -> None:
    assert facts(text) == [link]


@pytest.mark.parametrize(
    "line", ["port: 8443", "  name = mailer ", '"port": 8443,', "LOG_LEVEL=warning", "\u540d\u524d: \u307f\u306a\u3068"]
)
def test_a_line_of_a_key_and_its_value_is_a_fact_without_its_indentation(line: str) -> None:
    assert facts(f"words\n{line}\nwords") == [line.strip()]


@pytest.mark.parametrize("line", ["jobs:", "x == y", "x => y", "09:14 hello", "a b c: d", "=3", ": 3", "std::io"])
def test_other_lines_are_no_facts(line: str) -> None:
    assert facts(line) == []


@pytest.mark.parametrize(("fact", "more"), [("https://example.org/", "x"), ("key: ", "x"), ("f0", "a")])
def test_what_is_too_long_for_a_fact_is_left_to_the_anchors(fact: str, more: str) -> None:
    assert facts(fact + more * (MAX_FACT_CHARS - len(fact)))
    assert facts(fact + more * (MAX_FACT_CHARS - len(fact) + 1)) == []


def test_a_uuid_of_capitals_is_a_fact_and_a_longer_run_is_none() -> None:
    assert facts(UUID.upper()) == [UUID.upper()]
    assert facts(f"{UUID}0") == []


@pytest.mark.parametrize("field", ["max_facts", "anchor_length"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_below_one_is_refused(field: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{field} must be 1 or more, not {value}"):
        ExtractivePreserver(**{field: value})


@given(texts, st.integers(1, 8))
@example("\ud800 \udfff: \ud800", 1)
@example("\u2028https://a\u2029", 1)
def test_every_fact_stands_in_the_text_once_and_there_are_not_too_many(text: str, max_facts: int) -> None:
    found = facts(text, max_facts=max_facts)
    assert len(found) == len(set(found)) <= max_facts
    assert all(fact in text for fact in found)


@given(texts, st.integers(1, 5), st.integers(1, 60))
def test_the_same_text_has_the_same_extract_and_its_length_is_bounded(text: str, max_facts: int, length: int) -> None:
    made = extract(text, max_facts=max_facts, anchor_length=length)
    assert made == extract(text, max_facts=max_facts, anchor_length=length)
    assert len(made) <= 80 + max_facts * (MAX_FACT_CHARS + 3) + 3 * length


@given(texts, st.integers(1, 60))
def test_the_anchors_are_the_beginning_the_middle_and_the_end(text: str, length: int) -> None:
    made = extract(text, anchor_length=length)
    if len(text) <= length:
        assert made.endswith(f"[START] {text}")
        return
    assert f"[START] {text[:length]}...\n[MID] " in made
    assert made.endswith(f"\n[END] ...{text[-length:]}")
    middle = (len(text) - length) // 2
    assert f"{text[middle : middle + length]}...\n[END]" in made


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "unit",
    ["a", "f0", "1.", "1", "v1.", "https://", "a=", "a:", " ", "-", "https://a)", "(", "a \n", "0000-", "\t", "a."],
)
def test_no_pattern_backtracks_over_a_hostile_text(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    assert all(extract(f"{text}{tail}") for tail in ("", "!", "\n"))


def test_the_extracts_of_dense_texts_keep_their_links_and_ids() -> None:
    for sample in samples():
        for fact in (each for each in facts(sample.text) if each.startswith("http")):
            assert f"- {fact}\n" in extract(sample.text)

"""Words whose exact form tells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.embedding.exact import exact_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Who has blood group AB-?", ["AB-"]),
        ("It is -8 outside, and 8 inside.", ["-8", "8"]),
        ("It is \N{MINUS SIGN}8 outside.", ["-8"]),
        ("Written in C++, F# or C (not R).", ["C++", "F#", "C", "R"]),
        ("A plan that I have", []),
        ("See `/srv/Kiln/` and ~/notes.", ["/srv/Kiln/", "~/notes"]),
        ("Try quill -n, --grid, or -N!", ["-n", "--grid", "-N"]),
        ("call rows.fetchRow(id) or FetchRow", ["rows.fetchRow(id", "fetchRow", "FetchRow"]),
        ("row_id is not rowId, _so_", ["row_id", "rowId"]),
        (
            "at -8\N{DEGREE SIGN}C, with v2.1 of it, 5mg on 2026-03-01",
            ["-8\N{DEGREE SIGN}C", "-8", "v2.1", "2.1", "5mg", "5", "2026-03-01", "2026"],
        ),
        ("LICENSE.md, license.md", ["LICENSE.md", "license.md"]),
        ("NASA's iPhone", ["NASA", "iPhone"]),
        ("a cable of 5 Mb and 7 m for Mia", ["5", "Mb", "7"]),
        ("50% of $9.50 is about 4.75 \N{EURO SIGN}", ["50%", "50", "$9.50", "4.75", "\N{EURO SIGN}"]),
        ('if a >= b or "" is "-"', [">=", '""', '"-"']),
        ("well-known e-mail - isn't it \N{EM DASH} **bold** ... | / & #", []),
        ("\u6587\u4ef6\u5728/srv/A\u91cc", ["/srv/A"]),
        ("NOTHING IS TOLD BY CASE HERE, 5 MB", ["5"]),
        ("\u0939\u093f\u0928\u094d\u0926\u0940 \u0938\u093c\u0901", []),
        ("Stra\N{LATIN SMALL LETTER SHARP S}e und \u041f\u0440\u0438\u0432\u0435\u0442", []),
        ("", []),
    ],
)
def test_signs_digits_and_telling_case_are_found_without_what_stands_around_them(text: str, words: list[str]) -> None:
    assert exact_words(text) == words


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_no_text_is_refused_and_no_word_has_a_space(text: str) -> None:
    assert all(word and word.split() == [word] for word in exact_words(text))

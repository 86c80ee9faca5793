import re

import yaml
from hypothesis import given
from hypothesis import strategies as st

from memcore.wiki.pages import fenced, file_bytes, front_matter, plain

TEXTS = st.text() | st.text("`-#:\n\r\t \"'\\[]()!<>{}&*|%@\u2028\x85\x00")


@given(TEXTS, TEXTS)
def test_the_front_matter_says_in_yaml_what_it_was_given_whatever_that_is(one: str, other: str) -> None:
    page = file_bytes(front_matter({"id": one, "agent_id": other, "raw": 3}), "---\nbody: 1").decode()
    head = page.split("\n---\n", 1)[0].removeprefix("---\n")
    assert yaml.safe_load(head) == {"id": one, "agent_id": other, "raw": 3}
    assert len(re.split("[\n\r]", head)) == 3, "one line for each field"


def test_words_that_yaml_takes_for_something_else_stay_words() -> None:
    for word in ("no", "null", "1e3", "2026-03-01", "~", "---", "- a", "a: b # c"):
        assert yaml.safe_load(front_matter({"id": word}).strip("-\n")) == {"id": word}


@given(TEXTS)
def test_a_fence_is_longer_than_any_run_in_it_and_keeps_the_text(text: str) -> None:
    opening, rest = fenced(text).split("\n", 1)
    fence = opening.removesuffix("text")
    assert set(fence) == {"`"}
    assert fence not in text
    assert rest == f"{text}\n{fence}"


@given(TEXTS)
def test_plain_text_is_one_line_without_control_characters(text: str) -> None:
    line = plain(text)
    assert line == "".join(line.splitlines())
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", line)


def test_nothing_in_plain_text_means_anything_to_markdown() -> None:
    assert plain("![x](http://h/?q=1)\n<script>`a`") == r"\!\[x\](http://h/?q\=1) \<script\>\`a\`"
    assert plain("[[note]] #tag **b** $x$ a|b") == r"\[\[note\]\] \#tag \*\*b\*\* \$x\$ a\|b"
    assert plain("- item") == r"\- item"
    assert plain("12. item") == r"12\. item"
    assert plain("a. b - c") == "a. b - c"


def test_what_is_no_text_is_written_so_that_it_can_be_read() -> None:
    assert file_bytes("a\ud800b") == b"a\\ud800b\n"

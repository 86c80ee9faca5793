from hypothesis import given
from hypothesis import strategies as st

from memcore.wiki.folders import MAX_CHARS, slug

KEYS = st.text(st.characters(codec=None), min_size=1, max_size=256)


@given(KEYS, KEYS)
def test_two_ids_never_share_a_name_even_where_case_does_not_count(one: str, other: str) -> None:
    assert (slug(one).lower() == slug(other).lower()) == (one == other)


@given(KEYS)
def test_a_name_is_one_plain_name_that_no_file_system_refuses(key: str) -> None:
    name = slug(key)
    assert 0 < len(name.encode("ascii")) <= MAX_CHARS
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-=")


def test_what_people_call_agents_stays_readable() -> None:
    assert slug("on-call_7") == "on-call_7"
    assert slug("Ada") == "=41da"
    assert slug("../../etc") == "=2e=2e=2f=2e=2e=2fetc"
    assert slug("日") == "=e6=97=a5"


def test_long_ids_differ_by_their_last_letter() -> None:
    one, other = slug("日" * 255 + "a"), slug("日" * 255 + "b")
    assert one != other
    assert one[:120] == other[:120]

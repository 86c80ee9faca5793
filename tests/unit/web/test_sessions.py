"""Sessions: known again by every process, signed with the key's hash, gone with the key, the time or a changed byte."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers
from support.console import console_settings
from support.present import present

from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger
from ops.web.sessions import COOKIE, LASTS, NOBODY, Sessions, cookie_of


class Time:
    now = datetime(2026, 5, 4, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def _sessions(ledger: Ledger, urls: LedgerUrls, clock: Time, broker: str = "one") -> Sessions:
    return Sessions(console_settings(urls, Path("/nowhere"), broker=broker), ledger.api_keys, clock=clock)


def test_a_session_is_known_in_every_process_of_the_installation_alone(
    ledger: Ledger, sqlite_ledger: LedgerUrls
) -> None:
    clock, key = Time(), ledger.api_keys.create("acme", name="ada", verbs=["read"])
    here, there = _sessions(ledger, sqlite_ledger, clock), _sessions(ledger, sqlite_ledger, clock)
    begun = present(here.begin(key.key.key_id))
    assert key.token.rpartition("_")[2] not in begun.cookie
    assert there.key_of(begun.cookie) == key.key
    known = present(there.session_of(begun.cookie))
    assert (known.csrf, known.is_new) == (begun.csrf, False)
    assert begun.csrf not in begun.cookie
    assert _sessions(ledger, sqlite_ledger, clock, "another").key_of(begun.cookie) is None


def test_a_session_ends_with_its_time_and_with_its_key(ledger: Ledger, sqlite_ledger: LedgerUrls) -> None:
    clock, key = Time(), ledger.api_keys.create("acme", name="ada", verbs=["read"])
    sessions = _sessions(ledger, sqlite_ledger, clock)
    first, second = sessions.begin(key.key.key_id), sessions.begin(key.key.key_id)
    assert first is not None
    assert second is not None
    assert first.cookie != second.cookie
    clock.now += LASTS - timedelta(seconds=1)
    assert sessions.key_of(first.cookie) == key.key
    assert not sessions.has_ended(first.cookie)
    clock.now += timedelta(seconds=1)
    assert sessions.key_of(first.cookie) is None
    assert sessions.has_ended(first.cookie)
    later = present(sessions.begin(key.key.key_id))
    ledger.api_keys.revoke("acme", key.key.key_id)
    assert sessions.key_of(later.cookie) is None
    assert sessions.begin(key.key.key_id) is None


def test_a_changed_cookie_is_no_session(ledger: Ledger, sqlite_ledger: LedgerUrls) -> None:
    clock = Time()
    ada, eve = (ledger.api_keys.create("acme", name=name, verbs=["read"]).key.key_id for name in ("ada", "eve"))
    sessions = _sessions(ledger, sqlite_ledger, clock)
    begun = present(sessions.begin(eve))
    _, ends, nonce, code = begun.cookie.split(".")
    later = str(int(ends) + 60)
    forged = [
        f"{ada}.{ends}.{nonce}.{code}",
        f"{eve}.{later}.{nonce}.{code}",
        f"{eve}.{ends}.{nonce[:-1]}.{code}",
        f"{eve}.{ends}.{nonce}.{code[:-1]}",
        f"{eve}.{ends}.{nonce}.",
        f"{eve}.{ends}.{nonce}.{begun.csrf}",
        sessions.nobodys(None).cookie,
        "",
        "...",
        "é.1.2.3",
        "x" * 10_000,
    ]
    assert [sessions.key_of(each) for each in forged] == [None] * len(forged)


def test_nobodys_session_is_kept_and_a_wrong_one_replaced(ledger: Ledger, sqlite_ledger: LedgerUrls) -> None:
    clock = Time()
    sessions = _sessions(ledger, sqlite_ledger, clock)
    made = sessions.nobodys(None)
    assert (made.key_id, made.is_new) == (NOBODY, True)
    again = sessions.nobodys(made.cookie)
    assert (again.cookie, again.csrf, again.is_new) == (made.cookie, made.csrf, False)
    assert sessions.nobodys(made.cookie + "x").is_new
    clock.now += LASTS
    assert sessions.nobodys(made.cookie).is_new


@given(text=st.text(max_size=300))
def test_any_text_is_read_as_a_cookie_without_an_error(text: str) -> None:
    headers = Headers({"cookie": text.encode("utf-8", "replace").decode("latin-1")})
    assert cookie_of(headers, COOKIE) is None or COOKIE in text
    sessions = Sessions.__new__(Sessions)
    sessions._clock = Time()
    assert sessions.has_ended(text) in {True, False}

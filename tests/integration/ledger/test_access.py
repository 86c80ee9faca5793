"""Keys of callers and requests that come again, on both databases."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import text
from support.ledger_records import COMPANY, StoppedClock

from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.ledger.access.keys import NewApiKey, Verb
from memcore.ledger.database import Database
from memcore.ledger.ledger import Ledger

OTHER = "globex"


@pytest.fixture
def made(ledger: Ledger) -> NewApiKey:
    return ledger.api_keys.create(COMPANY, name="oncall engine", verbs=["read", "write"], agents=["oncall"])


@pytest.fixture
def database(urls: LedgerUrls) -> Iterator[Database]:
    opened = Database(urls.ledger, name="ledger")
    yield opened
    opened.close()


def test_given_a_new_key_when_its_token_comes_then_it_is_that_key(ledger: Ledger, made: NewApiKey) -> None:
    assert ledger.api_keys.of_token(made.token) == made.key
    assert made.key.company == COMPANY
    assert made.key.agents == frozenset({"oncall"})
    assert made.key.verbs == frozenset({Verb.READ, Verb.WRITE})
    assert ledger.api_keys.list(COMPANY) == (made.key,)


def test_a_key_for_all_agents_comes_back_as_one(ledger: Ledger) -> None:
    for_all = ledger.api_keys.create(COMPANY, name="all", verbs=[Verb.ADMIN])
    found = ledger.api_keys.of_token(for_all.token)
    assert found is not None
    assert found.agents is None


def test_no_secret_is_stored_or_shown(ledger: Ledger, made: NewApiKey, database: Database) -> None:
    secret = made.token.split("_")[2]
    assert len(secret) == 64
    with database.read() as connection:
        (row,) = connection.execute(text("SELECT * FROM api_keys")).all()
    assert secret not in str(row)
    assert secret not in repr(made)
    assert "hash" not in ledger.api_keys.list(COMPANY)[0].model_dump()


def test_any_other_text_is_no_key(ledger: Ledger, made: NewApiKey) -> None:
    prefix, key_id, secret = made.token.split("_")
    flipped = secret[:-1] + ("0" if secret[-1] != "0" else "1")
    others = ["", "mt", f"{prefix}_{key_id}_", f"{prefix}_{key_id}_{flipped}", f"{prefix}__{secret}", made.token + "0"]
    others += [f"xx_{key_id}_{secret}", f"{prefix}_{'0' * 16}_{secret}", made.token.upper(), "é" * 20, "mt_" * 1_000]
    assert [ledger.api_keys.of_token(each) for each in others] == [None] * len(others)


def test_given_a_revoked_key_when_its_token_comes_then_it_is_none(ledger: Ledger, made: NewApiKey) -> None:
    other = ledger.api_keys.create(COMPANY, name="other", verbs=["read"])
    revoked = ledger.api_keys.revoke(COMPANY, made.key.key_id)
    assert revoked.revoked_at is not None
    assert ledger.api_keys.of_token(made.token) is None
    assert ledger.api_keys.of_token(other.token) == other.key
    assert ledger.api_keys.revoke(COMPANY, made.key.key_id).revoked_at == revoked.revoked_at


def test_another_company_cannot_revoke_it(ledger: Ledger, made: NewApiKey) -> None:
    with pytest.raises(MemoryNotFoundError, match="key_id"):
        ledger.api_keys.revoke(OTHER, made.key.key_id)
    assert ledger.api_keys.of_token(made.token) == made.key


def test_its_last_use_is_kept(ledger: Ledger, made: NewApiKey, clock: StoppedClock) -> None:
    ledger.api_keys.note_use(made.key.key_id, at=clock())
    assert ledger.api_keys.list(COMPANY)[0].last_used_at == clock()


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"verbs": []}, "verbs"),
        ({"verbs": ["read", "all"]}, "verbs"),
        ({"agents": []}, "agents"),
        ({"agents": ["__shared__"]}, "agents"),
        ({"agents": [f"a{each}" for each in range(257)]}, "agents"),
    ],
)
def test_what_is_not_valid_makes_no_key(ledger: Ledger, given: dict[str, list[str]], field: str) -> None:
    with pytest.raises(MemoryInputError) as refused:
        ledger.api_keys.create(COMPANY, **{"name": "x", "verbs": ["read"], **given})  # type: ignore[arg-type]
    assert refused.value.field == field
    assert ledger.api_keys.list(COMPANY) == ()


def test_given_a_request_when_it_comes_again_then_it_is_answered_as_the_first(
    ledger: Ledger, clock: StoppedClock
) -> None:
    first = ledger.idempotency.claim(COMPANY, "k", "one", request_hash="a")
    clock.advance(timedelta(minutes=1))
    assert ledger.idempotency.claim(COMPANY, "k", "one", request_hash="a") == first
    assert ledger.idempotency.record(COMPANY, "k", "one", b"said") == b"said"
    assert ledger.idempotency.record(COMPANY, "k", "one", b"said later") == b"said"
    again = ledger.idempotency.claim(COMPANY, "k", "one", request_hash="a")
    assert (again.response, again.created_at) == (b"said", first.created_at)


def test_another_request_under_its_key_is_refused(ledger: Ledger) -> None:
    ledger.idempotency.claim(COMPANY, "k", "one", request_hash="a")
    with pytest.raises(MemoryInputError, match="idempotency_key"):
        ledger.idempotency.claim(COMPANY, "k", "one", request_hash="b")


@pytest.mark.parametrize(
    ("company", "key_id", "name"), [(OTHER, "k", "one"), (COMPANY, "l", "one"), (COMPANY, "k", "two")]
)
def test_a_request_of_another_caller_is_another(ledger: Ledger, company: str, key_id: str, name: str) -> None:
    ledger.idempotency.claim(COMPANY, "k", "one", request_hash="a")
    ledger.idempotency.record(COMPANY, "k", "one", b"said")
    assert ledger.idempotency.claim(company, key_id, name, request_hash="b").response is None


def test_what_has_expired_is_a_new_request(ledger: Ledger, clock: StoppedClock) -> None:
    ledger.idempotency.claim(COMPANY, "k", "old", request_hash="a")
    clock.advance(timedelta(hours=25))
    ledger.idempotency.claim(COMPANY, "k", "new", request_hash="a")
    assert ledger.idempotency.expire(COMPANY, before=clock() - timedelta(hours=24)) == 1
    assert ledger.idempotency.claim(COMPANY, "k", "old", request_hash="b").response is None
    assert ledger.idempotency.record(COMPANY, "k", "gone", b"said") == b"said"


def test_two_valid_keys_of_a_company_have_two_names(ledger: Ledger, made: NewApiKey) -> None:
    with pytest.raises(MemoryInputError, match=f"name: is that of key {made.key.key_id}"):
        ledger.api_keys.create(COMPANY, name=made.key.name, verbs=["read"])
    assert ledger.api_keys.create(OTHER, name=made.key.name, verbs=["read"]).key.name == made.key.name
    ledger.api_keys.revoke(COMPANY, made.key.key_id)
    assert ledger.api_keys.create(COMPANY, name=made.key.name, verbs=["read"]).key.key_id != made.key.key_id


def test_of_keys_that_are_made_at_once_under_one_name_one_is_made(ledger: Ledger) -> None:
    start = threading.Barrier(4)

    def create(number: int) -> bool:
        start.wait(60)
        try:
            ledger.api_keys.create(COMPANY, name=f"key {number}", verbs=["read"])
        except MemoryInputError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        made = [list(pool.map(create, [number] * 4)) for number in range(10)]
    assert [each.count(True) for each in made] == [1] * 10

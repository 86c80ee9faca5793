import base64
import json
from datetime import timedelta
from hashlib import sha256

from support.ledger_records import COMPANY, StoppedClock
from support.present import present

from memcore.jobs import MAX_MESSAGE_BYTES
from memcore.ledger.dead_letters import HEAD_BYTES, UNREADABLE, DeadLetter, NewDeadLetter
from memcore.ledger.ledger import Ledger


def add_tombstones(
    ledger: Ledger, job_id: str, *, company: str = COMPANY, reason: str = "it will never work"
) -> DeadLetter:
    ledger.dead_letters.put(
        NewDeadLetter(
            job_id=job_id,
            company=company,
            job="memory.store.write",
            queue="memory.store",
            payload='{"items": ["日本"]}',
            reason=reason,
            attempts=1,
        )
    )
    return present(ledger.dead_letters.get(job_id))


def test_a_letter_comes_back_whole_and_shows_no_payload(ledger: Ledger, clock: StoppedClock) -> None:
    letter = add_tombstones(ledger, "one")
    assert (letter.payload, letter.died_at) == ('{"items": ["日本"]}', clock.now)
    assert "日本" not in repr(letter)


def test_the_newest_comes_first_and_no_other_companys(ledger: Ledger, clock: StoppedClock) -> None:
    for job_id in ("one", "two"):
        add_tombstones(ledger, job_id)
        clock.advance(timedelta(seconds=1))
    add_tombstones(ledger, "theirs", company="other")
    assert [letter.job_id for letter in ledger.dead_letters.list(COMPANY)] == ["two", "one"]
    assert ledger.dead_letters.ids(COMPANY) == ("one", "two")
    assert ledger.dead_letters.count(COMPANY) == 2


def test_a_job_that_dies_again_dies_anew(ledger: Ledger, clock: StoppedClock) -> None:
    first = add_tombstones(ledger, "one", reason="first")
    clock.advance(timedelta(seconds=1))
    second = add_tombstones(ledger, "one", reason="second")
    assert (second.reason, second.died_at) == ("second", clock.now)
    assert not ledger.dead_letters.remove(first)
    assert ledger.dead_letters.get("one") == second
    assert ledger.dead_letters.remove(second)
    assert ledger.dead_letters.get("one") is None


def test_purging_takes_what_is_named_or_old_and_no_other_companys(ledger: Ledger, clock: StoppedClock) -> None:
    for job_id in ("old", "named"):
        add_tombstones(ledger, job_id)
    add_tombstones(ledger, "theirs", company="other")
    clock.advance(timedelta(days=30))
    add_tombstones(ledger, "new")
    assert ledger.dead_letters.purge(COMPANY, ["named", "theirs", "nothing"]) == 1
    week = clock.now - timedelta(days=7)
    assert ledger.dead_letters.older(COMPANY, before=week) == 1
    assert ledger.dead_letters.purge_older(COMPANY, before=week) == 1
    assert [letter.job_id for letter in ledger.dead_letters.list(COMPANY)] == ["new"]
    assert ledger.dead_letters.count("other") == 1


def test_starts_are_counted_until_the_job_ends(ledger: Ledger) -> None:
    assert ledger.attempts.count("one") == 0
    assert [ledger.attempts.begin("one"), ledger.attempts.begin("one"), ledger.attempts.begin("two")] == [1, 2, 1]
    assert ledger.attempts.count("one") == 2
    ledger.attempts.end("one")
    assert (ledger.attempts.count("one"), ledger.attempts.count("two")) == (0, 1)
    ledger.attempts.end("nobody")


def unreadable(*content: bytes, queue: str = "memory.store") -> NewDeadLetter:
    return NewDeadLetter.unreadable(content, company=COMPANY, queue=queue, reason="is no message")


def test_an_unreadable_message_is_kept_whole_with_its_size_and_hash(ledger: Ledger) -> None:
    letter = unreadable("日本 \0".encode(), b"\n")
    ledger.dead_letters.put(letter)
    ledger.dead_letters.put(unreadable("日本 \0\n".encode()))
    kept = present(ledger.dead_letters.get(letter.job_id))
    content = "日本 \0\n".encode()
    payload = json.loads(kept.payload)
    assert base64.b64decode(payload.pop("base64")) == content
    assert payload == {"bytes": len(content), "sha256": sha256(content).hexdigest()}
    assert ledger.dead_letters.count(COMPANY, job=UNREADABLE) == 1
    assert ledger.dead_letters.count(COMPANY, job="memory.store.write") == 0
    assert json.loads(unreadable(b"plain text").payload)["text"] == "plain text"


def test_of_a_message_above_the_limit_the_ledger_takes_a_head_and_a_hash(ledger: Ledger) -> None:
    piece = bytes(range(256)) * 4_096  # 1 MiB
    letter = unreadable(*(piece for _ in range(9)))
    ledger.dead_letters.put(letter)
    payload = json.loads(letter.payload)
    assert base64.b64decode(payload["base64"]) == (piece * 9)[:HEAD_BYTES]
    assert (payload["bytes"], payload["sha256"]) == (9 * len(piece), sha256(piece * 9).hexdigest())
    assert len(unreadable(*[b'"' * MAX_MESSAGE_BYTES]).payload) < 1.4 * MAX_MESSAGE_BYTES


def test_a_broken_copy_of_a_message_takes_no_other_letters_place() -> None:
    ids = {unreadable(b"one").job_id, unreadable(b"two").job_id, unreadable(b"one", queue="memory.control").job_id}
    assert len(ids) == 3

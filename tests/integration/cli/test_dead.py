"""Jobs that were given up: a person looks at them, sends them again, or drops them."""

from collections.abc import Iterator

import pytest
from redis import Redis
from support.command_line import CommandLine
from support.memories import new_agent
from support.present import present
from support.running_stack import StackAddress, wait_until

from memcore import JobState, MemoryClient, ids
from memcore.client.envelopes import build_payload, store_jobs
from memcore.clock import utc_now
from memcore.jobs import Queue, StorePayload, TurnPayload
from memcore.ledger.dead_letters import UNREADABLE, NewDeadLetter, kept_of
from memcore.ledger.ledger import Ledger
from memcore.models.memory import MemoryCategory, MemoryStoreRequest

#: A word that no command may print unless it is asked to.
WORD = "xylophonequartz"


@pytest.fixture
def ledger(stack: StackAddress) -> Iterator[Ledger]:
    opened = Ledger.open(stack.settings.ledger_urls)
    yield opened
    opened.dead_letters.purge(stack.settings.company, opened.dead_letters.ids(stack.settings.company))
    opened.close()


def stop_trying(ledger: Ledger, agent_id: str, *, company: str, payload: str | None = None) -> str:
    """Leave the letter of a job that would store one memory, and return the job's id."""
    request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=f"the {WORD} is in the cellar")
    item = build_payload(agent_id, request, company=company, sent_at=utc_now())
    (job,) = store_jobs(company, [item], queue=Queue.STORE)
    job_id = ids.new_id()
    ledger.dead_letters.put(
        NewDeadLetter(
            job_id=job_id,
            company=company,
            job=StorePayload.task,
            queue=str(Queue.STORE_BULK),
            payload=job.payload if payload is None else payload,
            reason="4 workers died while they ran it",
            attempts=1,
        )
    )
    return job_id


def test_a_letter_is_told_without_its_memories(memtend: CommandLine, stack: StackAddress, ledger: Ledger) -> None:
    agent = new_agent()
    job_id = stop_trying(ledger, agent, company=stack.settings.company)
    listed, shown = memtend.ok("dead", "list"), memtend.ok("dead", "show", job_id)
    for said in (listed, shown):
        assert job_id in said.out
        assert "4 workers died while they ran it" in said.out
        assert WORD not in said.out
    facts = memtend.ok("dead", "show", job_id, "--json").value
    assert facts["agents"] == [agent]
    assert len(facts["memory_ids"]) == 1
    assert "payload" not in facts
    assert WORD not in str(memtend.ok("dead", "list", "--json").value)
    assert WORD in memtend.ok("dead", "show", job_id, "--content").out
    whole = memtend.ok("dead", "show", job_id, "--content", "--json").value
    assert WORD in whole["payload"]["items"][0]["request"]["content"]


def test_a_letter_that_nobody_can_read_can_still_be_looked_at(
    memtend: CommandLine, stack: StackAddress, ledger: Ledger
) -> None:
    job_id = stop_trying(ledger, new_agent(), company=stack.settings.company, payload="{oops")
    assert memtend.ok("dead", "show", job_id, "--json").value["memory_ids"] == []
    assert memtend.ok("dead", "show", job_id, "--content", "--json").value["payload"] == "{oops"


def test_status_and_doctor_tell_of_letters(memtend: CommandLine, stack: StackAddress, ledger: Ledger) -> None:
    stop_trying(ledger, new_agent(), company=stack.settings.company)
    assert memtend.ok("status", "--json").value["dead"] == 1
    assert "dead letters: 1" in memtend.ok("status").out
    findings = {each["check"]: each for each in memtend("doctor", "--json").value}
    assert findings["dead letters"]["ok"] is False
    assert "memtend dead" in findings["dead letters"]["mend"]


def test_a_replayed_job_runs_under_its_id_and_its_letter_goes(
    memtend: CommandLine, stack: StackAddress, ledger: Ledger
) -> None:
    agent = new_agent()
    job_id = stop_trying(ledger, agent, company=stack.settings.company)
    assert memtend.ok("dead", "replay", job_id, "--json").value == {"replayed": 1}
    with MemoryClient.from_settings(stack.settings) as client:
        (status,) = client.wait([job_id], timeout_seconds=600)
    assert (status.state, status.facts["stored"]) == (JobState.DONE, 1)
    assert ledger.dead_letters.get(job_id) is None
    found = memtend.ok("search", agent, WORD, "--json").value
    assert len(found) == 1


def test_all_letters_are_replayed_and_one_that_dies_again_is_kept(
    memtend: CommandLine, stack: StackAddress, ledger: Ledger
) -> None:
    good = stop_trying(ledger, new_agent(), company=stack.settings.company)
    bad = stop_trying(ledger, new_agent(), company=stack.settings.company, payload="{oops")
    before = present(ledger.dead_letters.get(bad))
    assert memtend.ok("dead", "replay", "--all", "--json").value == {"replayed": 2}
    with MemoryClient.from_settings(stack.settings) as client:
        states = {status.job_id: status.state for status in client.wait([good, bad], timeout_seconds=600)}
    assert states == {good: JobState.DONE, bad: JobState.DEAD}
    wait_until(lambda: ledger.dead_letters.ids(stack.settings.company) == (bad,), what="the letter of the bad one")
    after = present(ledger.dead_letters.get(bad))
    assert (after.payload, after.died_at > before.died_at) == ("{oops", True)


def test_a_message_that_could_not_be_read_is_told_looked_at_and_dropped_and_never_sent_again(
    memtend: CommandLine, stack: StackAddress, ledger: Ledger
) -> None:
    with Redis.from_url(stack.settings.broker_url) as broker:
        broker.lpush(str(Queue.STORE_0), f"no message but {WORD}")
    company = stack.settings.company
    wait_until(lambda: ledger.dead_letters.count(company, job=UNREADABLE) == 1, what="the letter")
    (job_id,) = ledger.dead_letters.ids(company)

    assert "is no message of ours" in memtend.ok("dead", "list").out
    facts = memtend.ok("dead", "show", job_id, "--json").value
    assert (facts["job"], facts["queue"], facts["message_bytes"]) == ("unreadable", str(Queue.STORE_0), 30)
    assert WORD not in memtend.ok("dead", "show", job_id).out
    assert WORD in memtend.ok("dead", "show", job_id, "--content").out
    findings = {each["check"]: each for each in memtend("doctor", "--json").value}
    assert findings["dead letters"]["seen"] == "0 jobs were given up, 1 messages could not be read"
    assert "could not be read" in memtend("dead", "replay", job_id).err
    assert memtend.ok("dead", "replay", "--all", "--json").value == {"replayed": 0}
    assert memtend.ok("dead", "purge", job_id, "--yes").out == "dropped: 1\n"
    assert WORD not in stack.log("worker-store")


def test_another_companys_letters_are_out_of_reach(memtend: CommandLine, ledger: Ledger) -> None:
    theirs = stop_trying(ledger, new_agent(), company="other")
    for words in (("show", theirs), ("replay", theirs), ("purge", theirs, "--yes")):
        answer = memtend("dead", *words)
        assert answer.code == 1
        assert "names no dead letter" in answer.err
    assert ledger.dead_letters.count("other") == 1
    ledger.dead_letters.purge("other", [theirs])


def test_purging_wants_a_yes_and_then_drops_what_was_named(
    memtend: CommandLine, stack: StackAddress, ledger: Ledger
) -> None:
    company = stack.settings.company
    one, two = (stop_trying(ledger, new_agent(), company=company) for _ in range(2))
    answer = memtend("dead", "purge", one)
    assert (answer.code, answer.err) == (2, "memtend: yes: would drop 1 for good; say --yes\n")
    assert ledger.dead_letters.count(company) == 2
    assert memtend.ok("dead", "purge", one, "--yes").out == "dropped: 1\n"
    assert ledger.dead_letters.ids(company) == (two,)
    assert memtend.ok("dead", "purge", "--older-than", "1", "--yes", "--json").value == {"purged": 0}
    assert memtend.ok("dead", "purge", "--older-than", "0", "--yes", "--json").value == {"purged": 1}


def test_a_letter_of_a_turn_says_why_it_cannot_be_sent_again(
    memtend: CommandLine, stack: StackAddress, ledger: Ledger
) -> None:
    company, job_id = stack.settings.company, ids.new_id()
    ledger.dead_letters.put(
        NewDeadLetter(
            job_id=job_id,
            company=company,
            job=TurnPayload.task,
            queue=str(Queue.DISTILL),
            payload=kept_of(TurnPayload, '{"agent_id": "ada", "user_text": "I live in Berlin"}'),
            reason="gave up after 200 attempts",
            attempts=200,
        )
    )
    assert "keeps nothing of what was said, and cannot be sent again" in memtend("dead", "replay", job_id).err
    assert memtend.ok("dead", "replay", "--all", "--json").value == {"replayed": 0}
    shown = memtend.ok("dead", "show", job_id, "--content", "--json").value
    assert shown["payload"] == {"agent_id": "ada", "user_text_chars": 16}

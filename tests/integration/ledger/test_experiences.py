"""Raw experience, on each database."""

from datetime import timedelta

import pytest
from sqlalchemy import text
from support.experiences import experience
from support.ledger_records import COMPANY, StoppedClock

from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryInputError, MemoryRetrievalError
from memcore.jobs import MAX_PAYLOAD_BYTES
from memcore.ledger.database import Database
from memcore.ledger.learning.experiences import MAX_PAGE, ExperienceCounts
from memcore.ledger.ledger import Ledger
from memcore.models.experience import DetailedExperience
from memcore.models.memory import DETAILED_TAG, MemoryMetadata


def kept(ledger: Ledger, number: int, *, agent_id: str = "ada") -> list[DetailedExperience]:
    """Append that many, each a second younger than the one before, and return them newest first."""
    made = [experience(f"e{i:03}", agent_id=agent_id, younger=timedelta(seconds=i)) for i in range(number)]
    for each in made:
        assert ledger.experiences.append(COMPANY, each)
    return made[::-1]


def test_what_comes_back_is_what_was_kept_to_the_last_character(ledger: Ledger) -> None:
    full = DetailedExperience(
        id="e",
        agent_id="ada",
        prompt="  naïve café, 日本\x00\n",
        output='"quoted" \\ \U0001f9e0 \u2028',
        verification_feedback="two of three tests pass",
        reasoning_trace=("look", "think", "look"),
        metadata=MemoryMetadata(source="ticket", confidence=0.5, tags=(DETAILED_TAG, "urgent")),
        created_at=experience("x").created_at,
        source_task_id="t-1",
    )
    assert ledger.experiences.append(COMPANY, full)
    assert ledger.experiences.get(COMPANY, "ada", "e") == full


def test_an_experience_is_kept_once_and_never_changed(ledger: Ledger) -> None:
    first = experience("e", prompt="as it was")
    assert ledger.experiences.append(COMPANY, first)
    assert not ledger.experiences.append(COMPANY, experience("e", prompt="told otherwise"))
    assert ledger.experiences.get(COMPANY, "ada", "e") == first


def test_no_agent_and_no_company_reads_or_marks_what_is_anothers(ledger: Ledger) -> None:
    store = ledger.experiences
    kept(ledger, 1)
    for company, agent_id in ((COMPANY, "bob"), ("globex", "ada")):
        assert store.get(company, agent_id, "e000") is None
        assert store.page(company, agent_id) == store.raw(company, agent_id) == ()
        assert not store.has_raw(company, agent_id)
        assert not store.mark(company, agent_id, "e000", compressed_as="m")
    assert store.count(COMPANY, "ada") == ExperienceCounts(total=1, raw=1, compressed=0)


def test_pages_show_each_once_newest_first_also_those_of_one_moment(ledger: Ledger) -> None:
    made = kept(ledger, 5)
    reference_store = [experience(f"twin-{i}") for i in range(4)]
    for each in reference_store:
        ledger.experiences.append(COMPANY, each)
    expected = sorted(made + reference_store, key=lambda each: (each.created_at, each.id), reverse=True)

    seen: list[DetailedExperience] = []
    while page := ledger.experiences.page(COMPANY, "ada", before=seen[-1] if seen else None, limit=2):
        assert len(page) <= 2
        seen += page
    assert seen == expected


def test_a_page_is_never_larger_than_its_limit(ledger: Ledger) -> None:
    kept(ledger, MAX_PAGE + 1)
    assert len(ledger.experiences.page(COMPANY, "ada", limit=1_000)) == MAX_PAGE


def test_what_became_of_an_experience_is_noted_once(ledger: Ledger) -> None:
    store = ledger.experiences
    newest, second, oldest = kept(ledger, 3)
    assert store.mark(COMPANY, "ada", newest.id, compressed_as="m-1")
    assert store.mark(COMPANY, "ada", second.id, reason="too weak")
    assert not store.mark(COMPANY, "ada", second.id, compressed_as="m-2")
    assert not store.mark(COMPANY, "ada", "unknown", reason="too weak")
    assert store.raw(COMPANY, "ada") == (oldest,)
    assert store.count(COMPANY, "ada") == ExperienceCounts(total=3, raw=1, compressed=1)

    assert store.has_raw(COMPANY, "ada")
    store.mark(COMPANY, "ada", oldest.id, compressed_as="m-3")
    assert not store.has_raw(COMPANY, "ada")
    assert store.raw(COMPANY, "ada") == ()
    assert len(store.page(COMPANY, "ada")) == 3, "tier 1 stays whatever became of it"


@pytest.mark.parametrize("said", [{}, {"compressed_as": "m", "reason": "too weak"}])
def test_a_mark_says_one_of_two_things(ledger: Ledger, said: dict[str, str]) -> None:
    with pytest.raises(MemoryInputError, match="compressed_as"):
        ledger.experiences.mark(COMPANY, "ada", "e", **said)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"id": "x" * 257}, "id"),
        ({"agent_id": "a\x00"}, "agent_id"),
        ({"source_task_id": "t" * 257}, "source_task_id"),
        ({"output": "\ud800"}, "experience"),
        ({"output": "x" * MAX_PAYLOAD_BYTES}, "experience"),
    ],
)
def test_what_breaks_a_limit_is_refused_by_name(ledger: Ledger, changed: dict[str, str], field: str) -> None:
    with pytest.raises(MemoryInputError) as refused:
        ledger.experiences.append(COMPANY, experience("e").model_copy(update=changed))
    assert refused.value.field == field
    assert ledger.experiences.page(COMPANY, "ada") == ()


def test_a_newer_form_is_not_guessed_at(ledger: Ledger, urls: LedgerUrls, clock: StoppedClock) -> None:
    del clock
    kept(ledger, 1)
    database = Database(urls.ledger, name="ledger")
    with database.write() as connection:
        connection.execute(text("UPDATE experiences SET body = :body"), {"body": b'{"version":2}'})
    database.close()
    with pytest.raises(MemoryRetrievalError, match="form 2"):
        ledger.experiences.page(COMPANY, "ada")

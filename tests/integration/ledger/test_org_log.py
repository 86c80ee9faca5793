"""What an organisation knows and its log, on each database."""

import itertools
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ledger_records import COMPANY, StoppedClock
from support.organization_facts import GRACE, agent, request
from support.thorough import examples

from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryInputError
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.facts import OrgLog
from memcore.models.organization import OperationLogEntry, OperationLogSnapshot, OrgFactCategory

SECOND = timedelta(seconds=1)

#: Each example of a property has a company of its own: the tables are emptied once for all.
COMPANIES = itertools.count()

#: (fact, text, seconds that the clock moves before), and no text for a retraction.
OPERATIONS = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.sampled_from(("x", "naïve 日本\x00", "y")), st.integers(-2, 3)),
    max_size=12,
)


def test_each_publication_and_retraction_is_a_version_of_its_fact(ledger: Ledger, clock: StoppedClock) -> None:
    org, began = ledger.org, clock()
    first = org.publish(COMPANY, "tea", request("tea at four", tags=("kitchen",)), author=GRACE)
    clock.advance(SECOND)
    second = org.publish(COMPANY, "tea", request("tea at five"), author=agent())
    clock.advance(SECOND)
    gone = org.retract(COMPANY, "tea", author=GRACE)
    other = org.publish(COMPANY, "lift", request("naïve café, 日本\x00"), author=agent())

    assert gone is not None
    assert org.operations(COMPANY, "tea") == (first, second, gone)
    assert [line.version for line in (first, second, gone, other)] == [1, 2, 3, 1]
    assert (first.author_name, first.author_is_human, first.tags) == ("Grace", True, ("kitchen",))
    assert (second.author_agent_id, second.author_seniority) == ("ada", "senior")
    assert (gone.content, gone.category, gone.operation_type) == (None, OrgFactCategory.CONVENTION, "RETRACT")
    head = org.head(COMPANY, "tea")
    assert head is not None
    assert (head.content, head.created_at, head.retracted_at, head.version) == ("tea at five", began, clock(), 3)
    (left,) = org.facts(COMPANY)
    assert (left.id, left.content, left.author) == ("lift", "naïve café, 日本\x00", agent())


def test_what_does_not_stand_cannot_be_retracted(ledger: Ledger) -> None:
    org = ledger.org
    assert org.retract(COMPANY, "tea", author=GRACE) is None
    org.publish(COMPANY, "tea", request("tea at four"), author=GRACE)
    assert org.retract("globex", "tea", author=GRACE) is None
    assert org.retract(COMPANY, "tea", author=GRACE) is not None
    assert org.retract(COMPANY, "tea", author=GRACE) is None
    assert len(org.newest(COMPANY)) == 2


def test_what_was_retracted_can_be_published_again(ledger: Ledger, clock: StoppedClock) -> None:
    org, began = ledger.org, clock()
    org.publish(COMPANY, "tea", request("tea at four"), author=GRACE)
    org.retract(COMPANY, "tea", author=GRACE)
    clock.advance(SECOND)
    assert org.publish(COMPANY, "tea", request("tea at five"), author=GRACE).version == 3
    (fact,) = org.facts(COMPANY)
    assert (fact.content, fact.created_at) == ("tea at five", began)


def test_a_fact_keeps_its_category(ledger: Ledger) -> None:
    org = ledger.org
    org.publish(COMPANY, "tea", request("tea at four", category=OrgFactCategory.CORE_POLICY), author=GRACE)
    with pytest.raises(MemoryInputError, match="category"):
        org.publish(COMPANY, "tea", request("no tea"), author=agent())
    assert len(org.operations(COMPANY, "tea")) == 1
    assert [fact.content for fact in org.facts(COMPANY)] == ["tea at four"]


def test_facts_come_in_pages_and_by_category(ledger: Ledger, clock: StoppedClock) -> None:
    org = ledger.org
    for number in range(7):
        category = OrgFactCategory.ADR if number % 2 else OrgFactCategory.CONVENTION
        org.publish(COMPANY, f"fact-{number}", request("x", category=category), author=GRACE)
        clock.advance(SECOND)
    oldest = [fact.id for start in (0, 3, 6) for fact in org.facts(COMPANY, offset=start, limit=3)]
    assert oldest == [f"fact-{number}" for number in range(7)]
    assert [fact.id for fact in org.facts(COMPANY, newest_first=True)] == oldest[::-1]
    adr = frozenset({OrgFactCategory.ADR})
    assert [fact.id for fact in org.facts(COMPANY, categories=adr)] == oldest[1::2]
    assert (org.count(COMPANY), org.count(COMPANY, categories=adr), org.count(COMPANY, categories=())) == (7, 3, 0)


def test_the_newest_lines_come_first_and_end_at_a_time(ledger: Ledger, clock: StoppedClock) -> None:
    org = ledger.org
    first = org.publish(COMPANY, "b", request("x"), author=GRACE)
    second = org.publish(COMPANY, "b", request("y"), author=GRACE)
    noon = clock()
    clock.advance(SECOND)
    third = org.publish(COMPANY, "a", request("z"), author=GRACE)
    assert org.newest(COMPANY) == (third, second, first)
    assert org.newest(COMPANY, until=noon, limit=1) == (second,)
    assert org.newest(COMPANY, fact_id="a") == (third,)


def test_a_time_without_a_zone_is_refused(ledger: Ledger) -> None:
    with pytest.raises(MemoryInputError, match="at: needs a time zone"):
        ledger.org.snapshot_at(COMPANY, datetime(2026, 3, 1))  # noqa: DTZ001  # that is the test


def test_names_that_no_database_keeps_write_nothing(ledger: Ledger) -> None:
    with pytest.raises(MemoryInputError, match="fact_id"):
        ledger.org.publish(COMPANY, "a\x00b", request("x"), author=GRACE)
    assert ledger.org.newest(COMPANY) == ()


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(operations=OPERATIONS)
def test_a_snapshot_at_any_time_is_what_a_replay_of_the_log_gives(
    ledger: Ledger, clock: StoppedClock, operations: list[tuple[str, str | None, int]]
) -> None:
    org, company = ledger.org, f"company {next(COMPANIES)}"
    done: list[OperationLogEntry] = []
    for fact_id, text, seconds in operations:
        clock.advance(seconds * SECOND)
        if text is not None:
            done.append(org.publish(company, fact_id, request(text), author=GRACE))
        elif (line := org.retract(company, fact_id, author=GRACE)) is not None:
            done.append(line)

    times = {line.timestamp for line in done} | {clock()}
    for at in times | {time - SECOND / 2 for time in times} | {max(times) + SECOND}:
        assert paged(org, company, at) == replay(done, at)
    heads = [head for fact_id in "abc" if (head := org.head(company, fact_id))]
    assert heads == replay(done, max(times))


def test_eight_writers_at_once_make_versions_without_gaps_or_doubles(urls: LedgerUrls, clock: StoppedClock) -> None:
    noise = random.Random(7)

    def unsteady() -> datetime:
        return clock() + timedelta(seconds=noise.uniform(-5, 5))

    ledger, appended = Ledger.open(urls, clock=unsteady), list[OperationLogEntry]()
    start = threading.Barrier(8)

    def write(writer: int) -> list[OperationLogEntry | None]:
        start.wait()
        return [
            ledger.org.retract(COMPANY, f"fact-{number % 3}", author=GRACE)
            if (number + writer) % 4 == 0
            else ledger.org.publish(COMPANY, f"fact-{number % 3}", request(f"{writer}/{number}"), author=GRACE)
            for number in range(12)
        ]

    with ThreadPoolExecutor(8) as threads:
        appended += [line for lines in threads.map(write, range(8)) for line in lines if line is not None]

    for fact_id in ("fact-0", "fact-1", "fact-2"):
        lines = ledger.org.operations(COMPANY, fact_id)
        assert [line.version for line in lines] == list(range(1, len(lines) + 1))
        assert [line.timestamp for line in lines] == sorted(line.timestamp for line in lines)
        assert sorted((each for each in appended if each.fact_id == fact_id), key=lambda each: each.version) == list(
            lines
        )
        (state,) = replay(list(lines), lines[-1].timestamp)
        assert ledger.org.head(COMPANY, fact_id) == state
    assert len(appended) >= 8 * 12 * 3 // 4
    ledger.close()


def paged(org: OrgLog, company: str, at: datetime) -> list[OperationLogSnapshot]:
    """Return the snapshot, read two facts at a time."""
    found: list[OperationLogSnapshot] = []
    while page := org.snapshot_at(company, at, after=found[-1].fact_id if found else "", limit=2):
        found += page
    return found


def replay(lines: list[OperationLogEntry], at: datetime) -> list[OperationLogSnapshot]:
    """Return how the facts stood at a time, line by line."""
    states: dict[str, OperationLogSnapshot] = {}
    for line in lines:
        if line.timestamp > at:
            continue
        before = states.get(line.fact_id)
        if line.content is None:
            assert before is not None
            changes = {"retracted_at": line.timestamp, "version": line.version}
            states[line.fact_id] = before.model_copy(update=changes)
        else:
            assert line.category is not None
            states[line.fact_id] = OperationLogSnapshot(
                fact_id=line.fact_id,
                content=line.content,
                category=line.category,
                tags=line.tags,
                created_at=before.created_at if before else line.timestamp,
                version=line.version,
            )
    return [states[fact_id] for fact_id in sorted(states)]

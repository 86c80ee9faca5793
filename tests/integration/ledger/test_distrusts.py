"""What is distrusted is known to every process with its next read, to its company alone, and costs one small query."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from sqlalchemy import Engine, event
from support.ledger_records import COMPANY, StoppedClock
from support.lessons import lesson
from support.memories import record
from support.skill_cycles import Fleet

from memcore.config.urls import LedgerUrls
from memcore.ledger.learning.skills import SkillSource
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import Confirmation
from memcore.models.distrust import DistrustRule
from memcore.models.origin import Channel, Origin
from memcore.records import ORIGIN_KEY

WORD = Confirmation(actor="grace", confirm=True, reason="its site was taken over")
SCRAPER = DistrustRule(principal="scraper")
SCRAPED = record("ada", extra={ORIGIN_KEY: Origin(channels=(Channel.TOOL,), principals=("scraper",)).stored()}).entry
MERGED = record("ada").entry


@pytest.fixture
def other(urls: LedgerUrls, clock: StoppedClock) -> Iterator[Ledger]:
    """The ledger as another process has it, which has read what is hidden before."""
    opened = Ledger.open(urls, clock=clock)
    assert not opened.hidden.of(COMPANY).hides_memory(SCRAPED)
    yield opened
    opened.close()


def test_another_process_sees_it_with_its_next_read(ledger: Ledger, other: Ledger, clock: StoppedClock) -> None:
    added = ledger.distrusts.add(COMPANY, SCRAPER, WORD)
    assert other.hidden.of(COMPANY).hides_memory(SCRAPED)
    assert not other.hidden.of(COMPANY).hides_memory(MERGED)

    ledger.distrusts.reach(COMPANY, added.distrust_id, "ada", [MERGED.id])
    assert other.hidden.of(COMPANY).hides_memory(MERGED)
    ledger.distrusts.complete(COMPANY, added.distrust_id)
    assert other.hidden.of(COMPANY).hides_memory(MERGED)

    # What is found later, by a worker's run or a second look, is too.
    late = record("ada").entry
    assert not other.hidden.of(COMPANY).hides_memory(late)
    clock.now += timedelta(seconds=1)
    ledger.distrusts.reach(COMPANY, added.distrust_id, "ada", [MERGED.id, late.id])
    assert other.hidden.of(COMPANY).hides_memory(late)
    assert ledger.distrusts.get(COMPANY, added.distrust_id).completed_at == clock.now

    ledger.distrusts.lift(COMPANY, added.distrust_id, WORD)
    assert not any(map(other.hidden.of(COMPANY).hides_memory, (SCRAPED, MERGED, late)))


def test_it_is_never_closed_before_all_was_found(ledger: Ledger) -> None:
    added = ledger.distrusts.add(COMPANY, SCRAPER, WORD)
    ledger.distrusts.reach(COMPANY, added.distrust_id, "ada", [MERGED.id])
    assert ledger.distrusts.get(COMPANY, added.distrust_id).completed_at is None


def test_the_same_rule_asked_for_again_is_one_distrust(ledger: Ledger) -> None:
    added = ledger.distrusts.add(COMPANY, SCRAPER, WORD)
    again = Confirmation(actor="heidi", confirm=True, reason="the store was away")
    assert ledger.distrusts.add(COMPANY, SCRAPER, again) == added
    assert ledger.distrusts.add(COMPANY, DistrustRule(principal="scraper", agent_id="ada"), WORD) != added
    assert ledger.distrusts.add("globex", SCRAPER, WORD).distrust_id != added.distrust_id
    lines = ledger.audit.page(COMPANY, limit=50)
    asked = sorted(each.actor for each in lines if each.subject == added.distrust_id)
    assert asked == ["person:grace", "person:heidi"]
    ledger.distrusts.lift(COMPANY, added.distrust_id, WORD)
    assert not ledger.distrusts.add(COMPANY, SCRAPER, WORD).lifted_at
    assert len(ledger.distrusts.list(COMPANY)) == 3


def test_one_company_hides_nothing_of_another(ledger: Ledger, other: Ledger) -> None:
    added = ledger.distrusts.add("globex", SCRAPER, WORD)
    ledger.distrusts.reach("globex", added.distrust_id, "ada", [MERGED.id])
    for each in (ledger, other):
        assert not any(map(each.hidden.of(COMPANY).hides_memory, (SCRAPED, MERGED)))
    assert ledger.distrusts.find(COMPANY, added.distrust_id) is None
    assert ledger.distrusts.list(COMPANY) == ()
    assert ledger.distrusts.reached(COMPANY, added.distrust_id) == {}


def test_the_versions_of_skills_are_read_again_only_where_something_of_it_has_changed(
    ledger: Ledger, other: Ledger, clock: StoppedClock
) -> None:
    fleet = Fleet(ledger, clock)
    origin = Origin(principals=("scraper",))
    source = SkillSource(agent_id="ada", lesson_id="l", memory_id="m", origin=origin, created_at=clock())
    fleet.stand(lesson(), skill_id="old")
    fleet.stand(lesson(), skill_id="new", sources=(source,))

    def hidden_by(change: Callable[[], object]) -> tuple[set[str], bool]:
        change()
        with statements() as seen:
            found = other.hidden.of(COMPANY).skills
        return {*found}, any("skills.sources" in each for each in seen)

    def distrust(rule: DistrustRule) -> Callable[[], object]:
        return lambda: ledger.distrusts.complete(COMPANY, ledger.distrusts.add(COMPANY, rule, WORD).distrust_id)

    # No rule on a session reaches a skill before it has found something.
    assert hidden_by(distrust(DistrustRule(agent_id="ada", session_id="s-9"))) == (set(), False)
    assert hidden_by(distrust(SCRAPER)) == ({"new"}, True)
    assert hidden_by(lambda: ledger.distrusts.add("globex", SCRAPER, WORD)) == ({"new"}, False)
    assert hidden_by(lambda: ledger.skills.supersede(COMPANY, "old", by="new")) == ({"new"}, True)
    assert other.hidden.of(COMPANY).standing == {"old": "new"}
    assert hidden_by(lambda: fleet.stand(lesson(), skill_id="newer", sources=(source,))) == ({"new", "newer"}, True)
    assert hidden_by(lambda: ledger.skills.retire(COMPANY, "newer")) == ({"new", "newer"}, True)


def test_where_nothing_is_distrusted_it_costs_one_small_query(ledger: Ledger) -> None:
    ledger.hidden.of(COMPANY)
    with statements() as seen:
        ledger.hidden.of(COMPANY)
    assert len(seen) <= 2
    assert sum("distrust" in each for each in seen) <= 1


@contextmanager
def statements() -> Iterator[list[str]]:
    """Collect the statements that the block executes."""
    seen: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)

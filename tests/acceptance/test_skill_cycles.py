"""The evolver in a real stack: it runs by itself, once a slot, and a cycle whose worker dies is finished once."""

import os
import signal
import time
from collections import Counter
from collections.abc import Generator
from datetime import UTC, datetime, timedelta

import psutil
import pytest
from sqlalchemy import create_engine, update
from support.command_line import CommandLine
from support.running_stack import StackAddress, running_stack, wait_until
from support.shared_failures import FAILURES, many_failures, share_failures

from memcore.client import MemoryClient
from memcore.ledger.learning.skill_cycles import Cycle
from memcore.ledger.ledger import Ledger
from memcore.ledger.tables import skill_cycles
from memcore.models.approval import Approval
from ops.cli.session import ledger_of
from scheduler.sweep import REDISPATCH_AFTER

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

#: Patterns of a cycle whose worker is killed; some of their proposals must be filed by then, and not all.
PATTERNS = 80

POLICY = f"""\
memory:
  consolidation:
    interval: weekly
  procedural:
    evolver:
      enabled: {{enabled}}
      max_proposals_per_cycle: {PATTERNS}
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Generator[StackAddress]:
    """A stack that learned while the evolver was off, and was started again with it on."""
    home = tmp_path_factory.mktemp("skill-cycles") / "home"
    home.mkdir()
    (home / "policy.yaml").write_text(POLICY.format(enabled="false"), encoding="utf-8")
    with running_stack(home) as off, ledger_of(off.settings) as ledger:
        # Before the slot that has begun last, which the first cycle is planned for.
        share_failures(ledger, off.settings.company, at=datetime.now(UTC) - timedelta(weeks=1))
        wait_until(lambda: ledger.ticks.last(off.settings.company) is not None, what="a tick")
        assert ledger.skill_cycles.page(off.settings.company) == ()
    (home / "policy.yaml").write_text(POLICY.format(enabled="true"), encoding="utf-8")
    with running_stack(home) as address:
        yield address


@pytest.fixture(scope="module")
def ledger(stack: StackAddress) -> Generator[Ledger]:
    with ledger_of(stack.settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def first(stack: StackAddress, ledger: Ledger) -> Cycle:
    """The cycle that nobody asked for."""
    wait_until(lambda: ledger.skill_cycles.last_finished(stack.settings.company) is not None, what="the first cycle")
    cycle = ledger.skill_cycles.last_finished(stack.settings.company)
    assert cycle is not None
    return cycle


def proposals(ledger: Ledger, company: str) -> Counter[str]:
    """Count the proposals of each cycle; each must be of another pattern."""
    found, last = list[Approval](), None
    while page := ledger.approvals.page(company, before=last):
        found += page
        last = page[-1]
    patterns = Counter(each.proposal.details["pattern_id"] for each in found)
    assert set(patterns.values()) == {1}
    return Counter(str(each.proposal.details["cycle_id"]) for each in found)


def test_a_cycle_comes_by_itself_once_a_slot_and_people_see_it(
    stack: StackAddress, ledger: Ledger, first: Cycle
) -> None:
    company, memtend = stack.settings.company, CommandLine(home=stack.home)
    assert first.origin == "scheduled"
    assert first.report is not None
    assert first.report["proposals_emitted"] == len(FAILURES)
    ticks = set[datetime]()

    def has_ticked() -> bool:
        tick = ledger.ticks.last(company)
        ticks.update({tick.ended_at} if tick else ())
        return len(ticks) > 2

    wait_until(has_ticked, seconds=120, what="more ticks")
    slots = [each.planned_at for each in ledger.skill_cycles.page(company) if each.origin == "scheduled"]
    # A slot may begin while the test runs.
    assert slots in ([first.planned_at], [first.planned_at + timedelta(weeks=1), first.planned_at])
    assert proposals(ledger, company)[first.cycle_id] == len(FAILURES)

    waiting = memtend.ok("approvals", "list", "--state", "pending", "--limit", "100", "--json").value
    assert sum(each["action"] == "skill_evolver:org_promotion" for each in waiting) >= len(FAILURES)
    listed = memtend.ok("skills", "cycles", "--json").value
    assert first.cycle_id in {each["cycle_id"] for each in listed if each["finished_at"]}
    (seen,) = [each for each in memtend("doctor", "--json").value if each["check"] == "skill evolver"]
    assert seen["ok"]
    assert seen["seen"].startswith("last cycle finished ")
    again = memtend.ok("skills", "evolve", "--json").value
    assert (again["origin"], again["report"]["proposals_emitted"]) == ("manual", 0)
    assert again["report"]["skipped_known"] == len(FAILURES)


@pytest.mark.usefixtures("first")
@pytest.mark.parametrize("killed", ["child", "worker"])
def test_a_worker_killed_in_the_middle_of_a_cycle_leaves_one_that_is_finished_once(
    stack: StackAddress, ledger: Ledger, killed: str
) -> None:
    company = stack.settings.company
    share_failures(ledger, company, at=datetime.now(UTC), failures=many_failures(killed, PATTERNS))
    worker, restarts = stack.pid("worker-night"), stack.restarts("worker-night")
    assert worker is not None
    children = psutil.Process(worker).children()
    before = ledger.approvals.count(company)
    with MemoryClient.from_settings(stack.settings) as client:
        cycle_id = client.evolve_now().job_id
    deadline = time.monotonic() + 120
    while ledger.approvals.count(company) < before + 3:  # without a pause: the rest is filed within a second
        assert time.monotonic() < deadline
    # Killed before anything is asked: a process that is only stopped may hold the ledger's lock for ever.
    for pid in [*([worker] if killed == "worker" else []), *(child.pid for child in children)]:
        os.kill(pid, signal.SIGKILL)
    cycle = ledger.skill_cycles.get(company, cycle_id)
    assert cycle is not None
    assert cycle.finished_at is None
    assert before + 3 <= ledger.approvals.count(company) < before + PATTERNS
    if killed == "worker":
        wait_until(lambda: stack.restarts("worker-night") > restarts, seconds=120, what="the worker to be back")
        _let_time_pass(stack, cycle_id)

    def finished() -> Cycle | None:
        found = ledger.skill_cycles.get(company, cycle_id)
        return found if found and found.finished_at else None

    wait_until(lambda: finished() is not None, seconds=180, what="the cycle to be finished")
    ended = finished()
    assert ended is not None
    assert ended.report is not None
    assert ended.report["proposals_emitted"] == PATTERNS
    assert proposals(ledger, company)[cycle_id] == PATTERNS
    assert ledger.approvals.count(company) == before + PATTERNS
    assert ledger.dead_letters.count(company) == 0


def _let_time_pass(stack: StackAddress, cycle_id: str) -> None:
    """Let the cycle's message have been sent so long ago that the sweep takes it for lost."""
    engine = create_engine(stack.settings.ledger_urls.ledger)
    with engine.begin() as connection:
        long_ago = datetime.now(UTC) - REDISPATCH_AFTER - timedelta(minutes=1)
        connection.execute(update(skill_cycles).where(skill_cycles.c.cycle_id == cycle_id).values(rung_at=long_ago))
    engine.dispose()

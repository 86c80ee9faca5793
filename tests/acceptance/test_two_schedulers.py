"""Two beats and two maintenance workers on a ledger: every due agent has one run per planned time, whoever dies."""

import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.running_stack import clean_environ, quick_stack, wait_until
from support.thorough import sized

from memcore.config.settings import Settings
from memcore.jobs import TaskName
from memcore.ledger.agents import AgentSpec
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import Run, RunState
from memcore.models.memory import ConsolidationInterval
from memcore.programs import program_argv
from workers.app import create_app

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

AGENTS = [f"agent-{number:02}" for number in range(sized(16, thorough=40))]

#: The stack's own beat: it does not tick while the test lasts, so that whatever ticks is ours.
NEVER_SECONDS = 3_600.0


@contextmanager
def part(home: Path, *argv: str) -> Generator["subprocess.Popen[bytes]"]:
    """Run a part beside the stack, with the stack's settings and a quick tick."""
    environ = {**clean_environ(), "MEMTEND_HOME": str(home), "MEMTEND_TICK_SECONDS": "0.3"}
    with (home / "logs" / "beside.log").open("ab") as log:
        process = subprocess.Popen([*program_argv(argv[0]), *argv[1:]], stdout=log, stderr=log, env=environ)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def tickers(settings: Settings) -> int:
    """Count the maintenance workers that have taken ticks; two of them answer to one name."""
    app = create_app(settings)
    try:
        answers = app.control.broadcast("stats", reply=True, timeout=3.0)
    finally:
        app.close()
    return sum(bool(stats["total"].get(str(TaskName.TICK))) for answer in answers or () for stats in answer.values())


def planned(ledger: Ledger, company: str, slots: set[datetime], state: RunState | None = None) -> list[Run]:
    """Return the runs of the test's slots: an agent's own hour of the week may come while it lasts."""
    return [run for run in ledger.runs.list(company, state=state, limit=1_000) if run.planned_at in slots]


def test_two_beats_and_two_schedulers_double_no_run(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with ExitStack() as opened:
        settings = opened.enter_context(quick_stack(home, tick_seconds=NEVER_SECONDS, sweep_seconds=NEVER_SECONDS))
        ledger = Ledger.open(settings.ledger_urls)
        opened.callback(ledger.close)
        for agent_id in AGENTS:
            spec = AgentSpec(company=settings.company, agent_id=agent_id, interval=ConsolidationInterval.WEEKLY)
            ledger.agents.put(spec)
        worker = opened.enter_context(part(home, "workers.run", "--group", "night"))
        first = opened.enter_context(part(home, "workers.beat"))
        second = opened.enter_context(part(home, "workers.beat"))
        slots: set[datetime] = set()

        def wave() -> None:
            # an hour apart, as if the maintenance workers had slept through them: catching up is one run, not many
            slot = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=len(slots))
            slots.add(slot)
            for agent_id in AGENTS:
                ledger.agents.set_due(settings.company, agent_id, slot)
            wanted = len(slots) * len(AGENTS)
            wait_until(lambda: done() == wanted, what=f"{wanted} nights, of which {done()} are done")

        def done() -> int:
            return len(planned(ledger, settings.company, slots, state=RunState.DONE))

        wave()
        wait_until(lambda: tickers(settings) == 2, what="both night workers to tick")
        assert (worker.poll(), first.poll(), second.poll()) == (None, None, None)
        first.kill()
        wave()
        opened.enter_context(part(home, "workers.beat"))
        second.kill()
        wave()

        runs = planned(ledger, settings.company, slots)
        tick = ledger.ticks.last(settings.company)
    assert {(run.agent_id, run.planned_at) for run in runs} == {(agent, slot) for agent in AGENTS for slot in slots}
    assert len(runs) == len(AGENTS) * len(slots)
    assert {(run.state, run.attempt, run.origin) for run in runs} == {(RunState.DONE, 1, "scheduled")}
    assert tick is not None

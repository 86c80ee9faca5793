import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from support.ledger_records import copied_urls

from examples.demo.fleet import agents
from examples.demo.fleet_night import UNTIL_LATER, FleetDemo
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@pytest.fixture
def ledger(ledger_template: Path, tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger.open(copied_urls(ledger_template, tmp_path), clock=lambda: NOW)
    yield opened
    opened.close()


def test_no_second_run_begins_while_the_demo_still_counts(ledger: Ledger) -> None:
    none = cast("Any", None)
    with asyncio.Runner() as runner:
        demo = FleetDemo(company="acme", client=none, ledger=ledger, backend=none, runner=runner)
        demo.register(agents(), not_before=NOW)
        for agent in agents():
            ledger.runs.note_done(NewRun(company="acme", agent_id=agent.id, planned_at=NOW))
        ended = demo.run_maintenance([agent.id for agent in agents()], due=NOW)
    assert len(ended) == len(agents())
    due = {each.agent_id: each.next_due_at for each in ledger.agents.list("acme")}
    assert set(due.values()) == {NOW + UNTIL_LATER}

"""A run in propose mode: what it would merge, with all texts, and the one group that a person adopts."""

from datetime import UTC, datetime

from examples.demo.fleet_night import FleetDemo
from memcore.config.maintenance import ConsolidationApply, ConsolidationConfig, ConsolidationStrategyType
from memcore.ledger.consolidation_groups import GroupState
from memcore.ledger.runs import NewRun
from memcore.maintenance.consolidation.proposals import shown_groups
from memcore.maintenance.service import MaintenanceService
from memcore.models.memory import MemoryLevel
from ops.cli.console import say
from ops.cli.maintenance.runs import show_group

#: What the first run was too early for, and a person is asked about.
_POLICY = ConsolidationConfig(
    strategy=ConsolidationStrategyType.CONDENSE, apply=ConsolidationApply.PROPOSE, min_age_days=14
)

_PERSON = "person:demo"


def show_proposal(demo: FleetDemo, agent_id: str) -> None:
    """Let a run propose, print the first group, adopt it, and decide against the others.

    Workers would do it under a policy that says ``apply: propose``; here their service runs in this process.
    """
    ledger, company = demo.ledger, demo.company
    run = ledger.runs.create(NewRun(company=company, agent_id=agent_id, origin="manual", planned_at=datetime.now(UTC)))
    if run is None:
        say(f"\n{agent_id} has a run under way: nothing is proposed")
        return
    service = MaintenanceService(demo.backend, ledger, _POLICY, company=company, level=MemoryLevel.PERSISTENT)
    outcome = demo.runner.run(service.run(run.run_id))
    groups = demo.runner.run(shown_groups(ledger, demo.backend, run))
    say(f"\na run in propose mode, `memtend runs diff {run.run_id}`: {getattr(outcome, 'reason', None)}")
    if not groups:
        return
    show_group(groups[0])
    before = len(demo.live(agent_id))
    ledger.runs.decide_groups(company, run.run_id, GroupState.APPROVED, by=_PERSON, places=[groups[0].group])
    demo.runner.run(service.run(run.run_id))
    if len(groups) > 1:
        ledger.runs.dismiss(company, run.run_id, by=_PERSON)
    states = ", ".join(str(group.state) for group in ledger.consolidation_groups.of_run(company, run.run_id))
    say(f"adopted the first of {len(groups)} groups: {before} memories became {len(demo.live(agent_id))} ({states})")

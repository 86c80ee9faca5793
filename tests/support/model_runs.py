"""Runs that ask a model: their policies, and a fixture whose model is a fake."""

import pytest

from memcore.config.maintenance import ArchivalConfig, ConsolidationConfig, DualModeConfig
from memcore.jobs import Done
from memcore.ledger.runs import Run
from support.fake_summarizer import FakeSummarizer
from support.maintenance_fixture import SUMMARISED, MaintenanceFixture, MakeMaintenanceFixture

LLM = ConsolidationConfig(strategy="llm", categories=SUMMARISED, group_max_entries=3, max_removed_fraction=1.0)

DUAL = ConsolidationConfig(
    strategy="dual_mode",
    categories=SUMMARISED,
    group_max_entries=3,
    max_removed_fraction=1.0,
    archival=ArchivalConfig(age_threshold_days=20, dual_mode=DualModeConfig(enabled=True, summarization_model="small")),
)


def with_model(
    make_maintenance_fixture: MakeMaintenanceFixture, fake_summarizer: FakeSummarizer, policy: ConsolidationConfig = LLM
) -> MaintenanceFixture:
    world = make_maintenance_fixture(policy)
    world.model = fake_summarizer
    return world


def leave_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a model's merged text stand as it is: the gate is the second to see what it lost."""
    monkeypatch.setattr("memcore.maintenance.consolidation.llm.completed", lambda text, _sources: text)


async def finish(world: MaintenanceFixture, run_id: str) -> Run:
    """The run after every question was answered."""
    assert isinstance(await world.to_the_end(run_id), Done)
    return world.run(run_id)

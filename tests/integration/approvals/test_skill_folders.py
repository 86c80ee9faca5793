"""Approved skills as folders, as the policy says; a disk error loses no skill."""

import logging
from pathlib import Path

import pytest
from support.ledger_records import COMPANY, StoppedClock
from support.proposals import ADA, BOB
from support.skill_publication import SkillWorld

from memcore.backends.mem0.backend import Mem0Backend
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.ledger.ledger import Ledger
from memcore.skills.publication import SkillApprovals
from memcore.telemetry.events import Event


async def test_an_installation_writes_its_skills_into_its_data_folder(
    backend: Mem0Backend, ledger: Ledger, sqlite_ledger: LedgerUrls, clock: StoppedClock, tmp_path: Path
) -> None:
    settings = Settings(
        broker_url="redis://127.0.0.1:1/0",
        database_url=sqlite_ledger.ledger,
        qdrant_url="http://127.0.0.1:1",
        company=COMPANY,
        home=tmp_path,
    )
    policy = Policy.model_validate({"memory": {"procedural": {"skill_md_directory": "skills/org"}}})
    world = SkillWorld(backend, ledger, tmp_path / "skills" / "org", clock)
    service = SkillApprovals.configured(settings, policy, ledger, backend=backend, clock=clock)
    await service.propose("one", world.proposal("one"))
    await service.approve("one", ADA)
    (folder,) = world.root.glob("*/")
    text = (folder / "SKILL.md").read_text()
    assert f"name: {folder.name}\n" in text
    assert 'source: "approval:one"' in text
    await service.undo("one", BOB)
    assert list(world.root.glob("*/")) == []


async def test_a_disk_that_refuses_is_logged_and_the_skill_stands(
    world: SkillWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.root.write_text("no directory")
    await world.service().propose("one", world.proposal("one"))
    approved = await world.service().approve("one", ADA)
    assert (approved.needs, world.states()) == (None, {"one": "active"})
    await world.service().undo("one", BOB)
    assert world.states() == {"one": "retired"}
    failed = [record for record in caplog.records if record.msg == Event.PROCEDURAL_MEMORY_SKILL_MD_FAILED]
    assert [record.levelno for record in failed] == [logging.WARNING] * 2
    assert str(world.root) not in str([vars(record)["error"] for record in failed])

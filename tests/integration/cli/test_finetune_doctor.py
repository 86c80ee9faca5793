"""What the doctor sees of a fine-tune run, and of the place where its stages run."""

import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from support.docker_engine_stub import stub_engine
from support.ledger_records import COMPANY, StoppedClock

from memcore.config.settings import Settings
from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryConfigError
from memcore.ledger.ledger import Ledger
from memcore.ledger.work_items import REDISPATCH_AFTER
from ops.cli.running.health_checks import finetune, stage_containers
from workers.stack.home import StackState, create_folders, write_state


def _before(past: timedelta) -> datetime:
    return datetime.now(UTC) - past


def test_a_run_that_nobody_takes_is_told(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    settings = Settings(
        broker_url="redis://127.0.0.1:1/0", database_url=sqlite_ledger.ledger, journal_url=sqlite_ledger.journal,
        qdrant_url="http://127.0.0.1:2", company=COMPANY, home=tmp_path,
    )  # fmt: skip
    assert list(finetune(settings)) == []
    for minutes, is_well in ((1, True), (11, False)):
        ledger = Ledger.open(sqlite_ledger, clock=partial(_before, timedelta(minutes=minutes)))
        ledger.finetune_runs.start(COMPANY, {})
        (found,) = finetune(settings)
        assert (found.check, found.ok) == ("fine-tune", is_well)
        assert ("nobody has it in hand" in found.seen) is not is_well
        ledger.finetune_runs.cancel(COMPANY)
        ledger.close()


def test_a_run_that_nobody_claims_however_often_it_is_dispatched_is_told(
    sqlite_ledger: LedgerUrls, tmp_path: Path
) -> None:
    settings = Settings(
        broker_url="redis://127.0.0.1:1/0", database_url=sqlite_ledger.ledger, journal_url=sqlite_ledger.journal,
        qdrant_url="http://127.0.0.1:2", company=COMPANY, home=tmp_path,
    )  # fmt: skip
    clock = StoppedClock()
    clock.now = datetime.now(UTC)
    with closing(Ledger.open(sqlite_ledger, clock=clock)) as ledger:
        ledger.finetune_runs.start(COMPANY, {})
        for is_well in (True, False):
            clock.advance(REDISPATCH_AFTER)
            assert len(ledger.work.take_due(limit=9)) == 1
            (found,) = finetune(settings)
            assert found.ok is is_well
        assert found.seen.endswith(f"nobody has it in hand; last dispatched {clock():%Y-%m-%d %H:%M} UTC")


def test_an_engine_is_asked_for_where_stages_run_in_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(
        broker_url="redis://127.0.0.1:1/0", database_url="sqlite://", qdrant_url="http://127.0.0.1:2", home=tmp_path
    )
    assert list(stage_containers(settings)) == []
    settings = settings.model_copy(update={"fine_tune_image": "tuner:1"})
    with stub_engine({}) as engine:
        monkeypatch.setenv("DOCKER_HOST", engine.host)
        (found,) = stage_containers(settings)
        assert (found.ok, found.seen) == (True, "an engine answers; stages run in tuner:1")
    monkeypatch.setitem(sys.modules, "docker", None)
    (found,) = stage_containers(settings)
    assert (found.ok, found.seen.startswith("not seen from here, where memory.fine_tune.backend: ")) == (True, True)
    now = datetime.now(UTC)
    create_folders(tmp_path)
    write_state(
        tmp_path,
        StackState(supervisor_pid=1, supervisor_born=0.0, started_at=now, seen_at=now, peak_resident_bytes=0, parts=()),
    )
    with pytest.raises(MemoryConfigError, match=r"^memory\.fine_tune\.backend: "):
        list(stage_containers(settings))

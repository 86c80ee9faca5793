"""All stages of a small run, with the real runner and real training; needs torch, and MEMTEND_TEST_TORCH=1."""

import os
from pathlib import Path

import pytest
from support.ledger_records import COMPANY

from memcore.clock import utc_now
from memcore.config.urls import LedgerUrls
from memcore.finetune.checkpoint import read_manifest
from memcore.finetune.execution.process import ProcessExecutor, end_by_name
from memcore.finetune.service import FineTuneService, hostname
from memcore.ledger.ledger import Ledger
from memcore.models.finetune import STAGES, FineTunePlan, FineTuneStage

WORDS = ("pump", "valve", "invoice", "canteen", "lift", "shift", "boiler", "ledger", "gate", "crane", "key", "bell")


@pytest.mark.skipif(os.environ.get("MEMTEND_TEST_TORCH") != "1", reason="MEMTEND_TEST_TORCH is not 1")
def test_documents_become_a_checkpoint_that_is_measured(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    documents = tmp_path / "docs"
    documents.mkdir()
    for number, word in enumerate(WORDS):
        text = f"The {word} of hall {number} failed at night, and the {word} was mended by team {number}."
        (documents / f"{word}.md").write_text(text, "utf-8")
    ledger = Ledger.open(sqlite_ledger)
    plan = FineTunePlan(kind="static", source_dir=str(documents), uses_memories=False, epochs=1, batch_size=8)
    run_id = ledger.finetune_runs.start(COMPANY, plan.model_dump(mode="json")).run_id
    service = FineTuneService(
        ledger,
        ProcessExecutor(tmp_path / "scratch"),
        gather=lambda _plan, _path, _renew_interval: pytest.fail("nothing of the fleet is wanted"),
        reap=end_by_name,
        company=COMPANY,
        folder=tmp_path / "runs",
        host=hostname(),
        timeout_seconds=300.0,
        clock=utc_now,
    )
    while service.run(run_id).goes_on:
        pass
    run = ledger.finetune_runs.get(COMPANY, run_id)
    assert run is not None
    assert (run.reason, run.stage, run.stages_completed) == (None, FineTuneStage.COMPLETE, STAGES)
    (checkpoint,) = ledger.checkpoints.page(COMPANY)
    assert (checkpoint.kind, checkpoint.doc_count) == ("static", len(WORDS))
    assert read_manifest(Path(checkpoint.model_path)).sha256 == checkpoint.sha256
    ledger.close()

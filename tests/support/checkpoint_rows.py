"""A checkpoint's row for tests."""

from datetime import datetime

from memcore import ids
from memcore.ledger.collections import Checkpoint, Verdict


def checkpoint_row(run_id: str, *, company: str, at: datetime) -> Checkpoint:
    return Checkpoint(
        checkpoint_id=ids.checkpoint_id(company=company, run_id=run_id),
        run_id=run_id,
        model_path="/data/runs/one/checkpoint",
        kind="static",
        base_model="words",
        dims=64,
        sha256="0" * 64,
        size_bytes=4_000_000_000,
        doc_count=12,
        report={"questions": 3},
        verdict=Verdict.PROMOTED,
        reason="it leads",
        created_at=at,
    )

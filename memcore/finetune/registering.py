"""A checkpoint's row: what lies in its folder, what it was measured to be, and the gate's word on it."""

from datetime import datetime

from pydantic import ValidationError

from memcore import ids
from memcore.errors import FineTuneStageError
from memcore.finetune.checkpoint import read_manifest
from memcore.finetune.evaluate import REPORT_FILE, EvalReport
from memcore.finetune.gate import judged
from memcore.finetune.run_folder import RunFolder
from memcore.finetune.stage_config import checkpoint_of
from memcore.finetune_models import FineTuneStage
from memcore.ledger.checkpoint import Checkpoint
from memcore.ledger.finetune_run import FineTuneRun


def checkpoint_row(run: FineTuneRun, folder: RunFolder, *, company: str, at: datetime) -> Checkpoint:
    """Return the row of what a run has left.

    Raises:
        FineTuneStageError: a stage left no such file, or one of another form.
        MemoryInputError: the folder holds no checkpoint, or its files are not those that were written.
        OSError: a file cannot be read.
    """
    model = checkpoint_of(run, folder)
    manifest = read_manifest(model)
    measured = folder.place(run, FineTuneStage.EVALUATING, REPORT_FILE)
    try:
        report = EvalReport.model_validate_json(measured.read_bytes())
    except ValidationError:
        raise FineTuneStageError(f"{REPORT_FILE} has another form") from None
    verdict, reason = judged(report)
    return Checkpoint(
        checkpoint_id=ids.checkpoint_id(company=company, run_id=run.run_id),
        run_id=run.run_id,
        model_path=str(model),
        kind=manifest.kind,
        base_model=manifest.base_model,
        dims=manifest.dims,
        sha256=manifest.sha256,
        size_bytes=sum(each.stat().st_size for each in model.rglob("*") if each.is_file()),
        doc_count=report.passages,
        report=report.model_dump(mode="json"),
        verdict=verdict,
        reason=reason,
        created_at=at,
    )

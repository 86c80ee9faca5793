"""Calls and views of a company's fine-tune runs; see test_companies."""

from collections.abc import Callable
from datetime import timedelta

from memcore import ids
from memcore.errors import (
    CheckpointNotFoundError,
    FineTuneRunActiveError,
    FineTuneRunNotResumableError,
    LeaseLostError,
    MemoryNotFoundError,
)
from memcore.ledger.finetune_runs import FineTuneRun
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import AuditNote, AuditVerdict
from memcore.models.finetune import FineTuneStage
from support.checkpoint_rows import checkpoint_row
from support.ledger_records import COMPANY, StoppedClock
from support.memories import NOW

DAY = timedelta(days=1)

Call = Callable[[Ledger, StoppedClock, str], object]


def _theirs(ledger: Ledger) -> FineTuneRun:
    """Return the first company's run, whose id and token the other company tries to use."""
    runs, _ = ledger.finetune_runs.page(COMPANY)
    return runs[0]


def _aimed(ledger: Ledger, call: Callable[[str, str], object]) -> object:
    run = _theirs(ledger)
    try:
        return call(run.run_id, run.token or "nobody's")
    except (LeaseLostError, MemoryNotFoundError, FineTuneRunNotResumableError, FineTuneRunActiveError) as refused:
        return str(refused)


def _started(ledger: Ledger, company: str) -> object:
    try:
        return ledger.finetune_runs.start(company, {"uses_memories": True})
    except FineTuneRunActiveError as refused:
        return str(refused)


def _removed(ledger: Ledger, company: str) -> object:
    note = AuditNote(actor="person:ada", action="finetune.delete", verdict=AuditVerdict.DONE)
    checkpoint_id = ids.checkpoint_id(company=COMPANY, run_id=_theirs(ledger).run_id)
    try:
        return ledger.checkpoints.remove(company, checkpoint_id, note=note)
    except CheckpointNotFoundError as refused:
        return str(refused)


#: Calls that write.
WRITES: dict[str, Call] = {
    "finetune_runs.start": lambda ledger, _, c: _started(ledger, c),
    "finetune_runs.claim": lambda ledger, _, c: ledger.finetune_runs.claim(c, _theirs(ledger).run_id, lease=DAY),
    "finetune_runs.renew": lambda ledger, _, c: _aimed(
        ledger, lambda run_id, token: ledger.finetune_runs.renew(c, run_id, token, lease=DAY)
    ),
    "finetune_runs.report": lambda ledger, _, c: _aimed(
        ledger, lambda run_id, token: ledger.finetune_runs.report(c, run_id, token, progress=0.5)
    ),
    "finetune_runs.wait": lambda ledger, clock, c: _aimed(
        ledger, lambda run_id, token: ledger.finetune_runs.wait(c, run_id, token, until=clock(), reason="no")
    ),
    "finetune_runs.record_holder": lambda ledger, _, c: _aimed(
        ledger,
        lambda run_id, token: ledger.finetune_runs.record_holder(c, run_id, token, holder="process:1:1", host="h"),
    ),
    "finetune_runs.rewind": lambda ledger, _, c: _aimed(
        ledger, lambda run_id, token: ledger.finetune_runs.rewind(c, run_id, token, finished={})
    ),
    "finetune_runs.finish_stage": lambda ledger, _, c: _aimed(
        ledger,
        lambda run_id, token: ledger.finetune_runs.finish_stage(
            c, run_id, token, stage=FineTuneStage.GENERATING_DATA, files={"a": "b"}
        ),
    ),
    "finetune_runs.fail": lambda ledger, _, c: _aimed(
        ledger, lambda run_id, token: ledger.finetune_runs.fail(c, run_id, token, "no")
    ),
    "finetune_runs.release": lambda ledger, _, c: _aimed(
        ledger, lambda run_id, token: ledger.finetune_runs.release(c, run_id, token)
    ),
    "finetune_runs.end": lambda ledger, _, c: _aimed(
        ledger,
        lambda run_id, token: ledger.finetune_runs.end(c, run_id, token, "fail", reason="no"),
    ),
    "finetune_runs.complete": lambda ledger, clock, c: _aimed(
        ledger,
        lambda run_id, token: ledger.finetune_runs.complete(
            c, run_id, token, checkpoint=checkpoint_row(run_id, company=COMPANY, at=clock())
        ),
    ),
    "finetune_runs.cancel": lambda ledger, _, c: ledger.finetune_runs.cancel(c),
    "finetune_runs.resume": lambda ledger, _, c: _aimed(
        ledger, lambda run_id, _token: ledger.finetune_runs.resume(c, run_id)
    ),
    "checkpoints.remove": lambda ledger, _, c: _removed(ledger, c),
}

#: Calls that read.
VIEWS: dict[str, Call] = {
    "finetune_runs.get": lambda ledger, _, c: ledger.finetune_runs.get(c, _theirs(ledger).run_id),
    "finetune_runs.item": lambda ledger, _, c: _aimed(
        ledger, lambda run_id, _token: ledger.finetune_runs.item(c, run_id)
    ),
    "finetune_runs.active": lambda ledger, _, c: ledger.finetune_runs.active(c),
    "finetune_runs.page": lambda ledger, _, c: ledger.finetune_runs.page(c),
    "checkpoints.get": lambda ledger, _, c: ledger.checkpoints.get(
        c, ids.checkpoint_id(company=COMPANY, run_id=_theirs(ledger).run_id)
    ),
    "checkpoints.require_unused": lambda ledger, _, c: ledger.checkpoints.require_unused(
        c, checkpoint_row("another-run", company=COMPANY, at=NOW)
    ),
    "checkpoints.page": lambda ledger, _, c: ledger.checkpoints.page(c),
    "checkpoints.count": lambda ledger, _, c: ledger.checkpoints.count(c),
}

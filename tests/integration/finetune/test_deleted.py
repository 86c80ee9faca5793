"""The folder of a checkpoint that was deleted while its worker's machine did not see it."""

from support.finetune_fixture import FineTuneFleet
from support.ledger_records import COMPANY

from memcore import ids
from memcore.ledger.organization.audit import AuditNote, AuditVerdict
from memcore.models.finetune import FineTuneStage


def test_the_next_run_removes_what_a_dead_deletion_left_and_nothing_else(fleet: FineTuneFleet) -> None:
    kept, deleted, failed = fleet.start(), "", ""
    fleet.to_the_end(kept)
    deleted = fleet.start()
    fleet.to_the_end(deleted)
    failed = fleet.start()
    for _ in range(3):
        fleet.worker().run(failed)
    assert fleet.ledger.finetune_runs.cancel(COMPANY) is not None
    places = {
        run_id: next(iter(fleet.runs.glob(f"{run_id}/{FineTuneStage.TRAINING}-*/checkpoint")))
        for run_id in (kept, deleted, failed)
    }
    # Its row is gone; the process died before the folder.
    note = AuditNote(actor="person:ada", action="finetune.delete", verdict=AuditVerdict.DONE)
    fleet.ledger.checkpoints.remove(COMPANY, ids.checkpoint_id(company=COMPANY, run_id=deleted), note=note)

    fleet.worker().run(fleet.start())
    assert {run_id for run_id, place in places.items() if place.exists()} == {kept, failed}

"""Fine-tune runs: the plan and the progress of each; its work item is open until it has ended."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field
from sqlalchemy import Connection, func, select, update
from sqlalchemy.exc import IntegrityError

from memcore import ids
from memcore.errors import (
    FineTuneRunActiveError,
    FineTuneRunNotFoundError,
    FineTuneRunNotResumableError,
    MemoryInputError,
    MemoryStoreError,
)
from memcore.jobs import FineTunePayload
from memcore.ledger.collections import Checkpoint, add_checkpoint
from memcore.ledger.database import Row, checked_key, equals, known_keys
from memcore.ledger.organization.audit import AuditNote, append
from memcore.ledger.tables import OPEN_WORK, finetune_runs, work_items
from memcore.ledger.work_items import Work, WorkEvent, WorkRecord, WorkState, move, new_item
from memcore.models.finetune import STAGES, FineTuneStage
from memcore.models.memory import BoundedTime

#: Files by their place in the run's folder, with their hashes.
Files = dict[str, str]

#: The ends of a run.
_ENDS = {
    WorkState.DONE: FineTuneStage.COMPLETE,
    WorkState.FAILED: FineTuneStage.FAILED,
    WorkState.DISMISSED: FineTuneStage.CANCELLED,
}


class FineTuneRun(WorkRecord):
    """A run's row.

    Attributes:
        plan: what it is to do (memcore.models.finetune) as JSON.
        progress: of the stage in work, 0 to 1; None while none is reported.
        finished: of each stage that is done, its files.
        claims: how often a stage of it was claimed; no two claims have the same number.
        holder: what names the running stage, such as ``process:<group>:<start>``; kept until it is known to be gone.
        reason: why it failed, or was cancelled, in one sentence; None otherwise.
        attempt: how often a stage was claimed since the last one was done, or a person resumed the run.
        finished_at: when it ended; None exactly while it has not.
    """

    run_id: str
    plan: dict[str, Any]
    progress: float | None = Field(default=None, ge=0.0, le=1.0)
    finished: Annotated[dict[FineTuneStage, Files], known_keys(set(FineTuneStage))] = Field(default_factory=dict)
    claims: int = 0
    holder: str | None = None
    host: str | None = None
    cancel_requested_at: BoundedTime | None = None
    started_at: BoundedTime
    updated_at: BoundedTime
    state: WorkState = WorkState.AVAILABLE
    reason: str | None = None
    finished_at: BoundedTime | None = None

    @property
    def stage(self) -> FineTuneStage:
        """The first stage that is not done, the last one where all are; of a run that has ended, how."""
        left = (stage for stage in STAGES if stage not in self.finished)
        return _ENDS.get(self.state) or next(left, STAGES[-1])

    @property
    def stages_completed(self) -> tuple[FineTuneStage, ...]:
        """The stages that are done, in order."""
        return tuple(stage for stage in STAGES if stage in self.finished)

    @property
    def duration(self) -> timedelta | None:
        """How long it took; None until it has ended."""
        return None if self.finished_at is None else self.finished_at - self.started_at

    @property
    def fraction(self) -> float:
        """How much of the whole is done, 0 to 1, each stage counted alike."""
        if self.stage is FineTuneStage.COMPLETE:
            return 1.0
        return (len(self.finished) + (self.progress or 0.0)) / len(STAGES)


#: Most runs of a page.
MAX_PAGE = 200

#: The values of a run of which no stage runs.
_NOTHING_RUNS: Row = {"holder": None, "host": None}


class FineTuneRuns(Work[FineTuneRun]):
    """The finetune_runs table and its work items; one run of a company is open at a time."""

    _kind = FineTunePayload.task
    _table = finetune_runs
    _model = FineTuneRun

    def start(self, company: str, plan: Mapping[str, Any], *, run_id: str | None = None) -> FineTuneRun:
        """Queue a run of a plan, given as JSON; with the id of one that is there, return that one.

        Raises FineTuneRunActiveError when another has not ended.
        """
        now = self._clock()
        run = FineTuneRun(run_id=run_id or ids.new_id(), plan=dict(plan), started_at=now, updated_at=now)
        own = run.model_dump(include=set(finetune_runs.c.keys())) | {"company": checked_key("company", company)}
        payload = FineTunePayload(company=company, run_id=run.run_id)
        item = new_item(self._name(company, run.run_id), payload, now=now, lock="finetune")
        with self._database.write() as connection:
            if self._insert(connection, {run.run_id: own}, [item]):
                return run
        found = self.get(company, run.run_id)
        if found is None:
            raise FineTuneRunActiveError("a run has not ended: see `memtend finetune status`, or cancel it")
        return found

    def report(self, company: str, run_id: str, token: str, *, progress: float | None = None) -> FineTuneRun:
        """Save the stage's progress, and return the run: a person may want it to end. Raises LeaseLostError."""
        return self._leased(company, run_id, token, own=self._own({} if progress is None else {"progress": progress}))

    def record_holder(
        self, company: str, run_id: str, token: str, *, holder: str | None, host: str | None
    ) -> FineTuneRun:
        """Save the name of the running stage, or that none runs. Raises LeaseLostError."""
        return self._leased(company, run_id, token, own=self._own({"holder": holder, "host": host}))

    def rewind(self, company: str, run_id: str, token: str, *, finished: Mapping[FineTuneStage, Files]) -> FineTuneRun:
        """Keep only these stages as done; the run goes on at the first gap. Raises LeaseLostError."""
        kept = {stage.value: dict(files) for stage, files in finished.items()}
        return self._leased(company, run_id, token, own=self._own({"finished": kept}))

    def finish_stage(self, company: str, run_id: str, token: str, *, stage: FineTuneStage, files: Files) -> FineTuneRun:
        """Save the files of a finished stage, and release the run, which waits for its next stage.

        Raises LeaseLostError; MemoryInputError for the last stage, which ``complete`` ends.
        """
        if stage not in STAGES[:-1]:
            raise MemoryInputError("stage", f"{stage} has no stage behind it")
        with self._database.write() as connection:
            return self._finish(connection, (company, run_id, token), stage, files, "release", attempt=0)

    def complete(self, company: str, run_id: str, token: str, *, checkpoint: Checkpoint) -> FineTuneRun:
        """End a run whose stages are done, and write its checkpoint: both, or neither. Raises LeaseLostError."""
        with self._database.write() as connection:
            run = self._finish(connection, (company, run_id, token), STAGES[-1], {}, "finish")
            add_checkpoint(connection, company, checkpoint)
        return run

    def end(
        self, company: str, run_id: str, token: str, event: Literal["fail", "cancel"], *, reason: str
    ) -> FineTuneRun:
        """End a run as failed or cancelled, with the reason in one sentence. Raises LeaseLostError."""
        return self._leased(company, run_id, token, event, own=self._own(_NOTHING_RUNS), reason=reason)

    def cancel(self, company: str, *, note: Callable[[str], AuditNote] | None = None) -> FineTuneRun | None:
        """Cancel the active run: end it if no worker has it, else ask that to; None when none is active.

        ``note`` makes the audit's line from the run's id; both are written, or neither.
        """
        now, its = self._clock(), equals(work_items, company=company, kind=self._kind)
        asked = self._own({"cancel_requested_at": func.coalesce(finetune_runs.c.cancel_requested_at, now)})
        with self._database.write() as connection:
            keys = move(connection, "dismiss", its, now=now, reason="a person cancelled the run")
            if keys:
                asked["progress"] = None
            else:
                leased = select(work_items.c.key).where(its, OPEN_WORK).with_for_update()
                keys = tuple(connection.execute(leased).scalars())
            for run_id in keys:
                connection.execute(update(finetune_runs).where(self._is(company, run_id)).values(asked))
                if note is not None:
                    append(connection, company, note(run_id), at=now)
                return self._in(connection, company, run_id)
        return None

    def resume(self, company: str, run_id: str) -> FineTuneRun:
        """Queue a failed or cancelled run again, after its finished stages.

        Raises:
            FineTuneRunNotFoundError: the id names no run.
            FineTuneRunNotResumableError: it is complete, or has not ended.
            FineTuneRunActiveError: another run has not ended.
        """
        ended = work_items.c.state.in_([WorkState.FAILED, WorkState.DISMISSED])
        own = self._own({"cancel_requested_at": None, "progress": None})
        try:
            run = self._move(company, run_id, "replay", ended, own=own, attempt=0, reason=None)
        except MemoryStoreError as error:
            if not isinstance(error.__cause__, IntegrityError):
                raise
            raise FineTuneRunActiveError("another run has not ended: see `memtend finetune status`") from None
        if run is not None:
            return run
        found = self.get(company, run_id)
        if found is None:
            raise FineTuneRunNotFoundError
        reason = f"the run is {found.stage}; only a failed or cancelled one can be resumed"
        raise FineTuneRunNotResumableError(reason)

    def active(self, company: str) -> FineTuneRun | None:
        """Return the company's run that has not ended, or None."""
        return self._one(self._rows().where(finetune_runs.c.company == company, OPEN_WORK))

    def page(self, company: str, *, limit: int = 50, offset: int = 0) -> tuple[tuple[FineTuneRun, ...], int]:
        """Return at most 200 runs, newest first, and how many there are in all."""
        table = finetune_runs.c
        query = self._rows().where(table.company == company).order_by(table.started_at.desc(), table.run_id)
        total = self._database.count(finetune_runs, table.company == company)
        return self._all(query.limit(min(limit, MAX_PAGE)).offset(offset)), total

    def _at_claim(self) -> Row:
        return self._own({"claims": finetune_runs.c.claims + 1, "progress": None})

    def _own(self, values: Row) -> Row:
        return {**values, "updated_at": self._clock()}

    def _finish(
        self,
        connection: Connection,
        held: tuple[str, str, str],
        stage: FineTuneStage,
        files: Files,
        event: WorkEvent,
        **values: Any,
    ) -> FineTuneRun:
        before = self._leased_in(connection, *held, "renew", own=None)
        finished = {**before.model_dump(mode="json")["finished"], stage.value: files}
        own = self._own({**_NOTHING_RUNS, "finished": finished, "progress": None})
        return self._leased_in(connection, *held, event, own=own, **values)

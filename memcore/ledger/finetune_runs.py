"""Fine-tune runs: the plan, the progress and the lease of each."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NoReturn, Self

from pydantic import Field, model_validator
from sqlalchemy import ColumnElement, Connection, and_, func, select, update
from sqlalchemy.exc import IntegrityError

from memcore import ids
from memcore.errors import (
    FineTuneRunActiveError,
    FineTuneRunNotFoundError,
    FineTuneRunNotResumableError,
    LeaseLostError,
    MemoryInputError,
)
from memcore.ledger.collections import Checkpoint, add_checkpoint
from memcore.ledger.database import Row, changed, checked_key, insert_one
from memcore.ledger.organization.audit import AuditNote, append
from memcore.ledger.rows import CompanyRecords, Work
from memcore.ledger.tables import UNENDED, finetune_runs
from memcore.models.base import Frozen
from memcore.models.finetune import STAGES, FineTuneStage
from memcore.models.memory import BoundedTime

#: Files by their place in the run's folder, with their hashes.
Files = dict[str, str]


class FineTuneRun(Frozen):
    """A run's row.

    Attributes:
        plan: what it is to do (memcore.models.finetune) as JSON.
        stage: what is next, or in work; of a run that has ended, how.
        progress: of the stage in work, 0 to 1; None while none is reported.
        error: why it failed, or was cancelled, in one sentence; None otherwise.
        finished: of each stage that is done, its files.
        attempt: how often a stage of it was claimed; no two claims have the same number.
        tries: how often that was since the last stage was done, or a person resumed it.
        token: of the worker that holds it.
        lease_until: when another may claim it, unless that one renews.
        holder: what names the running stage, such as ``process:<group>:<start>``; kept until it is known to be gone.
        rung_at: when its message was last sent.
        completed_at: when it ended; None exactly while it has not.
    """

    run_id: str
    plan: dict[str, Any]
    stage: FineTuneStage
    progress: float | None = Field(default=None, ge=0.0, le=1.0)
    error: str | None = None
    finished: dict[FineTuneStage, Files] = Field(default_factory=dict)
    attempt: int = 0
    tries: int = 0
    token: str | None = None
    lease_until: BoundedTime | None = None
    holder: str | None = None
    host: str | None = None
    cancel_requested_at: BoundedTime | None = None
    rung_at: BoundedTime
    started_at: BoundedTime
    updated_at: BoundedTime
    completed_at: BoundedTime | None = None

    @model_validator(mode="after")
    def _state_holds_together(self) -> Self:
        if not self.stage.is_end and self.stage not in STAGES:
            raise ValueError(f"stage: {self.stage} is none of a run")
        if self.stage is FineTuneStage.FAILED and self.error is None:
            raise ValueError("error: a failed run says why")
        if self.stage not in {FineTuneStage.FAILED, FineTuneStage.CANCELLED} and self.error is not None:
            raise ValueError("error: only a run that failed or was cancelled has one")
        if self.stage.is_end is (self.completed_at is None):
            raise ValueError("completed_at: stands exactly where the run has ended")
        return self

    @property
    def stages_completed(self) -> tuple[FineTuneStage, ...]:
        """The stages that are done, in order."""
        return tuple(stage for stage in STAGES if stage in self.finished)

    @property
    def next_stage(self) -> FineTuneStage:
        """The first stage that is not done; the last one where all are."""
        return next((stage for stage in STAGES if stage not in self.finished), STAGES[-1])

    @property
    def duration(self) -> timedelta | None:
        """How long it took; None until it has ended."""
        return None if self.completed_at is None else self.completed_at - self.started_at

    @property
    def fraction(self) -> float:
        """How much of the whole is done, 0 to 1, each stage counted alike."""
        if self.stage is FineTuneStage.COMPLETE:
            return 1.0
        return (len(self.finished) + (self.progress or 0.0)) / len(STAGES)


#: Most runs of a page.
MAX_PAGE = 200

#: What can be resumed.
_RESUMABLE = frozenset({FineTuneStage.FAILED, FineTuneStage.CANCELLED})

#: The values of a run that no worker holds.
_RELEASE: Row = {"token": None, "lease_until": None, "holder": None, "host": None}


class FineTuneRuns(CompanyRecords[FineTuneRun], Work[FineTuneRun]):
    """The finetune_runs table."""

    _table = finetune_runs
    _model = FineTuneRun
    _open = UNENDED

    def start(self, company: str, plan: Mapping[str, Any], *, run_id: str | None = None) -> FineTuneRun:
        """Queue a run of a plan, given as JSON; with the id of one that is there, return that one.

        Raises FineTuneRunActiveError when another has not ended.
        """
        now = self._clock()
        run = FineTuneRun(
            run_id=run_id or ids.new_id(), plan=dict(plan), stage=STAGES[0], rung_at=now, started_at=now, updated_at=now
        )
        row = {"company": checked_key("company", company), **run.model_dump(), "stage": run.stage.value}
        with self._database.write() as connection:
            if insert_one(connection, finetune_runs, row):
                return run
        found = self.get(company, run.run_id)
        if found is None:
            raise FineTuneRunActiveError("a run has not ended: see `memtend finetune status`, or cancel it")
        return found

    def claim(self, company: str, run_id: str, *, lease: timedelta) -> FineTuneRun | None:
        """Claim an active run under a fresh token; None when it has ended, or another worker has it.

        What ran under the token before may still run: its holder's name stands in the row until another is written.
        """
        table = finetune_runs.c
        values = {"attempt": table.attempt + 1, "tries": table.tries + 1, "progress": None, "updated_at": self._clock()}
        return self._claim(self._is(company, run_id), values, lease=lease)

    def renew(
        self, company: str, run_id: str, token: str, *, lease: timedelta, progress: float | None = None
    ) -> FineTuneRun:
        """Renew the lease, and save the stage's progress. Raises LeaseLostError."""
        now = self._clock()
        values = {"lease_until": now + lease, "updated_at": now}
        return self._held(company, run_id, token, values if progress is None else {**values, "progress": progress})

    def record_holder(
        self, company: str, run_id: str, token: str, *, holder: str | None, host: str | None
    ) -> FineTuneRun:
        """Save the name of the running stage, or that none runs. Raises LeaseLostError."""
        return self._held(company, run_id, token, {"holder": holder, "host": host, "updated_at": self._clock()})

    def rewind(self, company: str, run_id: str, token: str, *, finished: Mapping[FineTuneStage, Files]) -> FineTuneRun:
        """Keep only these stages as done; the run goes on at the first gap. Raises LeaseLostError."""
        stage = next((each for each in STAGES if each not in finished), STAGES[-1])
        return self._held(
            company,
            run_id,
            token,
            {"finished": {each.value: dict(files) for each, files in finished.items()}, "stage": stage.value},
        )

    def finish_stage(self, company: str, run_id: str, token: str, *, stage: FineTuneStage, files: Files) -> FineTuneRun:
        """Save the files of a finished stage, and release the run, which waits for its next stage.

        Raises LeaseLostError; MemoryInputError for the last stage, which ``complete`` ends.
        """
        if stage not in STAGES[:-1]:
            raise MemoryInputError("stage", f"{stage} has no stage behind it")
        now = self._clock()
        values = {"stage": STAGES[STAGES.index(stage) + 1].value, "tries": 0, "rung_at": now}
        with self._database.write() as connection:
            mine = self._is(company, run_id) & self._is_held(token)
            run = _finish(connection, mine, stage, files, {**values, "updated_at": now})
        return run or self._lost(company, run_id)

    def release(self, company: str, run_id: str, token: str) -> FineTuneRun:
        """Release a run that cannot go on for now, to be dispatched again. Raises LeaseLostError."""
        now, tries = self._clock(), finetune_runs.c.tries - 1
        return self._held(company, run_id, token, {"rung_at": now, "updated_at": now, "tries": tries, **_RELEASE})

    def end(self, company: str, run_id: str, token: str, *, stage: FineTuneStage, error: str) -> FineTuneRun:
        """End a run as failed or cancelled, with the reason in one sentence. Raises LeaseLostError."""
        if stage not in _RESUMABLE:
            raise MemoryInputError("stage", f"{stage} needs no reason: use failed or cancelled")
        now = self._clock()
        values = {"stage": stage.value, "error": error, "completed_at": now, "updated_at": now, **_RELEASE}
        return self._held(company, run_id, token, values)

    def complete(self, company: str, run_id: str, token: str, *, checkpoint: Checkpoint) -> FineTuneRun:
        """End a run whose stages are done, and write its checkpoint: both, or neither. Raises LeaseLostError."""
        now = self._clock()
        values = {"stage": FineTuneStage.COMPLETE.value, "completed_at": now, "updated_at": now}
        with self._database.write() as connection:
            mine = self._is(company, run_id) & self._is_held(token)
            run = _finish(connection, mine, STAGES[-1], {}, values)
            if run is not None:
                add_checkpoint(connection, company, checkpoint)
        return run or self._lost(company, run_id)

    def cancel(self, company: str, *, note: Callable[[str], AuditNote] | None = None) -> FineTuneRun | None:
        """Cancel the active run: end it if no stage runs, else ask its worker to; None when none is active.

        ``note`` makes the audit's line from the run's id; both are written, or neither.
        """
        now, table = self._clock(), finetune_runs.c
        active = and_(table.company == company, UNENDED)
        ended = {
            "stage": FineTuneStage.CANCELLED.value,
            "error": "a person cancelled the run",
            "progress": None,
            "completed_at": now,
        }
        asked = {"cancel_requested_at": func.coalesce(table.cancel_requested_at, now), "updated_at": now}
        with self._database.write() as connection:
            idle = and_(active, table.token.is_(None), table.holder.is_(None))
            run = _changed(connection, idle, {**asked, **ended}) or _changed(connection, active, asked)
            if run is not None and note is not None:
                append(connection, company, note(run.run_id), at=now)
        return run

    def resume(self, company: str, run_id: str) -> FineTuneRun:
        """Queue a failed or cancelled run again, after its finished stages.

        Raises:
            FineTuneRunNotFoundError: the id names no run.
            FineTuneRunNotResumableError: it is complete, or has not ended.
            FineTuneRunActiveError: another run has not ended.
        """
        now = self._clock()
        found = self.get(company, run_id)
        if found is None:
            raise FineTuneRunNotFoundError
        values = {
            "stage": found.next_stage.value,
            **dict.fromkeys(("error", "completed_at", "cancel_requested_at", "progress")),
            "tries": 0,
            "rung_at": now,
            "updated_at": now,
        }
        ended = self._is(company, run_id) & finetune_runs.c.stage.in_(sorted(_RESUMABLE))
        with self._database.write() as connection:
            try:
                run = _changed(connection, ended, values)
            except IntegrityError:
                raise FineTuneRunActiveError("another run has not ended: see `memtend finetune status`") from None
        if run is None:
            reason = f"the run is {found.stage}; only a failed or cancelled one can be resumed"
            raise FineTuneRunNotResumableError(reason)
        return run

    def active(self, company: str) -> FineTuneRun | None:
        """Return the company's run that has not ended, or None."""
        return self._one(select(finetune_runs).where(finetune_runs.c.company == company, UNENDED))

    def page(self, company: str, *, limit: int = 50, offset: int = 0) -> tuple[tuple[FineTuneRun, ...], int]:
        """Return at most 200 runs, newest first, and how many there are in all."""
        table = finetune_runs.c
        query = select(finetune_runs).where(table.company == company).order_by(table.started_at.desc(), table.run_id)
        return self._all(query.limit(min(limit, MAX_PAGE)).offset(offset)), self.count(company)

    def _held(self, company: str, run_id: str, token: str, values: Row) -> FineTuneRun:
        run = self._changed(self._is(company, run_id) & self._is_held(token), values)
        return run or self._lost(company, run_id)

    def _lost(self, company: str, run_id: str) -> NoReturn:
        run = self.get(company, run_id)
        if run is None:
            raise FineTuneRunNotFoundError
        raise LeaseLostError(
            f"the fine-tune run is {run.stage} and no longer held with this token; stop without writing"
        )


def _finish(
    connection: Connection, mine: ColumnElement[bool], stage: FineTuneStage, files: Files, values: Row
) -> FineTuneRun | None:
    query = select(finetune_runs.c.finished).where(mine).with_for_update()
    before = connection.execute(query).scalar_one_or_none()
    if before is None:
        return None
    return _changed(
        connection, mine, {**values, **_RELEASE, "finished": {**before, stage.value: files}, "progress": None}
    )


def _changed(connection: Connection, where: ColumnElement[bool], values: Row) -> FineTuneRun | None:
    return changed(connection, FineTuneRun, update(finetune_runs).where(where).values(values))

"""Maintenance runs: list, plan, start, undo; decide about those that are held; pause and resume a company's."""

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, StrictInt

from memcore.client.results import JobReceipt
from memcore.errors import MemoryConflictError, MemoryInputError, MemoryNotFoundError
from memcore.ledger.access.keys import Verb
from memcore.ledger.consolidation_groups import ConsolidationGroup, GroupState
from memcore.ledger.organization.audit import done_by
from memcore.ledger.runs import PLANNED_ENFORCED, PLANNED_MERGED, Run, RunKind, RunOrigin, RunStep
from memcore.ledger.work_items import WorkCounts, WorkItem, WorkState
from memcore.models.base import Frozen, View
from memcore.models.memory import AgentId, BoundedTime, Key, StoredKey
from memcore.service.operation import JobAccepted, operation
from memcore.service.resources import CompanyPart

if TYPE_CHECKING:
    from memcore.maintenance.consolidation.proposals import ShownGroup
    from memcore.maintenance.plan import HeldPlan, MaintenancePlan
    from memcore.maintenance.service import MaintenanceService
    from memcore.maintenance.undo import UndoPlan

#: What a session's, a project's or a task's end is called.
Scope = Literal["session", "project", "task"]

#: Waiting work that is dispatched at once when a company's maintenance goes on; the sweep finds the rest in minutes.
DISPATCHED_ON_RESUME = 1_000

#: Most runs of a page.
MAX_PAGE = 200


RunId = Annotated[Key, Field(description="A run's id, from the list.")]

#: The numbers of groups; left out, all of them.
Places = Annotated[
    tuple[Annotated[StrictInt, Field(ge=0, le=1_000_000)], ...] | None,
    Field(min_length=1, max_length=1_000, description="Their numbers; left out, all of them."),
]

_ONE = "/runs/{run_id}"


class RunInfo(View):
    """A run as an API shows it: without the lease of its worker.

    Attributes:
        step: what it does next.
        counts: small figures per step.
        reason: why it waits, is held, was skipped or failed.
        scope_id: the session, project or task that ends, or the memory that returns or goes.
    """

    run_id: str
    agent_id: str
    kind: RunKind
    origin: RunOrigin
    state: WorkState
    step: RunStep
    planned_at: BoundedTime
    undo_of: str | None
    allow_large: bool
    counts: dict[str, int]
    reason: str | None
    created_at: BoundedTime
    started_at: BoundedTime | None
    finished_at: BoundedTime | None
    scope_id: str | None


class RunEntry(Frozen):
    """One entry of a run's journal.

    Attributes:
        reason: why the memories were removed.
        state: ``prepared`` while it is not carried out, else ``done``.
        removed: the ids that went.
        added: the ids that came in their place.
    """

    seq: int
    reason: str
    state: Literal["prepared", "done"]
    removed: tuple[str, ...]
    added: tuple[str, ...]


class RunDetail(Frozen):
    """A run with what it moved.

    Attributes:
        undoable: whether its journal still holds all that an undo needs.
        archived: memories that it archived.
        entries: its journal, in order.
    """

    run: Run
    undoable: bool
    archived: int
    entries: tuple[RunEntry, ...]

    @property
    def summaries(self) -> dict[str, tuple[str, ...]]:
        """The memories that each summary of the run was made of."""
        merged = (each for each in self.entries if each.reason == "consolidated")
        return {new: each.removed for each in merged for new in each.added}


class RunView(RunInfo):
    """A run with the ids that it moved.

    Attributes:
        undoable: whether its journal still holds all that an undo needs.
        archived: memories that it archived.
        entries: its journal, in order.
        summaries: the memories that each of its summaries was made of.
    """

    undoable: bool
    archived: int
    entries: tuple[RunEntry, ...]
    summaries: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, whole: RunDetail) -> Self:
        """Return what may be shown of a run with what it moved."""
        moved = {name: getattr(whole, name) for name in ("undoable", "archived", "entries", "summaries")}
        return cls(**dict(RunInfo.of(whole.run)), **moved)


class GroupInfo(Frozen):
    """How a group of a run stands.

    Attributes:
        group: its number in the run.
        memories: how many it merges.
    """

    group: int
    state: GroupState
    memories: int

    @classmethod
    def of(cls, group: ConsolidationGroup) -> Self:
        """Return how a group stands."""
        return cls(group=group.place, state=group.state, memories=len(group.source_ids))


class Release(Frozen):
    """What became of the release of a held run.

    Attributes:
        consolidated: memories that its plan said it would merge; None where it has no figures.
        enforced: memories above the limit that its plan said it would remove.
        reason: why it was not released.
    """

    run_id: str
    agent_id: str
    consolidated: int | None
    enforced: int | None
    released: bool
    reason: str | None


class RunOperations(CompanyPart):
    """Reads and asks for a company's runs. Every call raises MemoryConnectionError when ledger or broker are away.

    ``by`` is the name of a person, which the audit keeps with the ``reason``.
    """

    @operation("GET /runs", Verb.READ, shows=RunInfo, under="runs")
    async def list(
        self,
        *,
        agent_id: str | None = None,
        state: WorkState | None = None,
        limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] | None = 50,
    ) -> tuple[Run, ...]:
        """Return runs, newest first; a key for some agents names one of them.

        With None as the limit all of them.
        """
        return await self._ask(self._ledger.runs.list, agent_id=agent_id, state=state, limit=limit)

    async def last_of(self, agent_ids: Sequence[str]) -> dict[str, Run]:
        """Return the newest run of each of these agents that has had one."""

        def newest() -> dict[str, Run]:
            found = (self._ledger.runs.list(self._company, agent_id=each, state=None, limit=1) for each in agent_ids)
            return {run.agent_id: run for runs in found for run in runs}

        return await self._resources.run(newest)

    async def get(self, run_id: str) -> Run:
        """Return a run. Raises MemoryNotFoundError."""
        return found_run(await self._ask(self._ledger.runs.get, run_id))

    @operation(f"GET {_ONE}", Verb.READ, shows=RunView)
    async def detail(self, run_id: RunId) -> RunDetail:
        """Return a run: its state, its counts, and the ids that it moved. Raises MemoryNotFoundError."""
        run = await self.get(run_id)
        moved = await self._resources.run(self._ledger.lineage.of_run, run_id)
        return RunDetail(
            run=run,
            undoable=await self._resources.run(self._ledger.journal.undoable, run_id),
            archived=await self._resources.run(self._ledger.archive.archived_by, run_id),
            entries=tuple(
                RunEntry(
                    seq=each.seq,
                    reason=str(each.reason),
                    state="prepared" if each.is_open else "done",
                    removed=tuple(each.outgoing),
                    added=tuple(each.incoming),
                )
                for each in moved
            ),
        )

    async def groups(self, run_id: str) -> "tuple[ShownGroup, ...]":
        """Return the groups that a run proposes or the gate refused, with the texts of their memories.

        Raises MemoryNotFoundError.
        """
        from memcore.maintenance.consolidation.proposals import shown_groups  # noqa: PLC0415  # few commands need it

        run = await self.get(run_id)
        authorities = self._resources.policy.memory.origins.authority
        return await shown_groups(self._ledger, await self._resources.backend(), run, authorities=authorities)

    @operation("GET /agents/{agent_id}/runs:plan", Verb.READ)
    async def plan(self, agent_id: AgentId, *, allow_large: bool = False) -> "MaintenancePlan":
        """Return what a run would do to an agent now; nothing is written, and no model is asked.

        With ``allow_large`` as if a person had allowed a large removal.
        """
        plan = await (await self._maintenance()).plan(agent_id)
        return plan.model_copy(update={"is_held": False}) if allow_large else plan

    @operation(f"GET {_ONE}/plan", Verb.READ)
    async def plan_held(self, run_id: RunId) -> "HeldPlan":
        """Return what a held run would do now: which memories become which, and how many would be there.

        Its version binds a release to it. Raises MemoryNotFoundError.
        """
        return await (await self._maintenance()).plan_held((await self.get(run_id)).agent_id)

    async def plan_to_release(self, run: Run) -> "HeldPlan | None":
        """Return the plan of a run that waits for its release; None of any other."""
        is_guarded = run.state is WorkState.HELD and run.step is not RunStep.ADOPTION
        return await self.plan_held(run.run_id) if is_guarded else None

    async def _maintenance(self) -> "MaintenanceService":
        # It takes a fifth of a second to import, and few commands plan.
        from memcore.maintenance.service import MaintenanceService  # noqa: PLC0415  # see above

        settings, policy = self._resources.settings, self._resources.policy
        backend, has_model = await self._resources.backend(), settings.llm_url is not None
        return MaintenanceService.configured(
            settings, policy, backend, self._ledger, has_model=has_model, clock=self._resources.clock
        )

    async def maintain(
        self, agent_id: str, *, allow_large: bool = False, by: str | None = None, reason: str | None = None
    ) -> JobReceipt:
        """Ask for an agent's maintenance now, beside its schedule; the job's id is the run's. Raises MemoryInputError.

        ``allow_large`` lets the run merge and remove a large share of the memories without asking a person. With a name
        or a reason, the audit has it.
        """
        receipt = await self._resources.client.maintain_now(agent_id, allow_large=allow_large)
        await self._resources.note_given(by, "runs.maintain", receipt.job_id, reason=reason)
        return receipt

    @operation("POST /agents/{agent_id}/ends/{scope}/{ended_id}", Verb.WRITE, status=202, shows=JobAccepted)
    async def end(self, scope: Scope, agent_id: str, ended_id: str) -> JobReceipt:
        """Say that a session, a project or a task has ended: the memories that end with it go, in a run.

        Raises MemoryInputError.
        """
        client = self._resources.client
        ask: dict[Scope, Callable[[str, str], Coroutine[Any, Any, JobReceipt]]] = {
            "session": client.end_session,
            "project": client.end_project,
            "task": client.end_task,
        }
        return await ask[scope](agent_id, ended_id)

    @operation(f"POST {_ONE}/undo", Verb.MAINTAIN, status=202, confirms=True, shows=JobAccepted)
    async def undo(self, run_id: RunId, *, by: str | None = None, reason: str | None = None) -> JobReceipt:
        """Undo a run: what it removed comes back, what it made goes. An undo can be undone.

        The job's id is the undo's run id. Raises MemoryNotFoundError. With a name or a reason, the audit has it.
        """
        run = await self.get(run_id)
        receipt = await self._resources.client.undo(run.agent_id, run_id)
        await self._resources.note_given(by, "runs.undo", run_id, reason=reason)
        return receipt

    @operation(f"GET {_ONE}/undo", Verb.READ)
    async def plan_undo(self, run_id: RunId) -> "UndoPlan":
        """Return what the undo of a run would do now; nothing is written.

        Raises MemoryInputError when it cannot be undone.
        """
        from memcore.maintenance.undo import plan_undo  # noqa: PLC0415  # few commands need it

        backend = await self._resources.backend()
        return await plan_undo(run_id, backend=backend, ledger=self._ledger, company=self._company)

    async def count_held(self) -> int:
        """Return how many pieces of the company's work wait for a person's decision."""
        counts = await self._resources.run(self._ledger.work.counts)
        return counts.get(self._company, WorkCounts()).held

    async def held(self) -> tuple[Run, ...]:
        """Return the runs that the removal guard holds, newest first; not those that propose groups.

        What a run proposes is decided by a person who has looked at it.
        """
        runs = await self.list(state=WorkState.HELD, limit=None)
        return tuple(run for run in runs if run.step is not RunStep.ADOPTION)

    @operation(f"POST {_ONE}/release", Verb.MAINTAIN, confirms=True, tool="release_maintenance_run")
    async def release(
        self,
        run_id: RunId,
        *,
        plan: Annotated[
            StoredKey | None,
            Field(description="The version of the plan that was read; refused where it is another one now."),
        ] = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> Release:
        """Approve what a held run's plan showed; a run whose plan has grown since is held again.

        Raises MemoryNotFoundError; MemoryConflictError where the plan is no longer the version that is named;
        MemoryInputError when it is not held, or its agent has another open run.
        """
        run = await self.get(run_id)
        is_shown = plan is not None and run.state is WorkState.HELD
        if is_shown and (await self.plan_held(run_id)).version != plan:
            raise MemoryConflictError("plan: has changed since it was shown; look at it again")
        (released,) = await self._released([run], by, reason, skips=False)
        return released

    async def release_all(
        self, runs: Sequence[Run] | None = None, *, by: str | None = None, reason: str | None = None
    ) -> tuple[Release, ...]:
        """Approve these held runs, or all; one that cannot be released now says why, and the others are."""
        return await self._released(await self.held() if runs is None else runs, by, reason, skips=True)

    @operation(f"POST {_ONE}/groups:adopt", Verb.MAINTAIN, confirms=True, shows=GroupInfo, under="groups")
    async def adopt(
        self, run_id: RunId, *, groups: Places = None, by: str | None = None, reason: str | None = None
    ) -> tuple[ConsolidationGroup, ...]:
        """Adopt groups that a held run proposes: a worker replaces their memories, if they are still as shown.

        Returns the run's groups. Raises MemoryNotFoundError, MemoryInputError.
        """
        return await self._decided(run_id, GroupState.APPROVED, groups, by, reason)

    @operation(f"POST {_ONE}/groups:dismiss", Verb.MAINTAIN, confirms=True, shows=GroupInfo, under="groups")
    async def dismiss_groups(
        self, run_id: RunId, *, groups: Places = None, by: str | None = None, reason: str | None = None
    ) -> tuple[ConsolidationGroup, ...]:
        """Decide against groups that a held run proposes, and return the run's groups.

        Raises MemoryNotFoundError, MemoryInputError.
        """
        return await self._decided(run_id, GroupState.DISMISSED, groups, by, reason)

    @operation(f"POST {_ONE}/dismiss", Verb.MAINTAIN, confirms=True, shows=RunInfo, tool="dismiss_maintenance_run")
    async def dismiss(self, run_id: RunId, *, by: str | None = None, reason: str | None = None) -> Run:
        """Decide against a held run: it removes nothing more. The agent's next run looks again.

        Raises MemoryNotFoundError, MemoryInputError.
        """
        run = await self.get(run_id)
        note = done_by(by, "runs.dismiss", run.run_id, reason=reason)
        return await self._ask(self._ledger.runs.dismiss, run_id, by=note.actor, note=note)

    @operation("GET /maintenance", Verb.READ, under="is_paused")
    async def is_paused(self) -> bool:
        """Return whether the maintenance of the whole company is paused."""
        return await self._ask(self._ledger.companies.paused)

    @operation("POST /maintenance/pause", Verb.MAINTAIN)
    async def pause_all(self, *, by: str | None = None, reason: str | None = None) -> None:
        """Stop all maintenance of the company now; storing and searching go on."""
        await self._ask(self._ledger.companies.pause)
        await self._resources.note_given(by, "maintenance.pause", self._company, reason=reason)

    @operation("POST /maintenance/resume", Verb.MAINTAIN)
    async def resume_all(self, *, by: str | None = None, reason: str | None = None) -> None:
        """Let the company's maintenance go on, and dispatch what waits."""
        ledger, company = self._ledger, self._company

        def resumed() -> Sequence[WorkItem]:
            ledger.companies.resume(company)
            ledger.work.hasten(company)
            return ledger.work.take_due(company=company, limit=DISPATCHED_ON_RESUME)

        items = await self._resources.run(resumed)
        await self._resources.note_given(by, "maintenance.resume", company, reason=reason)
        await self._resources.dispatch(items)

    async def _released(
        self, held: Sequence[Run], by: str | None, reason: str | None, *, skips: bool
    ) -> tuple[Release, ...]:
        rows, items = list[Release](), list[WorkItem]()
        for run in held:
            note, problem = done_by(by, "runs.release", run.run_id, reason=reason), None
            try:
                items.append(await self._ask(self._ledger.runs.approve_held, run.run_id, note=note))
            except MemoryInputError as error:
                # Its agent is at work, or somebody has decided about it meanwhile: the others are released.
                if not skips:
                    raise
                problem = str(error)
            rows.append(Release(**planned_removals(run), released=problem is None, reason=problem))
        await self._resources.dispatch(items)
        return tuple(rows)

    async def _decided(
        self,
        run_id: str,
        state: Literal[GroupState.APPROVED, GroupState.DISMISSED],
        places: Sequence[int] | None,
        by: str | None,
        reason: str | None,
    ) -> tuple[ConsolidationGroup, ...]:
        run, ledger = await self.get(run_id), self._ledger
        action = "runs.adopt" if state is GroupState.APPROVED else "runs.dismiss"
        note = done_by(by, action, run.run_id, reason=reason)

        def decided() -> WorkItem:
            wanted = list(places) if places else None
            return ledger.runs.decide_groups(self._company, run_id, state, by=note.actor, places=wanted, note=note)

        item = await self._resources.run(decided)
        groups = await self._ask(ledger.consolidation_groups.of_run, run_id)
        await self._resources.dispatch([item])
        return tuple(groups)


def planned_removals(run: Run) -> dict[str, Any]:
    """Return what a held run's plan said; without figures where an earlier release held it."""
    consolidated, enforced = (run.counts.get(name) for name in (PLANNED_MERGED, PLANNED_ENFORCED))
    return {"run_id": run.run_id, "agent_id": run.agent_id, "consolidated": consolidated, "enforced": enforced}


def found_run(run: Run | None) -> Run:
    """Return the run. Raises MemoryNotFoundError where there is none."""
    if run is None:
        raise MemoryNotFoundError("run_id: names no run that is still known; see `memtend runs list`")
    return run

"""Distrust: a source is not trusted any more; all that ever came of it is hidden, and can be trusted again."""

import json
import time
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field

from memcore.erasure.checkpoints import TrainedCheckpoints
from memcore.erasure.receipt import DistrustReport, signed, verified
from memcore.errors import MemoryConflictError, MemoryConnectionError
from memcore.ledger.access.distrusts import MAX_PAGE, Distrust
from memcore.ledger.access.keys import Verb
from memcore.ledger.erasure.hidden import distrusted_skills, fallen_skills
from memcore.ledger.organization.audit import Confirmation
from memcore.ledger.work_items import OPEN_STATES, WorkState
from memcore.maintenance.distrust import FOUND_WITHIN, DistrustSearch, Watch
from memcore.models.base import Frozen
from memcore.models.distrust import DistrustRule
from memcore.models.memory import BoundedTime
from memcore.service.operation import operation
from memcore.service.resources import CompanyPart, check_page

_ONE = "/distrusts/{distrust_id}"

#: What a report has of a distrust.
_REPORTED = ("distrust_id", "rule", "reason", "by", "at", "completed_at", "lifted_at")


class DistrustedAgent(Frozen):
    """What came of a source in one agent.

    Attributes:
        memories: of it, or made of it, wherever they are now: these are hidden.
        in_store: how many of them are in the store.
        brought_back: memories that are not of it and that its merges have taken: these come back.
    """

    agent_id: str
    memories: int
    in_store: int
    brought_back: int


class DistrustPlan(Frozen):
    """What came of a source, by agent; an agent that has nothing of it is left out.

    Attributes:
        skills: the skills of it that stand, each with those that readers get instead: the newest trusted ones that it
            has replaced.
    """

    agents: tuple[DistrustedAgent, ...]
    skills: dict[str, tuple[str, ...]]


class DistrustView(Frozen):
    """A distrust in force, or lifted.

    Attributes:
        completed_at: when all that came of it was found; null while that goes on, or where it was cut off.
        lifted_at: since when it is trusted again.
    """

    distrust_id: str
    rule: DistrustRule
    reason: str
    by: str
    at: BoundedTime
    completed_at: BoundedTime | None
    lifted_at: BoundedTime | None
    lifted_by: str | None

    @classmethod
    def of(cls, distrust: Distrust) -> Self:
        """Return what is shown of a distrust."""
        return cls(**distrust.model_dump(exclude={"company", "rule"}), rule=distrust.rule)


class DistrustDetail(Frozen):
    """A distrust with what came of it.

    Attributes:
        memories: the ids of what is hidden, by agent.
        skills: as a plan has them.
        runs: the runs that brought clean memories back out of merges; the trust undoes them.
    """

    distrust: DistrustView
    memories: dict[str, tuple[str, ...]]
    skills: dict[str, tuple[str, ...]]
    runs: tuple[str, ...]


class DistrustOperations(CompanyPart):
    """Distrusts what came of a source, and trusts it again. Every call raises MemoryConnectionError.

    Attributes:
        watch: is called as a plan, a distrust or its completion goes on, with the agents looked at, and of how many.
    """

    watch: Watch | None = None

    @operation("POST /distrusts:plan", Verb.ADMIN, tool="plan_distrust")
    async def plan(self, rule: DistrustRule) -> DistrustPlan:
        """Return what a distrust would hide and bring back, also what another one hides; nothing is written."""
        search = await self._search()
        looks = search.looks(await search.agents(rule), rule)
        found = [each async for each in looks if each[-1].memory_ids]
        return DistrustPlan(
            agents=tuple(
                DistrustedAgent(
                    agent_id=agent_id,
                    memories=len(reach.memory_ids),
                    in_store=len(stored),
                    brought_back=len(reach.taken),
                )
                for agent_id, stored, reach in found
            ),
            skills=await self._fallen(rule, {agent_id: reach.memory_ids for agent_id, _, reach in found}),
        )

    @operation("POST /distrusts", Verb.ADMIN, status=201, shows=DistrustView, tool="distrust_source")
    async def distrust(self, rule: DistrustRule, *, confirmation: Confirmation) -> Distrust:
        """Hide all that came of a source from every reader at once, through any number of merges.

        Clean memories that merges have taken with it come back, by runs. What comes of it from now on is hidden too.
        Where all is not found within 10 seconds, ``completed_at`` is null, and workers find the rest.
        """
        added = await self._ask(self._ledger.distrusts.add, rule, confirmation)
        try:
            return await (await self._search()).complete(added, until=time.monotonic() + FOUND_WITHIN.total_seconds())
        except MemoryConnectionError:
            # It is in force, without completed_at: its caller must learn its name.
            return added

    @operation(f"POST {_ONE}/complete", Verb.ADMIN, shows=DistrustView)
    async def complete(self, distrust_id: str) -> Distrust:
        """Find again all that came of a source, however long it takes. Raises MemoryNotFoundError."""
        distrust = await self._ask(self._ledger.distrusts.get, distrust_id)
        return distrust if distrust.lifted_at is not None else await (await self._search()).complete(distrust)

    @operation("GET /distrusts", Verb.ADMIN, shows=DistrustView, under="distrusts", tool="list_distrusts")
    async def list(self, *, limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 20) -> tuple[Distrust, ...]:
        """Return what is not trusted, newest first; what was lifted too."""
        check_page(limit, MAX_PAGE)
        return await self._ask(self._ledger.distrusts.list, limit=limit)

    @operation(f"GET {_ONE}", Verb.ADMIN)
    async def get(self, distrust_id: str) -> DistrustDetail:
        """Return a distrust with the ids of what came of it. Raises MemoryNotFoundError."""
        distrust = await self._ask(self._ledger.distrusts.get, distrust_id)
        reached = await self._ask(self._ledger.distrusts.reached, distrust_id)
        runs = await self._ask(self._ledger.runs.restores_of, distrust_id)
        return DistrustDetail(
            distrust=DistrustView.of(distrust),
            memories={agent_id: tuple(sorted(reached[agent_id])) for agent_id in sorted(reached)},
            skills=await self._fallen(distrust.rule, reached),
            runs=tuple(each.run_id for each in runs),
        )

    @operation(f"GET {_ONE}/report", Verb.ADMIN)
    async def report(self, distrust_id: str) -> dict[str, Any]:
        """Return what came of a source, by id, signed by this installation: to keep, and to verify later.

        Raises MemoryNotFoundError.
        """
        whole = await self.get(distrust_id)
        back: dict[str, set[str]] = {}
        for run in await self._ask(self._ledger.runs.restores_of, distrust_id):
            for entry in await self._resources.run(self._ledger.lineage.of_run, run.run_id):
                back.setdefault(run.agent_id, set()).update(entry.incoming)
        trained = TrainedCheckpoints(self._ledger, company=self._company, home=self._resources.settings.home)
        report = DistrustReport(
            company=self._company,
            **{name: getattr(whole.distrust, name) for name in _REPORTED},
            memories=whole.memories,
            skills=whole.skills,
            brought_back={agent_id: tuple(sorted(back[agent_id])) for agent_id in sorted(back)},
            checkpoints=tuple(each.checkpoint_id for each in await self._resources.run(trained.find)),
        )
        key = await self._resources.run(self._ledger.signing_keys.signing)
        return dict(json.loads(signed(report, key)))

    async def verify(self, report: str) -> DistrustReport:
        """Return a report that this installation has signed. Raises MemoryInputError, MemoryConfigError."""
        return verified(report, await self._resources.run(self._ledger.signing_keys.all), DistrustReport)

    @operation(f"POST {_ONE}/lift", Verb.ADMIN, shows=DistrustView, tool="lift_distrust")
    async def lift(self, distrust_id: str, *, confirmation: Confirmation) -> Distrust:
        """Trust a source again: what came of it is shown, and what had come back out of merges goes there again.

        Raises MemoryNotFoundError; MemoryConflictError while a run brings memories back: lift it when that has ended.
        """
        await self._ask(self._ledger.distrusts.get, distrust_id)
        runs = await self._ask(self._ledger.runs.restores_of, distrust_id)
        if going_on := [each.run_id for each in runs if each.state in OPEN_STATES]:
            raise MemoryConflictError(
                f"distrust_id: run {going_on[0]} brings memories back; lift it when that has ended"
            )
        lifted = await self._ask(self._ledger.distrusts.lift, distrust_id, confirmation)
        for run in runs:
            if run.state is WorkState.DONE:
                await self._resources.client.undo(run.agent_id, run.run_id)
        return lifted

    async def _search(self) -> DistrustSearch:
        resources = self._resources
        return DistrustSearch(
            await resources.backend(),
            self._ledger,
            company=self._company,
            dispatcher=resources.dispatcher,
            clock=resources.clock,
            watch=self.watch,
        )

    async def _fallen(self, rule: DistrustRule, reached: Mapping[str, frozenset[str]]) -> dict[str, tuple[str, ...]]:
        versions = await self._ask(self._ledger.skills.versions)
        return fallen_skills(versions, distrusted_skills(versions, [rule], reached))

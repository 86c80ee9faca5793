"""Agents: who is known, their settings, the pause of their maintenance, their lessons and recorded questions."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import Field, TypeAdapter

from memcore.backends.deletion import naming_run
from memcore.errors import MemoryError, MemoryNotFoundError  # noqa: A004  # the reference fixes the name
from memcore.jobs import RecordedQuery
from memcore.ledger.access.keys import Verb
from memcore.ledger.agents import Agent, AgentSpec
from memcore.ledger.learning.lessons import MAX_PAGE as MOST_LESSONS
from memcore.ledger.learning.lessons import Lesson
from memcore.ledger.learning.skills import Applications
from memcore.ledger.monitoring.activity import AgentRun, RecentActivity
from memcore.ledger.organization.audit import Confirmation
from memcore.models.base import Frozen, naming_fields
from memcore.models.memory import BoundedTime, KnownAgentId
from memcore.models.memory_changes import ForgetReceipt
from memcore.records import Where
from memcore.service.memories import MemoryOperations
from memcore.service.operation import operation
from memcore.service.resources import CompanyPart, ServiceResources, check_page

#: Most agents of a page.
MAX_PAGE = 1_000

#: What people see of a lesson that nobody has drawn.
WAITING = "waiting"

_ONE = "/agents/{agent_id}"

_KNOWN_AGENT: TypeAdapter[str] = TypeAdapter(KnownAgentId)


class LessonInfo(Frozen):
    """A lesson of a task: neither its text, which is the memory's, nor its worker's lease.

    Attributes:
        outcome: one word, such as ``stored`` or ``low_confidence``, and ``waiting`` while nothing is decided.
        memory_id: the memory that says it: its own, or that of an earlier lesson which it repeats.
        task_id: the task that taught it; None where it is kept no longer.
        tries: how often a worker began to draw it.
        applications: how often an agent said that it applied the lesson; ``successes`` of them went well.
    """

    lesson_id: str
    agent_id: str
    outcome: str
    memory_id: str | None
    confidence: float | None
    task_id: str | None
    created_at: BoundedTime
    drawn_at: BoundedTime | None
    propagated_at: BoundedTime | None
    tries: int
    applications: int
    successes: int
    last_applied_at: BoundedTime | None

    @classmethod
    def of(cls, lesson: Lesson, applied: Applications | None) -> Self:
        """Return what is shown of a lesson."""
        return cls(
            **lesson.model_dump(exclude={"text", "token", "attempt", "outcome", "origin"}),
            outcome=lesson.outcome or WAITING,
            tries=lesson.attempt,
            applications=applied.applications if applied else 0,
            successes=applied.successes if applied else 0,
            last_applied_at=applied.last_applied_at if applied else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What an agent had and lost.

    Attributes:
        live: how many memories are in the store now whose time lies before each of the times; at the last one all.
        archived: how many lay in the archive at each.
        removed: when runs removed memories, what became of them, and how many; also those that came back.
    """

    live: tuple[int, ...]
    archived: tuple[int, ...]
    removed: tuple[tuple[datetime, str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What happened to an agent in a time.

    Attributes:
        stored: how many memories are in the store whose time lies from each of the times to the next.
        runs: its newest runs of that time, oldest first.
        undoable: those of them that can be undone.
    """

    stored: tuple[int, ...]
    runs: tuple[AgentRun, ...]
    undoable: frozenset[str]


class AgentOperations(CompanyPart):
    """Reads and changes a company's agents. Every call raises MemoryConnectionError when the ledger does not answer."""

    def __init__(self, resources: ServiceResources, memories: MemoryOperations) -> None:
        super().__init__(resources)
        self._memories = memories

    async def list(
        self, *, after: str | None = None, limit: int = MAX_PAGE, among: Collection[str] | None = None
    ) -> tuple[Agent, ...]:
        """Return 1 to 1,000 agents in the order of their ids; ``after`` is the last id of the page before.

        ``among`` names the only agents that are wanted. Raises MemoryInputError.
        """
        check_page(limit, MAX_PAGE)
        found = self._ledger.agents.list
        return await self._ask(found, after=after, limit=limit, among=among)

    async def count(self) -> int:
        """Return how many agents the company has."""
        return await self._ask(self._ledger.agents.count)

    async def every(self) -> tuple[Agent, ...]:
        """Return all agents in the order of their ids."""
        found: tuple[Agent, ...] = ()
        while page := await self.list(after=found[-1].agent_id if found else None):
            found += page
        return found

    async def known(self, agent_ids: Iterable[str]) -> tuple[Agent, ...]:
        """Return those of the agents that are known, in the order given."""

        def found() -> tuple[Agent, ...]:
            rows = (self._ledger.agents.get(self._company, each) for each in agent_ids)
            return tuple(row for row in rows if row is not None)

        return await self._resources.run(found)

    @operation(f"GET {_ONE}", Verb.READ)
    async def get(self, agent_id: str) -> Agent:
        """Return an agent: its settings, and when its next maintenance is due.

        Raises MemoryInputError, MemoryNotFoundError.
        """
        with naming_fields(name="agent_id"):
            agent_id = _KNOWN_AGENT.validate_python(agent_id)
        found = await self._ask(self._ledger.agents.get, agent_id)
        if found is None:
            raise MemoryNotFoundError(f"agent_id: {agent_id!r} is not known; add it with `memtend agents add`")
        return found

    async def add(self, agent_id: str, settings: Mapping[str, Any]) -> Agent:
        """Register an agent, or change its settings; those that are left out stay. Raises MemoryInputError.

        The settings are those of AgentSpec; None goes back to the company's value.
        """
        with naming_fields():
            spec = AgentSpec.model_validate({**settings, "company": self._company, "agent_id": agent_id})
        return await self._resources.run(self._ledger.agents.put, spec)

    async def set(self, agent_id: str, settings: Mapping[str, Any]) -> Agent:
        """Change the settings of an agent as ``add`` does. Raises MemoryInputError, MemoryNotFoundError."""
        with naming_fields():
            spec = AgentSpec.model_validate({**settings, "company": self._company, "agent_id": agent_id})
        await self.get(agent_id)
        return await self._resources.run(self._ledger.agents.put, spec)

    @operation(f"DELETE {_ONE}", Verb.ADMIN)
    async def remove(self, agent_id: str, confirmation: Confirmation) -> ForgetReceipt:
        """Forget all memories of an agent in one run, which can be undone, and take it off the schedule.

        Its next memory registers it anew. The undo of the run brings the memories back. Raises MemoryNotFoundError;
        MemoryStoreError while a run of the agent is removing memories, and then it stays on the schedule.
        """
        await self.get(agent_id)
        receipt = await self._memories.forget(agent_id, everything=True)
        note = confirmation.note("agents.remove", agent_id)
        with naming_run(receipt.run_id, receipt.forgotten):
            await self._ask(self._ledger.audit.note, note)
            await self._ask(self._ledger.agents.remove, agent_id)
            if await self._memories.count(agent_id):
                # Stored meanwhile, by a worker that still saw the agent.
                interval = self._resources.policy.memory.consolidation.interval
                await self._ask(self._ledger.agents.register, [agent_id], interval=interval)
        return receipt

    @operation(f"POST {_ONE}/pause", Verb.MAINTAIN)
    async def pause(self, agent_id: str, *, by: str | None = None, reason: str | None = None) -> None:
        """Pause an agent's maintenance: an active run stops before its next removal. Raises MemoryNotFoundError.

        With a name or a reason, the audit has it.
        """
        await self._ask(self._ledger.agents.pause, agent_id)
        await self._resources.note_given(by, "agents.pause", agent_id, reason=reason)

    @operation(f"POST {_ONE}/resume", Verb.MAINTAIN)
    async def resume(self, agent_id: str, *, by: str | None = None, reason: str | None = None) -> None:
        """Resume an agent's maintenance, and dispatch the run that waits. Raises MemoryNotFoundError."""
        await self._ask(self._ledger.agents.resume, agent_id)
        await self._resources.note_given(by, "agents.resume", agent_id, reason=reason)
        active = await self._ask(self._ledger.runs.active, agent_id)
        if active is not None:
            await self._resources.dispatch([await self._ask(self._ledger.runs.item, active.run_id)])

    async def is_paused(self, agent_id: str) -> bool:
        """Return whether the agent's runs wait until somebody resumes its, or the company's, maintenance."""
        agent = await self._ask(self._ledger.agents.get, agent_id)
        if agent is not None and agent.paused:
            return True
        return await self._ask(self._ledger.companies.paused)

    async def recent(
        self, *, since: datetime, most: int, among: Collection[str] | None = None
    ) -> tuple[RecentActivity, dict[str, int]]:
        """Return what happened since a time to at most so many agents, and how many memories each stored.

        Stored are those that are in the store still; without an answer of the store they are left out.
        """
        hidden = (await self._resources.hidden()).agents
        found = await self._ask(self._ledger.activity.recent, since=since, most=most, among=among, without=hidden)
        names = [each.agent_id for each in found.agents]
        try:
            counts = await self._counted([Where(agent_id=name, created_since=since) for name in names])
        except MemoryError:
            # The ledger's part is looked at most when another part does not answer.
            return found, {}
        return found, dict(zip(names, counts, strict=True))

    async def growth(self, agent_id: str, times: Sequence[datetime]) -> Growth:
        """Return what an agent had at these times, in order, and lost from the first to the last of them.

        Raises MemoryNotFoundError where the agent is being erased.
        """
        await self._refuse_hidden(agent_id)
        activity = self._ledger.activity
        return Growth(
            live=await self._counted(
                [*(Where(agent_id=agent_id, created_before=each) for each in times[:-1]), Where(agent_id=agent_id)]
            ),
            archived=await self._ask(activity.archived_at, agent_id, times),
            removed=await self._ask(activity.removed, agent_id, since=times[0], until=times[-1]),
        )

    async def timeline(self, agent_id: str, times: Sequence[datetime], *, most: int) -> Timeline:
        """Return what happened to an agent from the first of these times to the last, at most so many runs.

        Raises MemoryNotFoundError where the agent is being erased.
        """
        await self._refuse_hidden(agent_id)
        between = [
            Where(agent_id=agent_id, created_since=one, created_before=None if two == times[-1] else two)
            for one, two in pairwise(times)
        ]
        activity = self._ledger.activity
        runs = await self._ask(activity.runs_between, agent_id, since=times[0], until=times[-1], most=most)
        undoable = await self._resources.run(activity.undoable, [each.run_id for each in runs])
        return Timeline(stored=await self._counted(between), runs=runs, undoable=undoable)

    async def began_at(self, agent_id: str) -> datetime | None:
        """Return the time of an agent's first memory in the store, or of its first run, whichever is older."""
        await self._refuse_hidden(agent_id)
        page = await self._memories.list(agent_id, limit=1)
        first = await self._ask(self._ledger.activity.first_run_at, agent_id)
        return min((*(each.created_at for each in page.entries), *([] if first is None else [first])), default=None)

    async def _counted(self, wanted: Sequence[Where]) -> tuple[int, ...]:
        backend = await self._resources.backend()
        return tuple(await asyncio.gather(*(backend.count_where(each) for each in wanted)))

    async def _refuse_hidden(self, agent_id: str) -> None:
        if agent_id in (await self._resources.hidden()).agents:
            raise MemoryNotFoundError("agent: is being erased; see `memtend erase list`")

    @operation(f"GET {_ONE}/lessons", Verb.READ, under="lessons")
    async def lessons(
        self, agent_id: str, *, limit: Annotated[int, Field(ge=1, le=MOST_LESSONS)] = 20
    ) -> tuple[LessonInfo, ...]:
        """Return the lessons of an agent's tasks, newest first, with how often each was applied.

        Raises MemoryInputError, MemoryNotFoundError.
        """
        check_page(limit, MOST_LESSONS)
        hidden = await self._resources.hidden()
        if agent_id in hidden.agents:
            return ()
        found = await self._ask(self._ledger.lessons.page, agent_id, limit=limit)
        if not found and await self._ask(self._ledger.agents.get, agent_id) is None:
            raise MemoryNotFoundError(f"agent: {agent_id!r} is not known; `memtend agents list` says who is")
        found = tuple(each for each in found if not hidden.distrusts_lesson(each) and self._is_shown(each.origin))
        learned = [each.memory_id for each in found if each.memory_id]
        applied = await self._ask(self._ledger.skills.applications, learned)
        return tuple(LessonInfo.of(each, applied.get(each.memory_id or "")) for each in found)

    async def lesson_outcomes(self) -> dict[str, int]:
        """Return how many lessons of all agents ended how; ``waiting`` are those that nobody has drawn."""
        counts = await self._ask(self._ledger.lessons.outcomes)
        return {outcome or WAITING: count for outcome, count in counts.items()}

    async def questions(self, agent_id: str) -> tuple[RecordedQuery, ...]:
        """Return an agent's recorded questions, newest first."""
        if agent_id in (await self._resources.hidden()).agents:
            return ()
        return tuple(await self._ask(self._ledger.recorded_queries.of, agent_id))

    async def forget_questions(self, agent_id: str) -> int:
        """Delete an agent's recorded questions, and return how many there were."""
        return await self._ask(self._ledger.recorded_queries.forget, agent_id)

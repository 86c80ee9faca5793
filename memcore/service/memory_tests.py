"""Memory tests that are registered: maintenance respects them, and asks them after each run."""

from collections.abc import Collection
from datetime import datetime
from typing import Annotated, Self

from pydantic import Field

from memcore.errors import MemoryInputError, MemoryStoreError
from memcore.ledger.access.keys import Verb
from memcore.ledger.monitoring.activity import RunTests
from memcore.ledger.monitoring.memory_tests import MOST_OF_AGENT, MOST_OF_COMPANY, RegisteredTest
from memcore.ledger.organization.audit import done_by
from memcore.models.base import Frozen
from memcore.models.conversation import USER
from memcore.models.memory import AgentId, BoundedTime, Key
from memcore.models.memory_test import MemoryTest, Outcome
from memcore.service.operation import operation
from memcore.service.resources import CompanyPart

#: Names of tests.
Names = Annotated[
    tuple[Key, ...] | None, Field(min_length=1, max_length=MOST_OF_AGENT, description="Left out, all of the agent's.")
]


class RegisteredTestInfo(Frozen):
    """A registered test, and what came of it last.

    Attributes:
        outcome: passed, failed or error; null while no run has moved memories since. Prompts and facts are not asked.
        reasons: what was expected and was there instead, a sentence each.
        run_id: the run after which it was asked.
    """

    agent_id: str
    name: str
    test: MemoryTest
    registered_at: BoundedTime
    outcome: Outcome | None
    reasons: tuple[str, ...]
    run_id: str | None
    asked_at: BoundedTime | None

    @classmethod
    def of(cls, registered: RegisteredTest) -> Self:
        """Return what is shown of a registered test."""
        return cls(**{name: getattr(registered, name) for name in cls.model_fields})


class Registration(Frozen):
    """What came of a registration.

    Attributes:
        registered: how many tests were given.
        changed: how many of them are new, or other than before; these lose their results.
    """

    registered: int
    changed: int


class MemoryTestOperations(CompanyPart):
    """Registers a company's memory tests. Every call raises MemoryConnectionError when the ledger does not answer.

    ``by`` and ``reason`` go into the audit.
    """

    @operation("POST /memory-tests", Verb.ADMIN, status=201)
    async def register(
        self,
        tests: Annotated[tuple[MemoryTest, ...], Field(min_length=1, max_length=MOST_OF_COMPANY)],
        *,
        by: str | None = None,
        reason: str | None = None,
    ) -> Registration:
        """Register memory tests: maintenance leaves a group as it is whose summary would break one.

        Each takes the place of the agent's test with its name; all are registered, or none. Raises MemoryInputError
        for more than 1,000 of an agent or 10,000 of the company; MemoryStoreError while an agent is being erased.
        """
        if len({(each.agent, each.name) for each in tests}) < len(tests):
            raise MemoryInputError("tests", "have one name twice; an agent's tests have different names")
        agents, hidden = sorted({each.agent for each in tests}), await self._resources.hidden()
        if erased := [each for each in agents if each in hidden.agents]:
            raise MemoryStoreError(f"tests: agent {erased[0]} is being erased; nothing was registered")
        notes = [done_by(by, "memory_tests.register", each, reason=reason) for each in agents]
        changed = await self._ask(self._ledger.memory_tests.register, tests, notes=notes)
        return Registration(registered=len(tests), changed=changed)

    @operation("GET /memory-tests", Verb.READ, shows=RegisteredTestInfo, under="tests")
    async def list(self, *, agent_id: str | None = None) -> tuple[RegisteredTest, ...]:
        """Return the registered tests by agent and name, with what came of each last; of all agents, or of one."""
        hidden = await self._resources.hidden()
        found = await self._ask(self._ledger.memory_tests.list, agent_id)
        return tuple(each for each in found if not hidden.hides(each.agent_id, f"{USER}{each.test.person}"))

    async def failed(self, *, among: Collection[str] | None = None) -> int:
        """Return how many tests failed when they were asked last; of these agents alone where any are named."""
        hidden = await self._resources.hidden()
        found = await self._ask(self._ledger.memory_tests.failed_of, among)
        return sum(not hidden.hides(agent_id, f"{USER}{person}") for agent_id, person in found)

    async def history(
        self, *, since: datetime, most: int, agent_id: str | None = None, among: Collection[str] | None = None
    ) -> tuple[RunTests, ...]:
        """Return what came of tests behind runs since a time, newest first; of one agent, or of these alone."""
        hidden = (await self._resources.hidden()).agents
        agents = among if agent_id is None else [agent_id]
        return await self._ask(self._ledger.activity.tested, since=since, most=most, among=agents, without=hidden)

    @operation("POST /memory-tests:remove", Verb.ADMIN)
    async def remove(
        self, agent: AgentId, *, names: Names = None, by: str | None = None, reason: str | None = None
    ) -> tuple[str, ...]:
        """Remove an agent's registered tests by name, or all of them, and return the names of those that were there.

        A group that was left as it is for one of them is judged anew by the agent's next run.
        """
        note = done_by(by, "memory_tests.remove", agent, reason=reason)
        return await self._ask(self._ledger.memory_tests.remove, agent, names, note=note)

"""What another policy would do: the next run of an agent under each of two policies, compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, cast

from memcore.backends.factory import WorkerBackend
from memcore.backends.protocol import MemoryBackend, VectorBackend, pages, vector_backend_of
from memcore.clock import Clock, utc_now
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.evaluation.asking import LastUse
from memcore.jobs import RecordedQuery
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import RunStep
from memcore.maintenance.outlook import Outlook
from memcore.maintenance.registered import ProbingTests
from memcore.maintenance.service import MaintenanceService
from memcore.maintenance.shadow import ShadowMemories
from memcore.models.base import Frozen
from memcore.records import ArchivedCopy, Where
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.repetitions import Repetitions

#: Recorded questions of an agent that are asked again, the newest.
QUESTIONS = 50


class ExpectedRun(Frozen):
    """What the next run would do to an agent's memories under a policy.

    Attributes:
        expired: memories that retention and the pruning of lessons would remove.
        merged, summaries: memories that would be merged, and those that would stand for them.
        over_limit: memories over the agent's limit that would be archived.
        after: memories that there would be.
        refused: groups that the gate would leave as they are.
        asking: groups about which a language model would be asked first; not counted as merged.
        stops: why the run would be held or wait after retention, one sentence; None where it would come to its end.
    """

    expired: int
    merged: int
    summaries: int
    over_limit: int
    after: int
    refused: int
    asking: int
    stops: str | None

    @classmethod
    def of(cls, outlook: Outlook) -> Self:
        """Count what an outlook names."""
        return cls(
            expired=outlook.removed_by(RunStep.RETENTION),
            merged=outlook.removed_by(RunStep.CONSOLIDATION),
            summaries=len(outlook.summaries),
            over_limit=outlook.removed_by(RunStep.ENFORCEMENT),
            after=outlook.after,
            refused=outlook.refused,
            asking=outlook.asking,
            stops=outlook.stops,
        )


class WhatIf(Frozen):
    """An agent's next run under the policy in force (``now``) and under another (``then``).

    Attributes:
        live: memories that are there.
        questions: recorded questions that were asked of what each run would leave, as prompts under its policy.
        more, fewer: questions for which ``then`` shows more, or fewer, of the memories that were shown when they were
            asked; what stands for a memory counts as the memory.
        tests: registered memory tests that were asked of what each run would leave.
        broken, mended: names of those that fail after ``then`` alone, and of those that fail after ``now`` alone.
    """

    agent_id: str
    live: int
    now: ExpectedRun
    then: ExpectedRun
    questions: int = 0
    more: int = 0
    fewer: int = 0
    tests: int = 0
    broken: tuple[str, ...] = ()
    mended: tuple[str, ...] = ()


class _Left(NamedTuple):
    """What is found in the memories that a run leaves: of each question how many, and which tests pass."""

    found: list[int]
    passing: Mapping[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfs:
    """Compares two policies for the agents of a company.

    Store and embedder stay as they are, whatever the policies say of them.

    Args:
        backend: connected.
        now, then: the policy in force, and the other one.
        questions: recorded questions of an agent that are asked again, the newest.
    """

    settings: Settings
    backend: WorkerBackend
    ledger: Ledger
    now: Policy
    then: Policy
    questions: int = QUESTIONS
    clock: Clock = utc_now

    async def of(self, agent_id: str) -> WhatIf:
        """Compare the next run of an agent. Raises MemoryRetrievalError, MemoryConnectionError, MemoryConfigError."""
        before, after = [await self._service(each).foresee(agent_id) for each in (self.now, self.then)]
        one, other = await self._asked(agent_id, before, after)
        compared = list(zip(one.found, other.found, strict=True))
        return WhatIf(
            agent_id=agent_id,
            live=before.live,
            now=ExpectedRun.of(before),
            then=ExpectedRun.of(after),
            questions=len(compared),
            more=sum(now < then for now, then in compared),
            fewer=sum(now > then for now, then in compared),
            tests=len(one.passing),
            broken=tuple(name for name, passes in one.passing.items() if passes and not other.passing[name]),
            mended=tuple(name for name, passes in one.passing.items() if other.passing[name] and not passes),
        )

    def _service(self, policy: Policy) -> MaintenanceService:
        return MaintenanceService.configured(
            self.settings,
            policy,
            self.backend,
            self.ledger,
            has_model=self.settings.llm_url is not None,
            clock=self.clock,
        )

    async def _asked(self, agent_id: str, before: Outlook, after: Outlook) -> tuple[_Left, _Left]:
        queries = self.ledger.recorded_queries.of(self.settings.company, agent_id)[: self.questions]
        vectors = vector_backend_of(self.backend)
        if vectors is None:
            return _Left([], {}), _Left([], {})
        repetitions = Repetitions()
        if queries:
            async for page in pages(self.backend, Where(agent_id=agent_id)):
                repetitions.add(page)
        # A prompt shows once what several memories say.
        said_by = {each: group.kept for group in repetitions.groups() for each in group.repeated}
        return (
            await self._left(vectors, queries, before, self.now, said_by),
            await self._left(vectors, queries, after, self.then, said_by),
        )

    async def _left(
        self,
        vectors: VectorBackend,
        queries: Sequence[RecordedQuery],
        outlook: Outlook,
        policy: Policy,
        said_by: Mapping[str, str],
    ) -> _Left:
        agent_id = outlook.snapshot.agent_id
        shadow = await ShadowMemories.of(vectors, agent_id)
        asked_for = sorted({each for query in queries for each in query.memory_ids})
        # The shadow reads the newest memories alone.
        await shadow.add(await self.backend.get_many(agent_id, asked_for, with_vectors=True))
        stands_for = await _run(shadow, outlook)
        texts = {each.entry.id: each.entry.content for draft in outlook.adopted for each in draft.found}
        tests = await ProbingTests.of(outlook.snapshot, shadow, texts)
        await shadow.ask({query.question: () for query in queries})
        shown = LastUse()
        prompts = ContextInjectionStrategy.from_policy(
            _without_model(policy), backend=cast("MemoryBackend", shadow), use_recorder=shown, clock=self.clock
        )
        # One budget for both: a larger one shows more, and is no better memory.
        budget = self.now.memory.consolidation.gate.prompt_tokens
        found: list[int] = []
        for query in queries:
            await prompts.prepare_messages(agent_id, query.question, budget)
            used = set(shown.taken())
            alike = ({each, said_by.get(each, each)} for each in query.memory_ids)
            any_of = (one | {stands_for.get(each, each) for each in one} for one in alike)
            found.append(sum(not used.isdisjoint(each) for each in any_of))
        return _Left(found, tests.passing)


async def _run(shadow: ShadowMemories, outlook: Outlook) -> Mapping[str, str]:
    """Let the shadow be what a run leaves; return the memories that stand for others, by these."""
    stands_for: dict[str, str] = {}
    snapshot = outlook.snapshot
    for draft in outlook.adopted:
        summary = draft.verdict.summary if draft.verdict else draft.summary
        assert summary is not None  # noqa: S101  # for the type checker: what is adopted has one
        await shadow.add([*draft.found, summary])
        stands_for |= {each.entry.id: summary.entry.id for each in draft.found}
        if snapshot.policy.archival.enabled and not summary.is_lossless:
            copies = [
                ArchivedCopy(archival_id=each.entry.id, summary_id=summary.entry.id, record=each)
                for each in draft.found
            ]
            await shadow.index_archived(snapshot.agent_id, copies)
        else:
            shadow.hide([each.entry.id for each in draft.found])
    shadow.hide([each for each, step in outlook.gone.items() if step is not RunStep.CONSOLIDATION])
    return stands_for


def _without_model(policy: Policy) -> Policy:
    memory = policy.memory
    without = memory.model_copy(update={"retrieval": memory.retrieval.without_model()})
    return policy.model_copy(update={"memory": without})

"""Registered memory tests: whether a summary breaks one that its memories passed, and what comes of all after a run."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from time import monotonic
from types import MappingProxyType
from typing import Self

from memcore.backends.protocol import MemoryBackend
from memcore.company import CompanyContext
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.ledger.ledger import Ledger
from memcore.ledger.monitoring.memory_tests import RegisteredTest
from memcore.maintenance.rules import AgentSnapshot
from memcore.maintenance.shadow import ShadowMemories
from memcore.models.memory import MemoryEntry, MemoryQuery
from memcore.models.memory_test import MemoryTest, NamedMemory, Outcome, failures, folded
from memcore.models.origin import Authority, Channel, authority
from memcore.records import MemoryRecord

#: Longest time that the tests after a run take; those that are left come first after the next one.
_LONGEST = timedelta(minutes=1)


def following(ledger: Ledger, company: str, agent_id: str, tests: Iterable[MemoryTest]) -> tuple[MemoryTest, ...]:
    """Return the tests with the texts of archived memories in the place of their ids.

    Every merge archives what it takes, so a test by id asks for the text of the memory from then on.
    """
    tests = tuple(tests)
    found = {
        each.id: ledger.archive.find(company, agent_id, each.id) for test in tests for each in test.named if each.id
    }
    texts = {
        memory_id: archived.record.entry.content
        for memory_id, archived in found.items()
        if archived is not None and archived.returned_at is None and archived.record.entry.id == memory_id
    }
    return tuple(test.following(texts) for test in tests)


class _Probed:
    """A test with what the shadow shows for it."""

    def __init__(self, test: MemoryTest) -> None:
        query = MemoryQuery(text=test.question)
        self.query = query if test.limit is None else query.model_copy(update={"limit": test.limit})
        self.least = test.min_authority or Authority.REFERENCE
        self.follow(test)
        self.show(())

    def follow(self, test: MemoryTest) -> None:
        # What else it expects no ranking says: its results behind the run do.
        self.test = test.model_copy(update={"shows_nothing": False, "authority": None})
        self._wanted = _Names((*test.finds, *test.order))
        self._minded = _Names((*test.shows_not, *test.order))

    def show(self, shown: Sequence[MemoryEntry]) -> None:
        """Take what a search shows for it."""
        self.passes = not any(failures(self.test, shown))
        self._shown = {each.id: each for each in shown}
        last = shown[-1] if len(shown) == self.query.limit else None
        is_tight = last is not None and self._wanted.are_among([last], folded(last.content))
        self._tight = last.id if last is not None and is_tight else None

    def without(self, source_ids: Collection[str]) -> tuple[MemoryEntry, ...] | None:
        """Return what it still shows where some of it goes; None where nothing of it goes."""
        if self._shown.keys().isdisjoint(source_ids):
            return None
        return tuple(each for memory_id, each in self._shown.items() if memory_id not in source_ids)

    def may_break(self, left: Sequence[MemoryEntry]) -> bool:
        """Whether it passed, and what is left does not do: or something that must not be shown may move up."""
        return self.passes and (bool(self.test.shows_not) or any(failures(self.test, left)))

    def wants(self, sources: Sequence[MemoryEntry], said: str) -> bool:
        """Whether it fails, and may pass by one of these memories, which no search has seen yet."""
        return not self.passes and self._wanted.are_among(sources, said)

    def minds(self, summary: MemoryEntry, said: str, shadow: ShadowMemories) -> bool:
        """Whether a summary may stand where it must not, or take the last place from what the test finds."""
        if not self.passes:
            return False
        if self._minded.are_among([summary], said):
            return True
        return self._tight is not None and shadow.may_pass(self.test.question, summary.id, before=self._tight)


class _Names:
    """What a list of named memories looks for."""

    def __init__(self, named: Sequence[NamedMemory]) -> None:
        self._names = {name for each in named for name in (each.id, each.key) if name is not None}
        self._texts = tuple(folded(each.text) for each in named if each.text is not None)
        self._patterns = tuple(each for each in named if each.pattern is not None)

    def are_among(self, entries: Sequence[MemoryEntry], said: str) -> bool:
        """Return whether one of the memories is meant, which say this together."""
        if any(text in said for text in self._texts) or any(each.is_said(said) for each in self._patterns):
            return True
        return bool(self._names) and any(each.id in self._names or each.key in self._names for each in entries)


class ProbingTests:
    """An agent's registered tests, asked of a shadow before and after each replacement.

    Asked are those that say what a search finds, shows not, or in which order, but for the past (``as_of``). All are
    searched for once; again only where a group takes what a test passes by, has what it misses, or where its summary
    may stand where the test minds it. A test that fails before a replacement is broken by none.
    """

    def __init__(self, tests: Iterable[MemoryTest], shadow: ShadowMemories, snapshot: AgentSnapshot) -> None:
        self._probed = [_Probed(each) for each in tests]
        self._shadow = shadow
        self._snapshot = snapshot
        #: By its place, what each test shows without the memories of a group, and what a search found instead.
        self._left: dict[int, tuple[MemoryEntry, ...]] = {}
        self._looked: dict[int, tuple[MemoryEntry, ...]] = {}
        self._texts: Mapping[str, str] = {}

    @classmethod
    async def of(
        cls, snapshot: AgentSnapshot, shadow: ShadowMemories, texts: Mapping[str, str] = MappingProxyType({})
    ) -> Self:
        """Read the agent's tests, and search for all; their questions are embedded in one batch.

        ``texts`` are those of memories that a summary has replaced in the shadow: tests by their ids follow them.
        """
        ledger, company, agent_id = snapshot.ledger, snapshot.company, snapshot.agent_id
        every = [each.test for each in ledger.memory_tests.list(company, agent_id)]
        asked = [each for each in every if each.named and each.as_of is None]
        tests = [each.following(texts) for each in following(ledger, company, agent_id, asked)]
        made = cls(tests, shadow, snapshot)
        if asked:
            await shadow.keep({each.test.question for each in made._probed})
        for each in made._probed:
            each.show(made._searched(each))
        return made

    @property
    def passing(self) -> Mapping[str, bool]:
        """By the name of each test, whether it passes."""
        return {each.test.name: each.passes for each in self._probed}

    async def add(self, sources: Sequence[MemoryRecord]) -> None:
        """Add a group's memories to the shadow, and search for what may be found by those that were not there."""
        fresh = [each.entry for each in sources if each not in self._shadow]
        await self._shadow.add(sources)
        said = "\n".join(folded(each.content) for each in fresh)
        for each in self._probed if fresh else ():
            if each.wants(fresh, said):
                each.show(self._searched(each))

    def broken_by(self, sources: Sequence[MemoryRecord], summary: MemoryRecord) -> tuple[str, ...]:
        """Return the names of the tests that a summary breaks, now that it is in the place of its sources.

        A test that names one of these by its id is met where its text is shown, word for word.
        """
        said, entries = folded(summary.entry.content), [each.entry for each in sources]
        self._texts = {each.id: each.content for each in entries}
        left = {place: each.without(self._texts) for place, each in enumerate(self._probed)}
        self._left = {place: entries for place, entries in left.items() if entries is not None}
        self._looked = {
            place: self._searched(each)
            for place, each in enumerate(self._probed)
            if each.minds(summary.entry, said, self._shadow)
            or (place in self._left and each.may_break(self._left[place]))
        }
        looked = ((self._probed[place].test, shown) for place, shown in self._looked.items())
        return tuple(sorted(test.name for test, shown in looked if any(failures(test.following(self._texts), shown))))

    def adopt(self) -> None:
        """Keep what the tests show with the summary: it stays."""
        for place, shown in (self._left | self._looked).items():
            probed = self._probed[place]
            probed.follow(probed.test.following(self._texts))
            probed.show(shown)

    def _searched(self, probed: _Probed) -> tuple[MemoryEntry, ...]:
        authorities = self._snapshot.authorities
        found = self._shadow.best(probed.query)
        return tuple(each for each in found if authority(each.origin, authorities, each.raised).reaches(probed.least))


@dataclass(frozen=True, eq=False)
class RegisteredTests:
    """Asks agents' registered tests what searches find now, and keeps what came of each.

    Prompts (``tokens``) and facts are asked by ``memtend test run`` alone.
    """

    backend: MemoryBackend
    ledger: Ledger
    _: KW_ONLY
    company: str
    authorities: Mapping[Channel, Authority]

    @classmethod
    def of(cls, context: CompanyContext) -> Self:
        """Build the service of a worker's company."""
        authorities = context.policy.memory.origins.authority
        return cls(context.backend, context.ledger, company=context.company, authorities=authorities)

    async def run(self, tests: Sequence[RegisteredTest], *, run_id: str) -> int:
        """Ask tests for a minute at most, and return how many were asked; a store that is away ends it.

        The run's counts have how many passed, failed and had no answer: of a test itself only the last result is kept.
        """
        until, results = monotonic() + _LONGEST.total_seconds(), list[RegisteredTest]()
        for each in tests:
            if not each.test.of_search:
                continue
            results.append((await self._asked(each)).model_copy(update={"run_id": run_id}))
            if results[-1].outcome is Outcome.ERROR or monotonic() > until:
                break
        self.ledger.memory_tests.keep(self.company, results)
        if results:
            found = Counter(f"tests_{each.outcome}" for each in results)
            self.ledger.runs.add_counts(self.company, run_id, {"tests_asked": len(results), **found})
        return len(results)

    async def _asked(self, registered: RegisteredTest) -> RegisteredTest:
        agent_id = registered.agent_id
        (test,) = following(self.ledger, self.company, agent_id, [registered.test])
        query = MemoryQuery(text=test.question, **test.filters)
        try:
            found = await self.backend.retrieve(agent_id, query.under(self.authorities))
        except MemoryError as error:
            reason = f"{type(error).__name__}: {error}"
            return registered.model_copy(update={"outcome": Outcome.ERROR, "reasons": (reason,)})
        hidden = self.ledger.hidden.of(self.company)
        shown = [each.with_authority(self.authorities) for each in found if not hidden.hides_memory(each)]
        reasons = tuple(failures(test, shown))
        result = {
            "outcome": Outcome.FAILED if reasons else Outcome.PASSED,
            "reasons": reasons,
            "memory_ids": tuple(each.id for each in shown if any(named.names(each) for named in test.named)),
        }
        return registered.model_copy(update=result)

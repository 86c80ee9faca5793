"""Registered memory tests as probes of the gate: whether a summary breaks one that its memories passed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from memcore.ledger.ledger import Ledger
from memcore.maintenance.rules import AgentSnapshot
from memcore.maintenance.shadow import ShadowMemories
from memcore.models.memory import MemoryEntry, MemoryQuery
from memcore.models.memory_test import MemoryTest, NamedMemory, failures, folded
from memcore.models.origin import Authority, authority
from memcore.records import MemoryRecord


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
        self.follow(test)
        query = MemoryQuery(text=test.question)
        self.query = query if test.limit is None else query.model_copy(update={"limit": test.limit})
        self.least = test.min_authority or Authority.REFERENCE
        self.shown: tuple[MemoryEntry, ...] = ()

    def follow(self, test: MemoryTest) -> None:
        # What else it expects no ranking says: its results behind the run do.
        self.test = test.model_copy(update={"shows_nothing": False, "authority": None})
        self._wanted = _Names.of((*test.finds, *test.order))
        self._unwanted = _Names.of((*test.shows_not, *test.order))
        self._named = _Names.of(test.named)

    @property
    def passes(self) -> bool:
        return not any(failures(self.test, self.shown))

    def is_about(self, sources: Sequence[MemoryEntry], said: str) -> bool:
        """Whether it names one of the sources, or forbids something and shows one: what is behind it moves up."""
        if self._named.are_among(sources, said):
            return True
        ids = {each.id for each in self.shown} if self.test.shows_not else frozenset()
        return any(each.id in ids for each in sources)

    def may_mind(self, summary: MemoryEntry, said: str, shadow: ShadowMemories) -> bool:
        """Whether a summary may stand where the test allows none of it, or take the last place from what it finds."""
        if self._unwanted.are_among([summary], said):
            return True
        last = self.shown[-1] if len(self.shown) == self.query.limit else None
        is_tight = last is not None and self._wanted.are_among([last], folded(last.content))
        return is_tight and last is not None and shadow.may_pass(self.test.question, summary.id, before=last.id)


class _Names:
    """What a list of named memories looks for."""

    def __init__(self, *, ids: frozenset[str], keys: frozenset[str], texts: tuple[str, ...]) -> None:
        self._ids = ids
        self._keys = keys
        self._texts = texts

    @classmethod
    def of(cls, named: Iterable[NamedMemory]) -> Self:
        every = tuple(named)
        return cls(
            ids=frozenset(each.id for each in every if each.id is not None),
            keys=frozenset(each.key for each in every if each.key is not None),
            texts=tuple(folded(each.text) for each in every if each.text is not None),
        )

    def are_among(self, entries: Sequence[MemoryEntry], said: str) -> bool:
        """Return whether one of the memories is meant, which say this together."""
        if any(text in said for text in self._texts):
            return True
        return any(each.id in self._ids or (each.key is not None and each.key in self._keys) for each in entries)


class ProbingTests:
    """An agent's registered tests, asked of a shadow before and after each replacement.

    Asked are those that say what a search finds, shows not, or in which order, but for the past (``as_of``). A test is
    searched for again only where a group has something that it names, or may take a place that it minds; all that it
    asked before stays as it was. A test that fails before a replacement is broken by none.
    """

    def __init__(self, tests: Iterable[MemoryTest], shadow: ShadowMemories, snapshot: AgentSnapshot) -> None:
        self._probed = [_Probed(each) for each in tests]
        self._shadow = shadow
        self._snapshot = snapshot
        self._about: list[_Probed] = []
        self._after: dict[int, tuple[MemoryEntry, ...]] = {}
        self._texts: Mapping[str, str] = {}

    @classmethod
    async def of(cls, snapshot: AgentSnapshot, shadow: ShadowMemories) -> Self:
        """Read the agent's tests, and search for all in one batch."""
        ledger, company, agent_id = snapshot.ledger, snapshot.company, snapshot.agent_id
        every = [each.test for each in ledger.memory_tests.list(company, agent_id)]
        asked = [each for each in every if each.named and each.as_of is None]
        made = cls(following(ledger, company, agent_id, asked), shadow, snapshot)
        if asked:
            await shadow.keep({each.test.question for each in made._probed})
        for each in made._probed:
            each.shown = made._searched(each)
        return made

    def note_before(self, sources: Sequence[MemoryRecord]) -> None:
        """Search for what a group may break, while its memories are there."""
        entries = [each.entry for each in sources]
        said = "\n".join(folded(each.content) for each in entries)
        self._texts = {each.id: each.content for each in entries}
        self._about = [each for each in self._probed if each.is_about(entries, said)]
        for each in self._about:
            each.shown = self._searched(each)

    def broken_by(self, summary: MemoryRecord) -> tuple[str, ...]:
        """Return the names of the tests that the group's summary breaks, now that it is in the place of its memories.

        A test that names one of the memories by its id is met where its text is shown, word for word.
        """
        said = folded(summary.entry.content)
        minding = [each for each in self._probed if each.may_mind(summary.entry, said, self._shadow)]
        looked = {id(each): each for each in (*self._about, *minding)}
        self._after = {key: self._searched(each) for key, each in looked.items()}
        return tuple(
            sorted(
                each.test.name
                for key, each in looked.items()
                if each.passes and any(failures(each.test.following(self._texts), self._after[key]))
            )
        )

    def adopt(self) -> None:
        """Keep what the tests show with the summary: it stays."""
        for each in self._probed:
            each.shown = self._after.get(id(each), each.shown)
        for each in self._about:
            each.follow(each.test.following(self._texts))

    def _searched(self, probed: _Probed) -> tuple[MemoryEntry, ...]:
        authorities = self._snapshot.authorities
        found = self._shadow.best(probed.query)
        return tuple(each for each in found if authority(each.origin, authorities, each.raised).reaches(probed.least))

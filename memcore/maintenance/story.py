"""The story of a memory: what it is now, what it was made of, what was made of it, and who asked for that."""

from collections.abc import Iterator
from enum import StrEnum

from pydantic import Field

from memcore.clock import BoundedTime
from memcore.frozen import Frozen
from memcore.ledger.booking import BookingReason, RecordKind
from memcore.ledger.run import RunKind, RunOrigin


class MemoryState(StrEnum):
    """What a memory is now: in the store, replaced by a summary that stands for it, removed by a run, or missing.

    One that is missing is not in the store although no run removed it: something outside of memtend deleted it.
    """

    LIVE = "live"
    REPLACED = "replaced"
    REMOVED = "removed"
    MISSING = "missing"


class TextPlace(StrEnum):
    """Where the full text of a memory is."""

    STORE = "store"
    ARCHIVE = "archive"
    JOURNAL = "journal"
    GONE = "gone"


class Chapter(Frozen):
    """One thing that a run did to a memory.

    Attributes:
        kind: created, restored or removed.
        reason: why.
        at: when it was decided.
        is_open: whether it is decided and not yet carried out.
        run_id: which run.
        run_kind: what kind of run; None, as the next two, when the ledger no longer knows it.
        origin: whether the schedule asked for it, a person, or an engine that deleted the memory.
        undo_of: the run that it took back, if it did.
    """

    kind: RecordKind
    reason: BookingReason
    at: BoundedTime
    is_open: bool
    run_id: str
    run_kind: RunKind | None = None
    origin: RunOrigin | None = None
    undo_of: str | None = None


class StoryMemory(Frozen):
    """One memory of a story.

    Attributes:
        state: what it is now.
        replaced_by: the summary that stands for it, where its state says so.
        text_in: where its full text is.
        text_until: until when it is there; None for as long as nothing removes it.
        text: the full text, where it was asked for; it stays out of the repr, and so out of logs.
        made_of: ids of the memories that it replaced, oldest first; for what an agent stored, none.
        made_into: ids of the summaries that replaced it, the first one first; also those that an undo took back.
        chapters: what runs did to it, oldest first.
    """

    memory_id: str
    state: MemoryState
    replaced_by: tuple[str, ...] = ()
    text_in: TextPlace
    text_until: BoundedTime | None = None
    text: str | None = Field(default=None, repr=False)
    made_of: tuple[str, ...] = ()
    made_into: tuple[str, ...] = ()
    chapters: tuple[Chapter, ...] = ()


class StoryModel(Frozen):
    """What a model was asked for in the run that made a summary.

    Attributes:
        run_id: the run; it may have asked for other summaries too.
        purpose: what for.
        model: who was asked.
        calls: how often.
        tokens: read and written together.
        cost: in the currency of the price list.
    """

    run_id: str
    purpose: str
    model: str
    calls: int
    tokens: int
    cost: float


class Story(Frozen):
    """A memory, all that it was made of and all that was made of it, through any depth; each memory stands once.

    Attributes:
        memory_id: whose story this is.
        agent_id: whose memory.
        memories: that one first, then what it was made of, then what was made of it, level by level.
        models: what models were asked for in the runs that made it.
    """

    memory_id: str
    agent_id: str
    memories: tuple[StoryMemory, ...] = Field(min_length=1)
    models: tuple[StoryModel, ...] = ()

    @property
    def memory(self) -> StoryMemory:
        """The memory whose story this is."""
        return self.memories[0]

    def find(self, memory_id: str) -> StoryMemory | None:
        """Return a memory of the story."""
        return next((each for each in self.memories if each.memory_id == memory_id), None)

    def originals(self) -> tuple[str, ...]:
        """Return the ids of what agents stored and this memory stands for; for such a memory none."""
        below = self._follow("made_of")
        return tuple(each.memory_id for each in below if not each.made_of)

    def summaries(self) -> tuple[str, ...]:
        """Return the ids of all summaries that this memory went into, whether they still stand or not."""
        return tuple(each.memory_id for each in self._follow("made_into"))

    def _follow(self, edge: str) -> Iterator[StoryMemory]:
        by_id = {each.memory_id: each for each in self.memories}
        seen = {self.memory_id}
        level = [self.memory]
        while level:
            ids = [memory_id for each in level for memory_id in getattr(each, edge)]
            level = [by_id[memory_id] for memory_id in dict.fromkeys(ids) if memory_id not in seen]
            seen.update(each.memory_id for each in level)
            yield from level

"""Parts of groups replaced by their summaries."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from memcore.archival_models import ArchivalMode
from memcore.backends.record import MemoryRecord
from memcore.backends.where import Where
from memcore.errors import AnswerMissingError
from memcore.maintenance.attempt import Attempt
from memcore.maintenance.bookkeeper import Booked, Leaving
from memcore.maintenance.strategy import ConsolidationStrategy
from memcore.maintenance.summary import summary_record

#: Fewer sources than this need no summary: the others were changed or removed since they were chosen.
_LEAST_SOURCES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What became of a part.

    Attributes:
        booked: what was moved.
        unanswered: ids of the memories about which a model has to be asked first; nothing was moved then.
    """

    booked: Booked = field(default_factory=Booked)
    unanswered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A part as it was chosen.

    Attributes:
        ids: the memories.
        kept_id: the memory of their group that stays.
    """

    ids: frozenset[str]
    kept_id: str | None


async def replace_by_summaries(
    attempt: Attempt, strategy: ConsolidationStrategy, where: Where, parts: Sequence[Chosen]
) -> tuple[Replacement, ...]:
    """Replace, part by part, those of the ids that still meet the filter; each part is a booking of its own.

    Args:
        attempt: whose bookings these are.
        strategy: writes the summaries.
        where: the conditions under which the memories were chosen; the store looks at them again.
        parts: of at most 256 memories together.
    """
    kept_ids = sorted({part.kept_id for part in parts if part.kept_id is not None})
    kept = await attempt.view.backend.get_many(attempt.view.agent_id, kept_ids) if kept_ids else ()
    by_id = {record.entry.id: record for record in kept}
    writers = [_Writer(attempt, strategy, by_id.get(part.kept_id or "")) for part in parts]
    leaving = [
        Leaving(ids=part.ids, replace=writer.replace, archive_as=writer.archive_as)
        for part, writer in zip(parts, writers, strict=True)
    ]
    booked = await attempt.books.remove_parts(where, leaving, reason="consolidated")
    return tuple(
        Replacement(booked=each, unanswered=writer.unanswered) for each, writer in zip(booked, writers, strict=True)
    )


class _Writer:
    """Writes the summary of one part, and remembers how that went."""

    def __init__(self, attempt: Attempt, strategy: ConsolidationStrategy, kept: MemoryRecord | None) -> None:
        self._attempt = attempt
        self._strategy = strategy
        self._kept = kept
        self._mode: ArchivalMode | None = None
        self.unanswered: tuple[str, ...] = ()

    async def replace(self, sources: tuple[MemoryRecord, ...]) -> MemoryRecord | None:
        if len(sources) < _LEAST_SOURCES:
            return None
        try:
            draft = await self._strategy.write(sources, kept=self._kept)
        except AnswerMissingError:
            self.unanswered = tuple(source.entry.id for source in sources)
            return None
        self._mode = draft.mode
        return summary_record(sources, draft, company=self._attempt.view.company, strategy=self._strategy.name)

    def archive_as(self, _source: MemoryRecord) -> ArchivalMode:
        # Whatever its age, and whether or not the limit archives too: a summary has lost words, the archive has none.
        return self._mode or ArchivalMode.EXTRACTIVE

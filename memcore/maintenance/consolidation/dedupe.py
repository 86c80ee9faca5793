"""The strategy without loss: memories that say the same become one, word for word; no model is asked."""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from memcore.backends.protocol import MAX_PAGE
from memcore.maintenance.consolidation.strategy import SummaryCandidate, SummaryDraft, SummaryGroup
from memcore.models.memory import MAX_TAGS
from memcore.records import MemoryRecord
from memcore.retrieval.repetitions import Repetitions


class DedupeStrategy:
    """Merges the memories that one of them repeats (``memcore.retrieval.repetitions``) into this one.

    Two suffice. They are of one category, namespace and project, have the same attributes, and expire at the same time
    or never. Those that have too many tags together stay as they are.
    """

    name = "dedupe"

    def parts(self, members: Iterable[SummaryCandidate]) -> Iterator[SummaryGroup]:
        """Yield each memory with those that it repeats, oldest first.

        A journal entry holds so many memories; of a memory with more copies the rest is merged among itself, and by
        the next run with the others.
        """
        by_id = {member.id: member for member in members}
        repetitions = Repetitions()
        repetitions.add_texts(
            [
                (
                    each.id,
                    each.content,
                    each.created_at,
                    (each.category, each.namespace, each.project_id, each.expires_at, each.attributes),
                )
                for each in by_id.values()
            ]
        )
        for group in repetitions.groups():
            found = [by_id[group.kept], *(by_id[each] for each in group.repeated)]
            first, rest = found[:MAX_PAGE], found[MAX_PAGE:]
            if len({tag for each in first for tag in each.tags}) <= MAX_TAGS:
                yield SummaryGroup(members=tuple(sorted(first, key=attrgetter("created_at", "id"))))
            yield from self.parts(rest)

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft | None:
        """Return the fullest of the sources; None unless it repeats all others, as when one has changed since."""
        del kept
        repetitions = Repetitions()
        repetitions.add(sources)
        groups = repetitions.groups()
        if len(groups) != 1 or len(groups[0].repeated) + 1 != len(sources):
            return None
        if len({tag for source in sources for tag in source.entry.metadata.tags}) > MAX_TAGS:
            return None
        (fullest,) = (source for source in sources if source.entry.id == groups[0].kept)
        return SummaryDraft(content=fullest.entry.content, same_as=fullest)

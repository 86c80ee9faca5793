"""Selection: groups the eligible memories, and cuts groups to the size of a summary."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, Self

from memcore.errors import MemoryConfigError
from memcore.models.memory import MAX_TAGS, MemoryCategory
from memcore.records import MemoryRecord

#: UTF-8 bytes that count as one token: about four letters of English, about one and a third Chinese characters.
#: An estimate on the safe side of what tokenizers do; counting exactly would tie selection to one model.
BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCandidate:
    """A memory that consolidation may merge.

    Attributes:
        project_id: memories of different projects are never merged; a project's end removes its summaries too.
        expires: memories that expire are merged apart from those that stay, which would otherwise die with them.
        relevance: None unless the entry answers a text query.
        tokens: estimated length of its text.
    """

    id: str
    category: MemoryCategory
    namespace: str
    project_id: str | None
    expires: bool
    created_at: datetime
    relevance: float | None
    tokens: int
    tags: tuple[str, ...]

    @classmethod
    def of(cls, record: MemoryRecord) -> Self:
        """Build a candidate from a record."""
        entry = record.entry
        return cls(
            id=entry.id,
            category=entry.category,
            namespace=entry.namespace,
            project_id=record.lineage.project_id,
            expires=entry.expires_at is not None,
            created_at=entry.created_at,
            relevance=entry.relevance_score,
            tokens=-(-len(entry.content.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN),
            tags=entry.metadata.tags,
        )

    @property
    def age_key(self) -> tuple[datetime, str]:
        """The sort key: oldest first, ties by id."""
        return (self.created_at, self.id)


#: Smallest threshold: one is kept, so a group of one has nothing to merge.
_LEAST_THRESHOLD = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Memories that are merged together.

    Attributes:
        kept: the memory that stays as it is.
        removed: the memories that are merged, oldest first.
    """

    kept: SummaryCandidate
    removed: tuple[SummaryCandidate, ...]


class EntrySelector(Protocol):
    """Chooses the memories to merge; any selector works with any op."""

    def select(self, members: Iterable[SummaryCandidate]) -> tuple[Group, ...]:
        """Return the groups to merge; no member is in two."""
        ...


class HighestRelevanceSelector:
    """Groups by category, namespace, project and expiry; keeps the most relevant memory of each group.

    Maintenance asks the store without a text, so its candidates have no relevance and the newest is kept, whatever
    the store's order.

    Args:
        group_threshold: smaller groups are left alone; at least 2.
    """

    def __init__(self, *, group_threshold: int = 3) -> None:
        if group_threshold < _LEAST_THRESHOLD:
            raise MemoryConfigError(f"group_threshold is {group_threshold}; the least is {_LEAST_THRESHOLD}")
        self._threshold = group_threshold

    def select(self, members: Iterable[SummaryCandidate]) -> tuple[Group, ...]:
        """Return the groups that reach the threshold."""
        groups: defaultdict[tuple[str, str, str | None, bool], list[SummaryCandidate]] = defaultdict(list)
        for member in members:
            groups[member.category, member.namespace, member.project_id, member.expires].append(member)
        return tuple(_group(members) for members in groups.values() if len(members) >= self._threshold)


def _group(members: list[SummaryCandidate]) -> Group:
    kept = max(members, key=lambda member: (member.relevance or 0.0, member.created_at, member.id))
    removed = sorted((member for member in members if member.id != kept.id), key=lambda member: member.age_key)
    return Group(kept=kept, removed=tuple(removed))


#: Most records on one side of an entry: with vectors about a megabyte, one page of a scan, one small transaction.
MAX_ENTRY = 256

#: Tags a summary keeps free for its own: "consolidated", and how its op made it.
_OWN_TAGS = 4

#: Most tags of a summary beside its own.
_MAX_USER_TAGS = MAX_TAGS - _OWN_TAGS

#: Fewer members than this make no summary: one memory is its own best summary.
_LEAST_MEMBERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkLimits:
    """Limits of the memories behind one summary.

    Attributes:
        max_entries: 2 or more; never more than an entry holds.
        max_tokens: of the members' texts together; a member of more is merged with nothing.
        target_tokens: a part ends before it holds more, once it has two members; None is max_tokens. A prompt holds
            several summaries only when they are short.
    """

    max_entries: int = 20
    max_tokens: int = 2000
    target_tokens: int | None = None

    def __post_init__(self) -> None:
        """Refuse limits under which nothing could ever be merged."""
        if self.max_entries < _LEAST_MEMBERS:
            raise MemoryConfigError(f"group_max_entries is {self.max_entries}; the least is {_LEAST_MEMBERS}")

    def cut(self, members: Sequence[SummaryCandidate]) -> Iterator[tuple[SummaryCandidate, ...]]:
        """Yield parts of neighbours in the given order; a memory that would be alone in its part is not yielded.

        Memories close in time mostly belong together, so a full part ends at the longest pause in its second half, the
        last of equals. A summary carries the union of its members' tags, so a part also ends before these are too
        many: no tag is dropped.
        """
        part: list[SummaryCandidate] = []
        for member in members:
            if member.tokens > self.max_tokens or len(set(member.tags)) > _MAX_USER_TAGS:
                # Too long to be merged with anything: a document cut to a line would be lost.
                yield from _worth_merging(part)
                part = []
                continue
            while part and not self._takes(part, member):
                end = _longest_pause([*part, member])
                yield from _worth_merging(part[:end])
                part = part[end:]
            part.append(member)
        yield from _worth_merging(part)

    def _takes(self, part: Sequence[SummaryCandidate], member: SummaryCandidate) -> bool:
        tokens = sum(other.tokens for other in part) + member.tokens
        limit = self.max_tokens
        if self.target_tokens is not None and len(part) >= _LEAST_MEMBERS:
            limit = min(limit, self.target_tokens)
        return (
            len(part) < min(self.max_entries, MAX_ENTRY)
            and tokens <= limit
            and len({tag for each in (*part, member) for tag in each.tags}) <= _MAX_USER_TAGS
        )


def _longest_pause(part: Sequence[SummaryCandidate]) -> int:
    """Return the place of the longest pause in the second half of a part; the part is cut before it."""
    least = max(len(part) // 2, min(_LEAST_MEMBERS, len(part) - 1))
    return max(range(least, len(part)), key=lambda place: (part[place].created_at - part[place - 1].created_at, place))


def _worth_merging(part: Sequence[SummaryCandidate]) -> Iterator[tuple[SummaryCandidate, ...]]:
    if len(part) >= _LEAST_MEMBERS:
        yield tuple(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryGroup:
    """Memories that become one summary.

    Attributes:
        members: go, oldest first; of one category.
        kept: the memory of their group that stays; it may tell an op what kind of group this is.
    """

    members: tuple[SummaryCandidate, ...]
    kept: SummaryCandidate | None = None

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the members."""
        return frozenset(member.id for member in self.members)

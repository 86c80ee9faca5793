"""Consolidation strategies: which memories one summary replaces, who writes its text, and the summary as a memory."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Any, Protocol, Self

from memcore import ids
from memcore.backends.protocol import MAX_PAGE
from memcore.embedding.sentences import part_statements
from memcore.errors import MemoryConfigError
from memcore.models.archival import ArchivalMode
from memcore.models.attributes import canonical_json
from memcore.models.memory import (
    CONSOLIDATED_TAG,
    FALLBACK_TAG,
    MAX_TAGS,
    MemoryCategory,
    MemoryEntry,
    MemoryMetadata,
)
from memcore.models.origin import Origin
from memcore.records import COVERS_UNTIL_KEY, LOSSLESS_KEY, ORIGIN_KEY, SUPERSEDES_KEY, Lineage, MemoryRecord

#: UTF-8 bytes that count as one token: about four letters of English, about one and a third Chinese characters.
#: An estimate on the safe side of what tokenizers do; counting exactly would tie selection to one model.
BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCandidate:
    """A memory that consolidation may merge.

    Attributes:
        project_id: memories of different projects are never merged; a project's end removes its summaries too.
        expires_at: memories that expire are merged apart from those that stay, which would otherwise die with them.
        relevance: None unless the entry answers a text query.
        attributes: its caller's fields, as JSON; memories with others are not merged.
        origin: by which channels it came; memories of different authority are not merged.
    """

    id: str
    category: MemoryCategory
    namespace: str
    project_id: str | None
    expires_at: datetime | None
    created_at: datetime
    content: str
    relevance: float | None
    tokens: int
    tags: tuple[str, ...]
    attributes: str = ""
    origin: Origin | None = None

    @classmethod
    def of(cls, record: MemoryRecord) -> Self:
        """Build a candidate from a record."""
        entry = record.entry
        return cls(
            id=entry.id,
            category=entry.category,
            namespace=entry.namespace,
            project_id=record.lineage.project_id,
            expires_at=entry.expires_at,
            created_at=entry.created_at,
            content=entry.content,
            relevance=entry.relevance_score,
            tokens=-(-text_size(entry.content) // BYTES_PER_TOKEN),
            tags=entry.metadata.tags,
            attributes=canonical_json(entry.attributes) if entry.attributes else "",
            origin=entry.origin,
        )


#: Fewer memories than this make no group and no summary: one is its own best summary.
LEAST_MEMBERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryGroup:
    """Memories of one category that become one summary, oldest first, and the one of their group that stays."""

    members: tuple[SummaryCandidate, ...]
    kept: SummaryCandidate | None = None

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the members."""
        return frozenset(member.id for member in self.members)

    @property
    def is_fallback(self) -> bool:
        """Whether it is one summary that is to be written again, from what it replaced."""
        return len(self.members) < LEAST_MEMBERS


class EntrySelector(Protocol):
    """Chooses the memories to merge; any selector works with any op."""

    def select(self, members: Iterable[SummaryCandidate]) -> tuple[SummaryGroup, ...]:
        """Return the groups to merge; no member is in two."""
        ...


class HighestRelevanceSelector:
    """Groups by category, namespace, project and expiry; keeps the most relevant memory of each group.

    Maintenance asks the store without a text, so its candidates have no relevance and the newest is kept, whatever
    the store's order. Groups smaller than the threshold, which is at least 2, are left alone.
    """

    def __init__(self, *, group_threshold: int = 3) -> None:
        if group_threshold < LEAST_MEMBERS:
            raise MemoryConfigError(f"group_threshold is {group_threshold}; the least is {LEAST_MEMBERS}")
        self._threshold = group_threshold

    def select(self, members: Iterable[SummaryCandidate]) -> tuple[SummaryGroup, ...]:
        """Return the groups that reach the threshold."""
        groups: defaultdict[tuple[str, str, str | None, bool], list[SummaryCandidate]] = defaultdict(list)
        for member in members:
            expires = member.expires_at is not None
            groups[member.category, member.namespace, member.project_id, expires].append(member)
        return tuple(_group(members) for members in groups.values() if len(members) >= self._threshold)


def _group(members: list[SummaryCandidate]) -> SummaryGroup:
    kept = max(members, key=lambda member: (member.relevance or 0.0, member.created_at, member.id))
    removed = sorted((member for member in members if member.id != kept.id), key=attrgetter("created_at", "id"))
    return SummaryGroup(members=tuple(removed), kept=kept)


#: Tags a summary keeps free for its own: "consolidated", and how its op made it.
_OWN_TAGS = 4

#: Most tags of a summary beside its own.
_MAX_USER_TAGS = MAX_TAGS - _OWN_TAGS


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
        if self.max_entries < LEAST_MEMBERS:
            raise MemoryConfigError(f"group_max_entries is {self.max_entries}; the least is {LEAST_MEMBERS}")

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
        if self.target_tokens is not None and len(part) >= LEAST_MEMBERS:
            limit = min(limit, self.target_tokens)
        return (
            len(part) < min(self.max_entries, MAX_PAGE)
            and tokens <= limit
            and len({tag for each in (*part, member) for tag in each.tags}) <= _MAX_USER_TAGS
        )


def _longest_pause(part: Sequence[SummaryCandidate]) -> int:
    """Return the place of the longest pause in the second half of a part; the part is cut before it."""
    least = max(len(part) // 2, min(LEAST_MEMBERS, len(part) - 1))
    return max(range(least, len(part)), key=lambda place: (part[place].created_at - part[place - 1].created_at, place))


def _worth_merging(part: Sequence[SummaryCandidate]) -> Iterator[tuple[SummaryCandidate, ...]]:
    if len(part) >= LEAST_MEMBERS:
        yield tuple(part)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryDraft:
    """The text of a summary, tags that say how it was made, and how its sources are archived.

    Attributes:
        mode: abstractive where a model wrote the text; None for word by word.
        is_lossless: whether the text says all that the sources said: then these need not be found beside it.
        same_as: the source that says all that the sources say. Then no summary replaces them but this memory, with
            what the others know about it.
    """

    content: str
    tags: tuple[str, ...] = ()
    mode: ArchivalMode | None = None
    is_lossless: bool = False
    same_as: MemoryRecord | None = None


class ConsolidationOp(Protocol):
    """Writes the text of one summary; the journaled store stores and deletes."""

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        """Return a text that replaces the sources, which are of one category, oldest first, and will be removed.

        ``kept``, if there is one, is the memory of their group that stays.
        """
        ...


class ConsolidationStrategy(Protocol):
    """Chooses the memories to merge and writes their summary; it never touches the store."""

    @property
    def name(self) -> str:
        """Part of the summaries' ids: two strategies never claim the same summary."""
        ...

    def parts(self, members: Iterable[SummaryCandidate]) -> Iterator[SummaryGroup]:
        """Yield the memories behind each summary; no member is in two."""
        ...

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft | None:
        """Return the summary's text; None leaves the sources as they are.

        They may be fewer than the part had, or have changed since. Raises AnswerMissingError when a model has to be
        asked first.
        """
        ...


class CompositeConsolidationStrategy:
    """A strategy of a selector, the limits of a summary, and an op."""

    def __init__(
        self, selector: EntrySelector, op: ConsolidationOp, *, name: str, limits: ChunkLimits | None = None
    ) -> None:
        self._selector = selector
        self._op = op
        self._limits = limits or ChunkLimits()
        self.name = name

    def parts(self, members: Iterable[SummaryCandidate]) -> Iterator[SummaryGroup]:
        """Yield what the selector removes, cut to the limits."""
        for group in self._selector.select(members):
            for cut in self._limits.cut(group.members):
                yield replace(group, members=cut)

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        """Return what the op writes."""
        return await self._op.write(sources, kept=kept)


async def write_draft(
    strategy: ConsolidationStrategy,
    sources: Sequence[MemoryRecord],
    *,
    kept: MemoryRecord | None,
    is_fallback: bool = False,
) -> SummaryDraft | None:
    """Return what the strategy writes; None where it is longer than the sources, which then stay as they are.

    In the place of a fallback comes no other one, and nothing where the policy allows shorter texts alone by now.
    Raises AnswerMissingError when a model has to be asked first.
    """
    try:
        draft = await strategy.write(sources, kept=kept)
    except MemoryConfigError:
        if is_fallback:
            return None
        raise
    if draft is None or (is_fallback and FALLBACK_TAG in draft.tags):
        return None
    if text_size(draft.content) > text_size("\n".join(each.entry.content for each in sources)):
        return None
    return draft


def text_size(text: str) -> int:
    """Return the UTF-8 bytes of a text."""
    return len(text.encode("utf-8", "surrogatepass"))


#: Source of every summary.
CONSOLIDATION_SOURCE = "consolidation"


def summary_record(
    sources: Sequence[MemoryRecord],
    draft: SummaryDraft,
    *,
    company: str,
    strategy: str,
    replaced: Sequence[MemoryRecord] | None = None,
) -> MemoryRecord:
    """Return the memory that replaces the sources; a summary has no vectors yet.

    It has their category and namespace, the union of their tags and channels, their least confidence and least expiry,
    the scope they share, and their ids. So its authority is never more than the least of theirs. It is as old as its
    oldest source, so that no text stays longer than its retention rule allows, whichever rule comes; ``covers_until``
    is the time of the newest. Its id depends on the strategy and on what it replaces (``replaced``; left out, the
    sources) alone, so making it twice makes one.

    Where the draft is one of the sources (``same_as``), the memory is this one with its vectors, the greatest
    confidence and the other keys of all, of which the newest win. It is as old as the newest, which said it all again.
    It has no tag of a summary, so that the next repetition joins it.
    """
    entries = [source.entry for source in sources]
    first = entries[0]
    source_ids = tuple(entry.id for entry in entries)
    tags = [tag for entry in entries for tag in entry.metadata.tags]
    made_at = sorted(source.entry.created_at for source in sources)
    covers_until = max(source.covers_until for source in sources)
    expiries = [entry.expires_at for entry in entries if entry.expires_at is not None]
    confidences = [entry.metadata.confidence for entry in entries]
    same = draft.same_as
    if same is not None:
        metadata = MemoryMetadata(
            source=same.entry.metadata.source, confidence=max(confidences), tags=tuple(dict.fromkeys(tags))
        )
    else:
        # The summary's own tags come first: they must be there whatever its sources carry.
        own = [CONSOLIDATED_TAG, *draft.tags]
        metadata = MemoryMetadata(
            source=CONSOLIDATION_SOURCE, confidence=min(confidences), tags=tuple(dict.fromkeys([*own, *tags]))
        )
    extra: dict[str, Any] = {}
    for source in sorted(sources, key=lambda source: source.entry.created_at) if same is not None else ():
        extra |= source.extra
    if any(entry.origin is not None for entry in entries):
        extra[ORIGIN_KEY] = Origin.of(entry.origin for entry in entries).stored()
    # What they superseded, it supersedes in their stead.
    if superseded := dict.fromkeys(each for source in sources for each in source.supersedes):
        extra[SUPERSEDES_KEY] = list(superseded)
    if draft.is_lossless or same is not None:
        extra[LOSSLESS_KEY] = True
    if same is None and covers_until > made_at[0]:
        extra[COVERS_UNTIL_KEY] = covers_until.isoformat()
    return MemoryRecord(
        entry=MemoryEntry(
            id=ids.summary_id(
                company=company,
                agent_id=first.agent_id,
                strategy=strategy,
                source_ids=source_ids if replaced is None else [each.entry.id for each in replaced],
            ),
            agent_id=first.agent_id,
            namespace=first.namespace,
            category=first.category,
            content=draft.content,
            metadata=metadata,
            created_at=made_at[0] if same is None else made_at[-1],
            expires_at=min(expiries, default=None),
        ),
        vectors=same.vectors if same is not None else None,
        extra=extra,
        lineage=Lineage(
            session_id=_shared({source.lineage.session_id for source in sources}),
            project_id=_shared({source.lineage.project_id for source in sources}),
            task_id=_shared({source.lineage.task_id for source in sources}),
            summary_of=source_ids,
            depth=1 + max(source.lineage.depth for source in sources),
        ),
    )


def _shared(scopes: set[str | None]) -> str | None:
    return scopes.pop() if len(scopes) == 1 else None


#: Characters that each memory keeps in the summary (the reference's figure), in whole sentences.
MAX_ENTRY_CHARS = 200

#: Stands where sentences were left out.
_CUT = "..."


class ConcatenationOp:
    """Joins the beginnings of the memories as bullets; deterministic, without a model."""

    def __init__(self, *, max_entry_chars: int = MAX_ENTRY_CHARS) -> None:
        self._max_entry_chars = max_entry_chars

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        """Return a heading that names the category, then one bullet a memory; the one kept is not looked at."""
        del kept
        category = sources[0].entry.category
        bullets = (f"- {beginning(source.entry.content, self._max_entry_chars)}" for source in sources)
        return SummaryDraft(content="\n".join([f"Consolidated {category} memories:", *bullets]))


def beginning(text: str, length: int) -> str:
    """Return the first sentences of a text on one line, at most so many characters, with a mark where others follow.

    The first sentence is there whole, however long it is, and so is a text of one or two.
    """
    # Line breaks inside a memory would read as further bullets.
    first, *others = [*part_statements(text)] or [""]
    for each in others:
        if len(first) + 1 + len(each) > length:
            return f"{first} {_CUT}"
        first = f"{first} {each}"
    return first

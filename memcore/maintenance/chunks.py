"""Cutting a group into the parts that become one summary each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from memcore.errors import MemoryConfigError
from memcore.maintenance.member import Member
from memcore.models import MAX_TAGS

#: Most records on one side of a booking: with vectors about a megabyte, one page of a scan, one small transaction.
MAX_BOOKING = 256

#: Tags a summary keeps free for its own: "consolidated", and how its op made it.
_OWN_TAGS = 4

#: Tags a summary has room for beside its own.
_MAX_USER_TAGS = MAX_TAGS - _OWN_TAGS

#: Fewer members than this make no summary: one memory is its own best summary.
_LEAST_MEMBERS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkLimits:
    """How much one summary may stand for.

    Attributes:
        max_entries: 2 or more; never more than a booking holds.
        max_tokens: of the members' texts together.
    """

    max_entries: int = 20
    max_tokens: int = 2000

    def __post_init__(self) -> None:
        """Refuse limits under which nothing could ever be merged."""
        if self.max_entries < _LEAST_MEMBERS:
            raise MemoryConfigError(f"group_max_entries is {self.max_entries}; the least is {_LEAST_MEMBERS}")

    def cut(self, members: Sequence[Member]) -> Iterator[tuple[Member, ...]]:
        """Yield runs of neighbours in the order given; one that would stand alone is not yielded, and stays.

        A summary carries the union of its members' tags, so a part also ends where these would be too many: no tag
        is dropped.
        """
        part: list[Member] = []
        tokens, tags = 0, set[str]()
        for member in members:
            fits = (
                len(part) < min(self.max_entries, MAX_BOOKING)
                and tokens + member.tokens <= self.max_tokens
                and len(tags | set(member.tags)) <= _MAX_USER_TAGS
            )
            if not fits:
                if len(part) >= _LEAST_MEMBERS:
                    yield tuple(part)
                part, tokens, tags = [], 0, set()
            if member.tokens > self.max_tokens or len(set(member.tags)) > _MAX_USER_TAGS:
                continue  # Too long to be merged with anything: a document cut to a line would be lost.
            part.append(member)
            tokens += member.tokens
            tags |= set(member.tags)
        if len(part) >= _LEAST_MEMBERS:
            yield tuple(part)

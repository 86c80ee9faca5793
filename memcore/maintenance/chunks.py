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
        max_tokens: of the members' texts together; a member of more is merged with nothing.
        target_tokens: a part ends before it holds more, once it has two members; None is max_tokens. A prompt has room
            for a few summaries only when they are short.
    """

    max_entries: int = 20
    max_tokens: int = 2000
    target_tokens: int | None = None

    def __post_init__(self) -> None:
        """Refuse limits under which nothing could ever be merged."""
        if self.max_entries < _LEAST_MEMBERS:
            raise MemoryConfigError(f"group_max_entries is {self.max_entries}; the least is {_LEAST_MEMBERS}")

    def cut(self, members: Sequence[Member]) -> Iterator[tuple[Member, ...]]:
        """Yield runs of neighbours in the order given; one that would stand alone is not yielded, and stays.

        What lies close in time mostly belongs together, so a full part ends where the longest pause of its second half
        is, at the last of equals. A summary carries the union of its members' tags, so a part also ends where these
        would be too many: no tag is dropped.
        """
        part: list[Member] = []
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

    def _takes(self, part: Sequence[Member], member: Member) -> bool:
        tokens = sum(other.tokens for other in part) + member.tokens
        limit = self.max_tokens
        if self.target_tokens is not None and len(part) >= _LEAST_MEMBERS:
            limit = min(limit, self.target_tokens)
        return (
            len(part) < min(self.max_entries, MAX_BOOKING)
            and tokens <= limit
            and len({tag for each in (*part, member) for tag in each.tags}) <= _MAX_USER_TAGS
        )


def _longest_pause(part: Sequence[Member]) -> int:
    """Return the place before which to cut a part and the member that it cannot take."""
    least = max(len(part) // 2, min(_LEAST_MEMBERS, len(part) - 1))
    return max(range(least, len(part)), key=lambda place: (part[place].created_at - part[place - 1].created_at, place))


def _worth_merging(part: Sequence[Member]) -> Iterator[tuple[Member, ...]]:
    if len(part) >= _LEAST_MEMBERS:
        yield tuple(part)

"""Which of the eligible memories are merged, and with which."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from memcore.errors import MemoryConfigError
from memcore.maintenance.member import Member

#: Smallest threshold: one is kept, so a group of one has nothing to merge.
_LEAST_THRESHOLD = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Memories that belong together.

    Attributes:
        kept: stays as it is.
        removed: are merged, oldest first.
    """

    kept: Member
    removed: tuple[Member, ...]


class EntrySelector(Protocol):
    """Choose what is merged; any selector goes with any op."""

    def select(self, members: Iterable[Member]) -> tuple[Group, ...]:
        """Return the groups to merge; no member stands in two."""
        ...


class HighestRelevanceSelector:
    """Group by category, namespace, project and whether they expire; keep the most relevant of each group.

    Maintenance asks the store without a text, so its members have no relevance and the newest is kept; that is
    what the rule means there, and not an accident of the store's order.

    Args:
        group_threshold: smaller groups are left alone; at least 2.
    """

    def __init__(self, *, group_threshold: int = 3) -> None:
        if group_threshold < _LEAST_THRESHOLD:
            raise MemoryConfigError(f"group_threshold is {group_threshold}; the least is {_LEAST_THRESHOLD}")
        self._threshold = group_threshold

    def select(self, members: Iterable[Member]) -> tuple[Group, ...]:
        """Return the groups that reach the threshold."""
        groups: defaultdict[tuple[str, str, str | None, bool], list[Member]] = defaultdict(list)
        for member in members:
            groups[member.category, member.namespace, member.project_id, member.expires].append(member)
        return tuple(_group(members) for members in groups.values() if len(members) >= self._threshold)


def _group(members: list[Member]) -> Group:
    kept = max(members, key=lambda member: (member.relevance or 0.0, member.created_at, member.id))
    removed = sorted((member for member in members if member.id != kept.id), key=lambda member: member.age_key)
    return Group(kept=kept, removed=tuple(removed))

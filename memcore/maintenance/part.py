"""What stands behind one summary."""

from dataclasses import dataclass

from memcore.maintenance.member import Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Memories that become one summary.

    Attributes:
        members: go, oldest first; of one category.
        kept: the memory of their group that stays; it may tell an op what kind of group this is.
    """

    members: tuple[Member, ...]
    kept: Member | None = None

    @property
    def ids(self) -> frozenset[str]:
        """Ids of the members."""
        return frozenset(member.id for member in self.members)

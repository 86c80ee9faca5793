"""How long a proposal waits for a person."""

from datetime import timedelta

from pydantic import Field

from memcore.frozen import Frozen


class ApprovalsConfig(Frozen):
    """Bound the life of a proposal.

    Attributes:
        expire_days: days until a proposal that nobody decided on cannot be approved any more, 1 to 365.
    """

    expire_days: int = Field(default=14, ge=1, le=365)

    @property
    def lasts(self) -> timedelta:
        """How long a proposal waits."""
        return timedelta(days=self.expire_days)

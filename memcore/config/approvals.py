"""How long a proposal waits for a person."""

from datetime import timedelta

from pydantic import Field

from memcore.frozen import Frozen


class ApprovalsConfig(Frozen):
    """Bound the time in which a proposal can be approved.

    Attributes:
        expire_days: days after which a proposal without a decision can no longer be approved.
    """

    expire_days: int = Field(default=14, ge=1, le=365)

    @property
    def lasts(self) -> timedelta:
        """How long a proposal waits."""
        return timedelta(days=self.expire_days)

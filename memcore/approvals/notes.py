"""What is written down beside a publication: where a row says what stands, it follows the log."""

from typing import Protocol

from memcore.approval_models import Approval, Superseded
from memcore.ledger.room import Room


class Notes(Protocol):
    """Follow an approval's publication; every call may come again, at any time, and then changes nothing.

    ``fact_id`` is the id under which the approval's text was published first.
    """

    def room(self, approval: Approval) -> Room | None:
        """Return how many may stand; see ApprovalEffects.room."""
        ...

    async def published(self, approval: Approval, fact_id: str) -> None:
        """Note that the text can be found; not when it was taken back since."""
        ...

    async def superseded(self, fact_id: str, old: Superseded) -> None:
        """Note that what is superseded was retracted, if it was, while the text still stands."""
        ...

    async def withdrawn(self, fact_id: str) -> None:
        """Note that the text is being taken back, before anything else is done about it."""
        ...

    def ended(self, fact_id: str, old: Superseded) -> bool | None:
        """Tell whether this text ended that one; None where nothing is noted about it, and the log decides."""
        ...

    async def returned(self, fact_id: str, old: Superseded) -> None:
        """Note that what this text had ended stands again, if it does."""
        ...


class NoNotes:
    """Write nothing down."""

    def room(self, approval: Approval) -> Room | None:  # noqa: ARG002  # the protocol's
        """Return no bound."""
        return None

    async def published(self, approval: Approval, fact_id: str) -> None:
        """Note nothing."""

    async def superseded(self, fact_id: str, old: Superseded) -> None:
        """Note nothing."""

    async def withdrawn(self, fact_id: str) -> None:
        """Note nothing."""

    def ended(self, fact_id: str, old: Superseded) -> bool | None:  # noqa: ARG002  # the protocol's
        """Leave it to the log."""
        return None

    async def returned(self, fact_id: str, old: Superseded) -> None:
        """Note nothing."""

"""A bound on how much may stand, looked at in the transaction that adds one more."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sqlalchemy import Connection


class Room(Protocol):
    """Refuse one more where there is no room for it."""

    def require(self, connection: "Connection", company: str) -> None:
        """Let nobody else in until the transaction ends, and raise a MemoryError when there is no room."""
        ...

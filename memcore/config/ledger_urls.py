"""Where the two databases of the ledger are."""

from pydantic import Field

from memcore.frozen import Frozen, NotBlankStr


class LedgerUrls(Frozen):
    """SQLAlchemy URLs of the ledger and of its journal; the same PostgreSQL URL twice keeps both in one database.

    The repr shows neither, because a URL may carry a password.

    Attributes:
        ledger: agents, runs and switches; ``sqlite:///data/ledger.db`` or ``postgresql://...``.
        journal: bookings with their memories in full; a file of its own on SQLite, so that large
            bookings never hold up a tick.
    """

    ledger: NotBlankStr = Field(repr=False)
    journal: NotBlankStr = Field(repr=False)

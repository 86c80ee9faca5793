"""The row that a backend follows, and how any embedder that it names is loaded."""

from collections.abc import Callable
from dataclasses import dataclass

from memcore.embedding.choice import EmbedderChoice
from memcore.embedding.protocol import Embedder


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """Where the row is, and how another embedder is loaded than the one that is configured.

    Attributes:
        ledger_url: SQLAlchemy URL of the ledger.
        choice: the configured embedder.
        load: loads an embedder; the server's address and key are those of the settings in force.
    """

    ledger_url: str
    choice: EmbedderChoice
    load: Callable[[EmbedderChoice], Embedder]

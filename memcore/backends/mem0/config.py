"""The addresses of the mem0 backend's data."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from pydantic import Field, SecretStr

from memcore.embedding.protocol import Embedder
from memcore.embedding.selection import EmbedderChoice
from memcore.models.base import Frozen, NotBlankStr


class Mem0Config(Frozen):
    """The addresses of vector store, history and collection; the repr shows no secret.

    Attributes:
        url: a Qdrant server, or memtend's own store server.
        history_url: SQLAlchemy URL of mem0's history table.
        ledger_url: SQLAlchemy URL of the ledger, which holds the log of shared knowledge; None shares nothing.
        timeout: how long one call may take.
    """

    url: NotBlankStr
    api_key: SecretStr | None = None
    history_url: NotBlankStr = Field(repr=False)
    collection: NotBlankStr
    ledger_url: NotBlankStr | None = Field(default=None, repr=False)
    # A write of 256 memories takes under a second; a store that vacuums answers seconds late.
    timeout: timedelta = timedelta(seconds=30)

    @classmethod
    def collection_of(cls, company: str) -> str:
        """Return the name of a company's collection."""
        return f"memtend_{company}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerConfig:
    """For a pointer row that is followed: the configured embedder, and how an embedder that the row names is loaded."""

    choice: EmbedderChoice
    load: Callable[[EmbedderChoice], Embedder]

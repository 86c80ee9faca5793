"""Where the two databases of the ledger are, as the ledger's callers say it; the settings hold the same value."""

from memcore.config.ledger_urls import LedgerUrls

__all__ = ["LedgerUrls"]

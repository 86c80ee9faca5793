"""Organisation memory: write access to its facts, and their search. The ledger holds the log."""

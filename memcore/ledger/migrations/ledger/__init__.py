"""Versions of the ledger, oldest first."""

"""Ledger tables of the HTTP door: keys of callers, and requests that may come again."""

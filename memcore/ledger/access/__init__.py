"""Ledger tables of the HTTP API: keys of callers, and requests that may come again."""

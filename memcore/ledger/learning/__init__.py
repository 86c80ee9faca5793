"""Ledger tables of what agents learn: experiences, lessons, patterns, skills."""

"""Versions of the journal, oldest first."""

"""Versions of the history, oldest first."""

"""The run: what may be removed from an agent's memory, how it is replaced, and how all of it is undone.

A run moves through retention, consolidation and enforcement; every removal is one entry (``journaled store``).
"""

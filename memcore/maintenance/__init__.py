"""Maintenance runs: they remove, merge, archive and restore an agent's memories, and can be undone.

A run passes through retention, consolidation and enforcement. Every removal is one journal entry (``removals``).
"""

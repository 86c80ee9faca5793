"""Consolidation: groups of old memories, each replaced by one summary."""

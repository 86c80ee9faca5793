"""Revisions of what skills are learned from."""

"""Ledger tables of what agents learn: experiences, trajectories, lessons, patterns, skills, uses."""

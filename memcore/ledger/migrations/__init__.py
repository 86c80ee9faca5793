"""Alembic's scripts: one tree each for the ledger, the journal and mem0's history."""

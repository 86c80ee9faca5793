"""Ledger tables of embedders: fine-tune runs, checkpoints, reindexes, the pointer to the active collection."""

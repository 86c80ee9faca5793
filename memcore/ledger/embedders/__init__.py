"""Ledger tables of embedders: fine-tune runs, reindexes, which collection serves."""

"""Erasure in the ledger: what each table holds of an agent, and the rows of erasures themselves."""

"""Organisation memory: who may write its facts, and how they are found. The log itself lies in the ledger."""

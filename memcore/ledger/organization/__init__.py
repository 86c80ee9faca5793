"""Ledger tables of what a company shares: facts, the shared log, approvals, the audit."""

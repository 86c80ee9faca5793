"""Approvals: a person decides, and the decision takes effect once."""

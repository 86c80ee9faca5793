"""Approvals: what a person decides on, and how the decision takes effect once."""

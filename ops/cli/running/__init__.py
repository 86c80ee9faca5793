"""Commands that run and watch the system."""

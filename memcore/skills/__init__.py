"""Skills of a whole organisation: what is learned across its agents."""

"""The scheduler: the tick claims due agents, the sweep dispatches lost work again, the expiry deletes old rows."""

"""The composite backend: one agent's memories in several backends, divided by namespace."""

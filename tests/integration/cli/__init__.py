"""A package, so that pytest ends its stack with its last test; those of a folder last until the session ends."""

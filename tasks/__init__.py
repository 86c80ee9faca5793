"""The jobs: each has its limits, makes one call into memcore, and returns an outcome."""

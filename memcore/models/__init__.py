"""The value objects of memtend; import them from ``memcore``."""

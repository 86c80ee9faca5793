"""The embedded stack: one process starts, watches, restarts and stops every part of memtend on one machine."""

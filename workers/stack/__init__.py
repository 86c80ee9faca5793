"""The embedded stack: every part of memtend on one machine, started, watched, restarted and stopped by one process."""

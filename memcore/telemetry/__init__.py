"""What memtend tells of its own work: the named events that it logs, and traces."""

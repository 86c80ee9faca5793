"""Where a stage runs: in a process of this machine, or in a container; one contract for both."""

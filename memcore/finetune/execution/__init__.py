"""Stage execution in a process of this machine or in a container, under one contract."""

"""How finished tasks are captured: an execution trace becomes a memory, a raw experience and a trajectory."""

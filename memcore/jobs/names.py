"""Every task's name: the engine sends it, a worker answers to it, and it never changes once released."""

from enum import StrEnum


class TaskName(StrEnum):
    """A task's name on the wire."""

    STORE = "memory.store.write"
    MAINTAIN = "memory.maintenance.run"
    USE = "memory.use.record"
    TICK = "memory.control.tick"
    SWEEP = "memory.control.sweep"

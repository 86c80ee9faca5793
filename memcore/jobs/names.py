"""Every task's name: the engine sends it, a worker answers to it, and it never changes once released."""

from enum import StrEnum


class TaskName(StrEnum):
    """A task's name on the wire."""

    STORE = "memory.store.write"
    MAINTAIN = "memory.maintenance.run"
    SYNTHESIZE = "memory.synthesis.ask"
    USE = "memory.use.record"
    RECORD = "memory.experience.record"
    DISTILL = "memory.distill.capture"
    COMPRESS = "memory.experience.compress"
    DRAW = "memory.lessons.draw"
    EVOLVE = "memory.skills.evolve"
    APPLIED = "memory.skills.applied"
    REINDEX = "memory.reindex.run"
    FINETUNE = "memory.finetune.stage"
    TICK = "memory.control.tick"
    SWEEP = "memory.control.sweep"

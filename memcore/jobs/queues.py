"""The queues, the task names, and the choice of a store job's queue."""

import hashlib
from enum import StrEnum


class Queue(StrEnum):
    """A queue's name on the broker."""

    STORE = "memory.store"
    """Store jobs of older clients, and replayed ones."""

    STORE_0 = "memory.store.0"
    """Memories from engines, first shard; the hash of an agent's id chooses its shard."""

    STORE_1 = "memory.store.1"
    """Memories from engines, second shard."""

    STORE_2 = "memory.store.2"
    """Memories from engines, third shard."""

    STORE_3 = "memory.store.3"
    """Memories from engines, fourth shard."""

    STORE_BULK = "memory.store.bulk"
    """Imports, and calls with more than 32 memories, so that no engine waits behind them."""

    MAINTENANCE = "memory.maintenance"
    """One agent's maintenance run; the undo of a run; the end of a session, project or task; a restore from
    the archive; the removal of one memory.
    """

    DISTILL = "memory.distill"
    """Traces of finished tasks, and raw experience, to be recorded; no job of this queue asks a model."""

    SYNTHESIS = "memory.synthesis"
    """Jobs that ask a language model: groups to summarise, experience to compress, lessons to draw."""

    SKILLS = "memory.skills"
    """Cycles of the skill evolver."""

    REINDEX = "memory.reindex"
    """Slices of a reindex, which fills a collection for another embedder."""

    FINETUNE = "memory.finetune"
    """Stages of fine-tune runs, which take hours and the GPU."""

    CONTROL = "memory.control"
    """Short jobs that ask no model: tick, sweep, counts of uses and applications."""


#: The queues of engines' memories, in the order of the hash; a longer list moves agents, which harms nothing, since no
#: order is promised between store jobs.
STORE_SHARDS = (Queue.STORE_0, Queue.STORE_1, Queue.STORE_2, Queue.STORE_3)

#: Memories in one call, or one job, above which it counts as a bulk load: far more than one turn of an agent makes, and
#: an eighth of a write batch, so that what is not bulk never takes long.
BULK_ABOVE = 32


def store_queue(agent_id: str, *, count: int = 1) -> Queue:
    """Return the queue for one agent's memories: the agent's shard, or the bulk queue for a large number of them.

    Args:
        agent_id: whose memories.
        count: how many are sent in one call.
    """
    if count > BULK_ABOVE:
        return Queue.STORE_BULK
    # Not hash(): Python salts it per process, and an agent would wait in another queue from every engine.
    digest = hashlib.blake2b(agent_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return STORE_SHARDS[int.from_bytes(digest, "big") % len(STORE_SHARDS)]


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

"""Every queue, what belongs on it, and which one a store job takes."""

import hashlib
from enum import StrEnum


class Queue(StrEnum):
    """A queue's name on the broker."""

    STORE = "memory.store"
    """Store jobs of older clients and replayed ones; taken like the shards, so that none is stranded."""

    STORE_0 = "memory.store.0"
    """Memories from engines, first shard of the agents; read round-robin with the others."""

    STORE_1 = "memory.store.1"
    """Memories from engines, second shard of the agents."""

    STORE_2 = "memory.store.2"
    """Memories from engines, third shard of the agents."""

    STORE_3 = "memory.store.3"
    """Memories from engines, fourth shard of the agents."""

    STORE_BULK = "memory.store.bulk"
    """Imports and other bulk loads of memories: a lane of their own, so that no engine waits behind them."""

    MAINTENANCE = "memory.maintenance"
    """One agent's night: retention, consolidation, enforcement; also the undo of a run."""

    DISTILL = "memory.distill"
    """Execution traces of finished tasks, and experience, to be kept; no job of it asks a model."""

    SYNTHESIS = "memory.synthesis"
    """Every job that asks a model: parts of nights, experience to compress, lessons to draw."""

    SKILLS = "memory.skills"
    """The evolver's cycles: what agents have in common, and what is proposed of it."""

    REINDEX = "memory.reindex"
    """Slices of a reindex: a collection that is filled for another embedder."""

    FINETUNE = "memory.finetune"
    """Stages of fine-tune runs, which take hours and the GPU."""

    CONTROL = "memory.control"
    """Short jobs that ask no model: tick, sweep, and the counting of uses and applications."""


#: The queues of engines' memories, in the order of the hash; a longer list moves agents, which harms nothing, since no
#: order is promised between store jobs.
STORE_SHARDS = (Queue.STORE_0, Queue.STORE_1, Queue.STORE_2, Queue.STORE_3)

#: Memories in one call, or one job, above which it counts as a bulk load: far more than one turn of an agent makes, and
#: an eighth of a write batch, so that what is not bulk never takes long.
BULK_ABOVE = 32


def store_queue(agent_id: str, *, count: int = 1) -> Queue:
    """Return the queue for one agent's memories: the agent's shard, or the bulk lane for a large number of them.

    Args:
        agent_id: whose memories.
        count: how many are sent in one call.
    """
    if count > BULK_ABOVE:
        return Queue.STORE_BULK
    # Not hash(): Python salts it per process, and an agent would wait in another queue from every engine.
    digest = hashlib.blake2b(agent_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return STORE_SHARDS[int.from_bytes(digest, "big") % len(STORE_SHARDS)]

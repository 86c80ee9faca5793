"""The words of an agent's memories, read from the store when the first summary needs them."""

from memcore.backends.protocol import MemoryBackend
from memcore.maintenance.vocabulary import Vocabulary
from memcore.models import MemoryQuery

#: Memories whose words are counted: one query of the store, 0.1 s. What is rare among so many is known.
ENOUGH_MEMORIES = 1_000


class RememberedVocabulary:
    """Read the newest memories of an agent, once; make one for each night. A night that summarises nothing reads none.

    A night sees only what has just become old enough, and among twenty memories every word looks rare: so the others
    are counted too, summaries included.

    Args:
        backend: where they are.
    """

    def __init__(self, backend: MemoryBackend) -> None:
        self._backend = backend
        self._read: dict[str, Vocabulary] = {}

    async def __call__(self, agent_id: str) -> Vocabulary:
        """Return the agent's vocabulary.

        Raises:
            MemoryRetrievalError, MemoryConnectionError: the store cannot be read.
        """
        if agent_id not in self._read:
            newest = await self._backend.retrieve(agent_id, MemoryQuery(limit=ENOUGH_MEMORIES))
            vocabulary = Vocabulary()
            vocabulary.read(entry.content for entry in newest)
            self._read[agent_id] = vocabulary
        return self._read[agent_id]

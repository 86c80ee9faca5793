"""Whether an agent's night leaves experience to be compressed."""

from memcore.config.experience import ExperienceCompressorConfig
from memcore.ledger.ledger import Ledger


def wants_compression(ledger: Ledger, config: ExperienceCompressorConfig, *, company: str, agent_id: str) -> bool:
    """Tell whether to ring for the compression of this agent's experience; one look at an index.

    Raises MemoryRetrievalError, MemoryConnectionError.
    """
    return config.enabled and ledger.experiences.has_raw(company, agent_id)

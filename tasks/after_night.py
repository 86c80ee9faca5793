"""What follows a night that is done: its experience is rung for, and its wiki written; neither makes it undone."""

import logging

from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.experience.after_night import wants_compression
from tasks.crew import Crew

_log = logging.getLogger("memtend.jobs")


def after_night(agent_id: str, crew: Crew) -> None:
    """Ring for the agent's raw experience, if it has any, and export its wiki, if the policy says so."""
    config = crew.policy.memory.consolidation.experience_compressor
    try:
        if wants_compression(crew.ledger, config, company=crew.company, agent_id=agent_id):
            crew.bell.ring_experience(crew.company, [agent_id])
    except MemoryError as error:
        # The raw rows stay, and the agent's next night rings for them.
        _log.warning("night.experience_waits", extra={"agent_id": agent_id, "error": type(error).__name__})
    crew.export_wiki(agent_id)

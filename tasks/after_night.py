"""What follows a night that is done: experience is rung for, lessons are passed on, the wiki is written.

None of it makes the night undone.
"""

import logging

from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.experience.after_night import wants_compression
from tasks.crew import Crew

_log = logging.getLogger("memtend.jobs")


def after_night(agent_id: str, crew: Crew) -> None:
    """Ring for the agent's raw experience, pass its lessons on, and export its wiki, as far as the policy says so."""
    _ring_for_experience(agent_id, crew)
    try:
        crew.pass_on(agent_id)
    except MemoryError as error:
        # They stay unmarked, and the agent's next night passes them on.
        _log.warning("night.lessons_wait", extra={"agent_id": agent_id, "error": type(error).__name__})
    crew.export_wiki(agent_id)


def _ring_for_experience(agent_id: str, crew: Crew) -> None:
    config = crew.policy.memory.consolidation.experience_compressor
    try:
        if wants_compression(crew.ledger, config, company=crew.company, agent_id=agent_id):
            crew.bell.ring_experience(crew.company, [agent_id])
    except MemoryError as error:
        # The raw rows stay, and the agent's next night rings for them.
        _log.warning("night.experience_waits", extra={"agent_id": agent_id, "error": type(error).__name__})

"""The whole data set in the order in which it was stored."""

from collections.abc import Iterator
from datetime import datetime

from examples.demo.fleet.agents import agents
from examples.demo.fleet.day import midnight
from examples.demo.fleet.memory import FleetMemory
from examples.demo.fleet.series import derived
from examples.demo.fleet.told import handwritten


def fleet(now: datetime) -> Iterator[FleetMemory]:
    """Yield every memory of the fleet, oldest first; all lie before ``now``, and the same day gives the same memories.

    ``now`` must know its zone; the last eight months before its midnight are told.
    """
    today = midnight(now)
    memories = [memory for agent in agents() for source in (handwritten, derived) for memory in source(agent.id, today)]
    memories.sort(key=lambda memory: (memory.created_at, memory.agent_id))
    yield from memories

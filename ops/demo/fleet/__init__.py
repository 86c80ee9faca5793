"""The demo's data set: eight agents of an invented software company, and eight months of what they remember."""

from ops.demo.fleet.agents import FleetAgent, agents
from ops.demo.fleet.generator import fleet
from ops.demo.fleet.memory import FleetMemory
from ops.demo.fleet.ordeal import Ordeal, ordeal
from ops.demo.fleet.questions import FleetQuestion, evaluation, searches

__all__ = [
    "FleetAgent",
    "FleetMemory",
    "FleetQuestion",
    "Ordeal",
    "agents",
    "evaluation",
    "fleet",
    "ordeal",
    "searches",
]

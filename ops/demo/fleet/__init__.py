"""The demo's data set: eight agents of an invented company, what they remember, and how their tasks went."""

from ops.demo.fleet.agents import FleetAgent, agents
from ops.demo.fleet.generator import fleet
from ops.demo.fleet.memory import FleetMemory
from ops.demo.fleet.ordeal import Ordeal, ordeal
from ops.demo.fleet.questions import FleetQuestion, evaluation, searches
from ops.demo.fleet.traces import ITS_QUESTION, NEWCOMER, SHARED_FAILURE, traces

__all__ = [
    "ITS_QUESTION",
    "NEWCOMER",
    "SHARED_FAILURE",
    "FleetAgent",
    "FleetMemory",
    "FleetQuestion",
    "Ordeal",
    "agents",
    "evaluation",
    "fleet",
    "ordeal",
    "searches",
    "traces",
]

"""The demo's data set: eight agents of an invented company, what they remember, and how their tasks went."""

from examples.demo.fleet.agents import FleetAgent, agents
from examples.demo.fleet.generator import fleet
from examples.demo.fleet.memory import FleetMemory
from examples.demo.fleet.ordeal import FleetExperience, experience
from examples.demo.fleet.questions import FleetQuestion, evaluation, searches, tests
from examples.demo.fleet.traces import ITS_QUESTION, NEWCOMER, SHARED_FAILURE, traces

__all__ = [
    "ITS_QUESTION",
    "NEWCOMER",
    "SHARED_FAILURE",
    "FleetAgent",
    "FleetExperience",
    "FleetMemory",
    "FleetQuestion",
    "agents",
    "evaluation",
    "experience",
    "fleet",
    "searches",
    "tests",
    "traces",
]

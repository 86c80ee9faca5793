"""The ledger: what must happen and what has happened, as rows; the broker is only a bell.

Behind :class:`Ledger`: agents and when they are due, runs and who holds them, the journal of everything that was put in
and taken out, the kill switch, and the jobs that were given up. SQLite in two files for one machine, PostgreSQL for
many. The names below load their modules when they are first asked for: migrations are not every process's business.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from memcore.extras import require_extra

if TYPE_CHECKING:
    from memcore.ledger.agent import Agent, AgentSpec
    from memcore.ledger.agents import Agents
    from memcore.ledger.attempts import Attempts
    from memcore.ledger.booking import Booking, Tally, Trace
    from memcore.ledger.dead_letters import DeadLetter, DeadLetters
    from memcore.ledger.experiences import ExperienceCounts, Experiences
    from memcore.ledger.journal import Journal
    from memcore.ledger.ledger import Ledger
    from memcore.ledger.run import NewRun, Run, RunState, RunStep
    from memcore.ledger.runs import Runs
    from memcore.ledger.shared_entry import SharedEntry
    from memcore.ledger.shared_log import SharedLog
    from memcore.ledger.slots import next_slot
    from memcore.ledger.switches import Switches
    from memcore.ledger.ticks import Tick, Ticks
    from memcore.ledger.trajectories import Trajectories
    from memcore.ledger.trajectory import Trajectory
    from memcore.ledger.urls import LedgerUrls

__all__ = [
    "Agent",
    "AgentSpec",
    "Agents",
    "Attempts",
    "Booking",
    "DeadLetter",
    "DeadLetters",
    "ExperienceCounts",
    "Experiences",
    "Journal",
    "Ledger",
    "LedgerUrls",
    "NewRun",
    "Run",
    "RunState",
    "RunStep",
    "Runs",
    "SharedEntry",
    "SharedLog",
    "Switches",
    "Tally",
    "Tick",
    "Ticks",
    "Trace",
    "Trajectories",
    "Trajectory",
    "next_slot",
]

require_extra("engine")

_MODULE_OF = {
    name: f"memcore.ledger.{module}"
    for module, names in {
        "agent": ("Agent", "AgentSpec"),
        "agents": ("Agents",),
        "attempts": ("Attempts",),
        "booking": ("Booking", "Tally", "Trace"),
        "dead_letters": ("DeadLetter", "DeadLetters"),
        "experiences": ("ExperienceCounts", "Experiences"),
        "journal": ("Journal",),
        "ledger": ("Ledger",),
        "run": ("NewRun", "Run", "RunState", "RunStep"),
        "runs": ("Runs",),
        "shared_entry": ("SharedEntry",),
        "shared_log": ("SharedLog",),
        "slots": ("next_slot",),
        "switches": ("Switches",),
        "ticks": ("Tick", "Ticks"),
        "trajectories": ("Trajectories",),
        "trajectory": ("Trajectory",),
        "urls": ("LedgerUrls",),
    }.items()
    for name in names
}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    msg = f"module 'memcore.ledger' has no attribute {name!r}"
    raise AttributeError(msg)

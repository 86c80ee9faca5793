"""The ledger: what must happen and what has happened, as rows; the broker is only a signal.

Behind :class:`Ledger`: agents and when they are due, runs and who holds them, the journal of everything that was put in
and taken out, the kill switch, and dead letters. SQLite in two files for one machine, PostgreSQL for many. The names
below load their modules on first use: few processes need the migrations.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from memcore.extras import require_extra

if TYPE_CHECKING:
    from memcore.ledger.agents import Agent, Agents, AgentSpec, Switches, Tick, Ticks, next_slot
    from memcore.ledger.database import LedgerUrls
    from memcore.ledger.dead_letters import Attempts, DeadLetter, DeadLetters
    from memcore.ledger.journal import Counts, EntryTrace, Journal, JournalEntry
    from memcore.ledger.learning.experiences import ExperienceCounts, Experiences
    from memcore.ledger.learning.trajectories import Trajectories, Trajectory
    from memcore.ledger.ledger import Ledger
    from memcore.ledger.organization.shared_log import SharedEntry, SharedLog
    from memcore.ledger.runs import NewRun, Run, Runs, RunState, RunStep

__all__ = [
    "Agent",
    "AgentSpec",
    "Agents",
    "Attempts",
    "Counts",
    "DeadLetter",
    "DeadLetters",
    "EntryTrace",
    "ExperienceCounts",
    "Experiences",
    "Journal",
    "JournalEntry",
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
    "Tick",
    "Ticks",
    "Trajectories",
    "Trajectory",
    "next_slot",
]

require_extra("engine")

_MODULE_OF = {
    name: f"memcore.ledger.{module}"
    for module, names in {
        "agents": "Agent AgentSpec Agents Switches Tick Ticks next_slot",
        "database": "LedgerUrls",
        "dead_letters": "Attempts DeadLetter DeadLetters",
        "journal": "Counts EntryTrace Journal JournalEntry",
        "learning.experiences": "ExperienceCounts Experiences",
        "learning.trajectories": "Trajectories Trajectory",
        "ledger": "Ledger",
        "organization.shared_log": "SharedEntry SharedLog",
        "runs": "NewRun Run RunState RunStep Runs",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    msg = f"module 'memcore.ledger' has no attribute {name!r}"
    raise AttributeError(msg)

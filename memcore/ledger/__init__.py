"""The ledger: what must happen and what has happened, as rows; the broker is only a signal.

Behind :class:`Ledger`: agents and when they are due, runs and who holds them, the journal of everything that was put in
and taken out, the kill switch, and dead letters. SQLite in two files for one machine, PostgreSQL for many. The names
below load their modules on first use: few processes need the migrations.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from memcore.extras import require_extra

if TYPE_CHECKING:
    from memcore.ledger.agents import AgentSpec, Tick
    from memcore.ledger.database import LedgerUrls
    from memcore.ledger.journal import JournalEntry
    from memcore.ledger.learning.experiences import ExperienceCounts
    from memcore.ledger.learning.trajectories import Trajectory
    from memcore.ledger.ledger import Ledger
    from memcore.ledger.organization.shared_log import SharedLog
    from memcore.ledger.runs import NewRun, Run, RunState, RunStep

__all__ = [
    "AgentSpec",
    "ExperienceCounts",
    "JournalEntry",
    "Ledger",
    "LedgerUrls",
    "NewRun",
    "Run",
    "RunState",
    "RunStep",
    "SharedLog",
    "Tick",
    "Trajectory",
]

require_extra("engine")

_MODULE_OF = {
    **dict.fromkeys(("AgentSpec", "Tick"), "memcore.ledger.agents"),
    **dict.fromkeys(("NewRun", "Run", "RunState", "RunStep"), "memcore.ledger.runs"),
    "ExperienceCounts": "memcore.ledger.learning.experiences",
    "JournalEntry": "memcore.ledger.journal",
    "Ledger": "memcore.ledger.ledger",
    "LedgerUrls": "memcore.ledger.database",
    "SharedLog": "memcore.ledger.organization.shared_log",
    "Trajectory": "memcore.ledger.learning.trajectories",
}


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    msg = f"module 'memcore.ledger' has no attribute {name!r}"
    raise AttributeError(msg)

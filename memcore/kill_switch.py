"""The kill switch: three switches, each of which stops maintenance; read anew on every call."""

import builtins

from memcore.errors import MaintenancePausedError
from memcore.ledger.ledger import Ledger


def check_kill_switch(ledger: Ledger, *, company: str, agent_id: str, is_enabled: bool = True) -> None:
    """Return if the agent may be maintained now. Raises MaintenancePausedError, also when a switch cannot be read.

    The policy's ``consolidation.enabled`` counts where it is given, beside the ledger's two switches.
    """
    reason = None
    try:
        if not is_enabled:
            reason = "maintenance is off: consolidation.enabled is false"
        elif ledger.switches.paused(company):
            reason = "maintenance is paused for all agents"
        elif (agent := ledger.agents.get(company, agent_id)) is not None and agent.paused:
            reason = "maintenance is paused for this agent"
    except (builtins.MemoryError, RecursionError):
        raise
    except Exception as error:
        # An operator who has paused must be obeyed even when the ledger is in trouble: not knowing means no.
        raise MaintenancePausedError(
            f"the kill switch cannot be read ({type(error).__name__}), so maintenance does not run"
        ) from error
    if reason is not None:
        raise MaintenancePausedError(reason)

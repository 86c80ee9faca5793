"""The kill switch: three switches, each of which stops maintenance; read anew on every call."""

import builtins

from memcore.errors import MaintenancePausedError
from memcore.ledger.ledger import Ledger


class KillSwitch:
    """Checks whether an agent may be maintained now.

    Args:
        is_enabled: the policy's ``consolidation.enabled``; left out, only the ledger's two switches count.
    """

    def __init__(self, ledger: Ledger, *, company: str, agent_id: str, is_enabled: bool = True) -> None:
        self._switches = ledger.switches
        self._agents = ledger.agents
        self._is_enabled = is_enabled
        self._company = company
        self._agent_id = agent_id

    def check(self) -> None:
        """Return if nothing pauses the agent. Raises MaintenancePausedError, also when a switch cannot be read."""
        reason = self._reason()
        if reason is not None:
            raise MaintenancePausedError(reason)

    def _reason(self) -> str | None:
        try:
            if not self._is_enabled:
                return "maintenance is off: consolidation.enabled is false"
            if self._switches.paused(self._company):
                return "maintenance is paused for all agents"
            agent = self._agents.get(self._company, self._agent_id)
        except (builtins.MemoryError, RecursionError):
            raise
        except Exception as error:
            # An operator who has paused must be obeyed even when the ledger is in trouble: not knowing means no.
            raise MaintenancePausedError(
                f"the kill switch cannot be read ({type(error).__name__}), so maintenance does not run"
            ) from error
        return "maintenance is paused for this agent" if agent is not None and agent.paused else None

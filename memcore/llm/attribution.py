"""For whom a language model works, so that every token has a reason."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """Who pays for a call.

    Attributes:
        company: whose budget.
        agent_id: for which agent.
        run_id: in which run; None outside of runs.
        purpose: what for, as ``system:memory:consolidate:semantic``.
    """

    company: str
    agent_id: str
    run_id: str | None
    purpose: str

"""A question to a language model as the ledger knows it, and what such questions used."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class CallState(StrEnum):
    """How far a call has come.

    ``asking`` is also what remains of a process that died while it waited: what it reserved stays spent. ``failed``
    ended in trouble, ``refused`` was over the budget and asked nobody.
    """

    ASKING = "asking"
    ANSWERED = "answered"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What calls used, or what was set aside for them.

    Attributes:
        prompt_tokens: read.
        completion_tokens: written.
        cost: in the currency of the price list.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        """Read and written together, as budgets count them."""
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The most that one agent may use in a day; None is no cap."""

    tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DaySpent:
    """What an agent's calls used on a day, with what is set aside for calls under way."""

    tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCall:
    """A call that is about to be made.

    Attributes:
        company: whose budget.
        agent_id: for which agent.
        run_id: in which run; None outside of runs.
        question_id: names the question; asked again, it is another call.
        purpose: what for.
        model: who is asked.
        most: what it may use at most.
    """

    company: str
    agent_id: str
    run_id: str | None
    question_id: str
    purpose: str
    model: str
    most: Spent


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What was set aside for a call; None as ``call_id`` when it would have gone over the budget.

    Attributes:
        call_id: names the call until it is settled.
        before: what the agent had used on that day, without this call.
        until: when the next day's budget begins.
    """

    call_id: str | None
    before: DaySpent
    until: datetime

"""What language models may cost."""

from pydantic import Field

from memcore.frozen import Frozen


class BudgetsConfig(Frozen):
    """Cap the LLM steps of one agent per UTC day; a step above the cap waits for the next day.

    Attributes:
        tokens_per_agent_per_day: input and output tokens together; 0 lets every step wait, None sets no cap.
        cost_per_agent_per_day: in the currency of the price list; 0 allows only models that cost nothing, None sets no
            cap.
    """

    # One synthesis reads at most 20,000 characters, about 5,000 tokens, and writes 500: some 36 groups a day.
    tokens_per_agent_per_day: int | None = Field(default=200_000, ge=0)
    cost_per_agent_per_day: float | None = Field(default=None, ge=0.0)

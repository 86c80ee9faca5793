"""Policy keys of language models: requests, prices and budgets."""

from pydantic import Field

from memcore.models.base import Frozen, NotBlankStr, ReadOnlyMap, ReadOnlyMapping

#: Longest time limit of one request, in seconds: a job may take 50 minutes, and asks several times.
MAX_TIMEOUT_SECONDS = 600.0

#: Longest patience, in hours (four weeks): an agent's next run waits as long.
MAX_PATIENCE_HOURS = 672.0

#: Most requests for one question: the pauses between them double, and a job has a time limit.
MAX_ATTEMPTS = 10


class ModelPrice(Frozen):
    """State the price of a model, in a currency of your choice.

    Attributes:
        prompt_per_million: the price of a million tokens that the model reads.
        completion_per_million: the price of a million tokens that the model writes.
    """

    prompt_per_million: float = Field(ge=0.0)
    completion_per_million: float = Field(ge=0.0)

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return what so many tokens cost."""
        return (prompt_tokens * self.prompt_per_million + completion_tokens * self.completion_per_million) / 1_000_000


#: The price of a model that is not listed.
FREE = ModelPrice(prompt_per_million=0.0, completion_per_million=0.0)


class LLMConfig(Frozen):
    """Choose the model, and how its server is asked; its address and key are settings.

    Attributes:
        model: the model for every step that names no model of its own.
        timeout_seconds: the time limit of one request.
        attempts: the requests for one question, the first one included.
        patience_hours: how long a maintenance run asks a model that is away again and again, counted from the first
            failure, before it makes its summaries without one; 0 does not wait.
        prices: ``prompt_per_million`` and ``completion_per_million`` for each model; a model that is not listed costs
            nothing.
    """

    model: NotBlankStr | None = None
    timeout_seconds: float = Field(default=60.0, ge=1.0, le=MAX_TIMEOUT_SECONDS)
    attempts: int = Field(default=4, ge=1, le=MAX_ATTEMPTS)
    patience_hours: float = Field(default=24.0, ge=0.0, le=MAX_PATIENCE_HOURS)
    prices: ReadOnlyMapping[NotBlankStr, ModelPrice] = ReadOnlyMap({})


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

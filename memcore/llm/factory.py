"""Builds the model of an installation from its settings and its policy."""

from datetime import timedelta
from typing import TYPE_CHECKING

from memcore.clock import Clock, utc_now
from memcore.llm.accounting import AccountedModel
from memcore.llm.openai_compatible import OpenAICompatibleProvider
from memcore.llm.retry import Retrying

if TYPE_CHECKING:
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings
    from memcore.ledger.ledger import Ledger


def create_model(
    settings: "Settings", policy: "Policy", ledger: "Ledger", *, clock: Clock = utc_now
) -> AccountedModel | None:
    """Build the model that jobs ask, or return None without an address; connects with the first question.

    The caller closes it, and asks it from one event loop.
    """
    provider = create_provider(settings, policy, clock=clock)
    if provider is None:
        return None
    config = policy.memory.llm
    return AccountedModel(
        Retrying(provider, attempts=config.attempts),
        ledger.spending,
        budgets=policy.memory.budgets,
        prices=config.prices,
        model=config.model,
    )


def create_provider(
    settings: "Settings", policy: "Policy", *, clock: Clock = utc_now
) -> OpenAICompatibleProvider | None:
    """Build the provider alone, without retries and account, or return None without an address."""
    if settings.llm_url is None:
        return None
    config = policy.memory.llm
    return OpenAICompatibleProvider(
        settings.llm_url,
        key=settings.llm_api_key,
        model=config.model,
        timeout=timedelta(seconds=config.timeout_seconds),
        clock=clock,
    )

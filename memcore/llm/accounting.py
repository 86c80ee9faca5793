"""A model with a budget and an account: reserves every token before it is used, under a purpose; and its factory."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

from memcore.clock import Clock, utc_now
from memcore.config.llm import FREE, BudgetsConfig, ModelPrice
from memcore.deadline.limits import unlimited
from memcore.errors import (
    BudgetExceededError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    ProviderError,
)
from memcore.ledger.llm_usage import CallState, Caps, ModelSpending, NewCall, Reservation, Spent
from memcore.llm.learnt import ServerKnowledge
from memcore.llm.protocol import (
    Attribution,
    Completion,
    CompletionProvider,
    CompletionRequest,
    estimated_prompt,
)
from memcore.llm.provider import ServerProvider
from memcore.llm.retry import Retrying, Tries
from memcore.telemetry import tracing
from memcore.telemetry.events import Event
from memcore.telemetry.tracing import Attribute, Attributes

if TYPE_CHECKING:
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings
    from memcore.ledger.ledger import Ledger

_log = logging.getLogger(__name__)


class AccountedModel:
    """Asks a model within an agent's budget (see memcore.llm.protocol.Model).

    A process that dies between question and answer leaves its reservation spent, and its call in state ``asking``:
    nobody knows what it used, and a hard cap counts it. ``model`` is asked where a request names none.
    """

    def __init__(
        self,
        retrying: Retrying,
        spending: ModelSpending,
        *,
        budgets: BudgetsConfig,
        prices: Mapping[str, ModelPrice],
        model: str | None,
    ) -> None:
        self._retrying = retrying
        self._spending = spending
        self._caps = Caps(tokens=budgets.tokens_per_agent_per_day, cost=budgets.cost_per_agent_per_day)
        self._prices = prices
        self._model = model

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        """Return the answer, its cost in it.

        Raises:
            BudgetExceededError, RetryExhaustedError, ProviderError: as Model.ask, and where no model is named.
            MemoryConnectionError, MemoryStoreError: the account cannot be written; nothing was asked.
        """
        model = request.model or self._model
        if model is None:
            raise ProviderError("no language model is named: name one in memory.llm.model", kind="no_model")
        price = self._prices.get(model, FREE)
        call_id = self._reserved(request, price, model=model, by=by, key=key)
        tries = Tries()
        try:
            with tracing.span(f"chat {model}", _asked(request, model, by), kind="client") as step:
                with unlimited():
                    completion = await self._retrying.complete(
                        request.model_copy(update={"model": model}), idempotency_key=key, tries=tries
                    )
                step.set(_answered(completion, tries))
        except ProviderError as error:
            spent = _spent(price, tries.prompt_tokens, tries.completion_tokens)
            # An attempt without an answer may have been billed: the whole reservation stays spent.
            self._settle(call_id, CallState.FAILED, None if tries.is_unclear else spent, tries, by=by, failure=error)
            about = {"status": error.status, "kind": error.kind}
            facts = {"error": type(error).__name__, "attempts": tries.count, **about, **by.logged}
            _log.warning(Event.LLM_CALL_FAILED, extra=facts)
            raise
        except asyncio.CancelledError:
            # Who asked waits no longer; the server may have answered, and bills for it.
            self._settle(call_id, CallState.FAILED, None, tries, by=by)
            raise
        spent = _spent(
            price,
            tries.prompt_tokens + completion.prompt_tokens,
            tries.completion_tokens + completion.completion_tokens,
        )
        self._settle(call_id, CallState.ANSWERED, spent, tries, by=by)
        _log.info(Event.LLM_CALL_ANSWERED, extra={"tokens": spent.tokens, "attempts": tries.count, **by.logged})
        return completion.model_copy(update={"cost": spent.cost})

    async def close(self) -> None:
        """Close the connections to the provider; the ledger belongs to its opener."""
        await self._retrying.close()

    def _reserved(self, request: CompletionRequest, price: ModelPrice, *, model: str, by: Attribution, key: str) -> str:
        most = _spent(price, estimated_prompt(request), request.max_tokens)
        call = NewCall(**asdict(by), question_id=key, model=model, most=most)
        reservation = self._spending.reserve(call, caps=self._caps)
        if reservation.call_id is None:
            _log.info(Event.LLM_BUDGET_EXCEEDED, extra={"tokens": call.most.tokens, **by.logged})
            raise BudgetExceededError(self._sentence(call.most, reservation), until=reservation.until)
        return reservation.call_id

    def _sentence(self, most: Spent, reservation: Reservation) -> str:
        before, caps = reservation.before, self._caps
        if caps.tokens is not None and before.tokens + most.tokens > caps.tokens:
            return (
                f"memory.budgets.tokens_per_agent_per_day: {before.tokens} of {caps.tokens} are used today, "
                f"and this call may use {most.tokens}"
            )
        return (
            f"memory.budgets.cost_per_agent_per_day: {before.cost:.4f} of {caps.cost} are spent today, "
            f"and this call may cost {most.cost:.4f}"
        )

    def _settle(
        self,
        call_id: str,
        state: CallState,
        spent: Spent | None,
        tries: Tries,
        *,
        by: Attribution,
        failure: ProviderError | None = None,
    ) -> None:
        status, kind = (None, None) if failure is None else (failure.status, failure.kind)
        try:
            self._spending.settle(call_id, state, spent=spent, attempts=tries.count, status=status, error_kind=kind)
        except MemoryError as error:
            # The answer is paid for and must not be lost over its accounting; the reservation stands for it.
            _log.warning(
                Event.LLM_ACCOUNT_UNSETTLED, extra={"error": type(error).__name__, "call_id": call_id, **by.logged}
            )


def _asked(request: CompletionRequest, model: str, by: Attribution) -> Attributes:
    about: dict[Attribute, str | int] = {
        Attribute.OPERATION: "chat",
        Attribute.MODEL: model,
        Attribute.MAX_TOKENS: request.max_tokens,
        Attribute.AGENT: by.agent_id,
        Attribute.PURPOSE: by.purpose,
    }
    return about if by.run_id is None else {**about, Attribute.RUN: by.run_id}


def _answered(completion: Completion, tries: Tries) -> Attributes:
    return {
        Attribute.INPUT_TOKENS: completion.prompt_tokens,
        Attribute.OUTPUT_TOKENS: completion.completion_tokens,
        Attribute.ATTEMPTS: tries.count,
    }


def _spent(price: ModelPrice, prompt_tokens: int, completion_tokens: int) -> Spent:
    cost = price.of(prompt_tokens, completion_tokens)
    return Spent(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, cost=cost)


def create_model(
    settings: "Settings",
    policy: "Policy",
    ledger: "Ledger",
    *,
    provider: CompletionProvider | None = None,
    clock: Clock = utc_now,
) -> AccountedModel | None:
    """Build the model that jobs and engines ask, or return None without an address; ask it from one event loop.

    A ``provider`` is asked in place of the server at the address, within the same budgets.
    """
    provider = provider or create_provider(settings, policy, ledger, clock=clock)
    if provider is None:
        return None
    config = settings.llm(policy.memory.llm)
    return AccountedModel(
        Retrying(provider, attempts=config.attempts),
        ledger.spending,
        budgets=policy.memory.budgets,
        prices=config.prices,
        model=config.model,
    )


def create_provider(
    settings: "Settings",
    policy: "Policy",
    ledger: "Ledger | None" = None,
    *,
    within: timedelta | None = None,
    clock: Clock = utc_now,
) -> ServerProvider | None:
    """Build the provider alone, without retries and account, or return None without an address.

    What it learns of the server is kept in the ledger, or without one as long as it lives. ``within`` is the time limit
    of a request; None is the policy's.
    """
    if settings.llm_url is None:
        return None
    config = settings.llm(policy.memory.llm)
    return ServerProvider(
        settings.llm_url,
        key=settings.llm_api_key,
        model=config.model,
        timeout=timedelta(seconds=config.timeout_seconds) if within is None else within,
        api=config.api,
        context_tokens=config.context_tokens,
        extra_body=config.extra_body,
        extra_headers=config.extra_headers,
        knowledge=ServerKnowledge(
            settings.llm_url, company=settings.company, servers=None if ledger is None else ledger.model_servers
        ),
        clock=clock,
    )

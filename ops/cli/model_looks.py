"""What the doctor looks at around language models."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

from memcore.config.model_steps import model_steps
from memcore.config.settings import Settings
from memcore.errors import MemoryConnectionError, ProviderError
from memcore.llm.factory import create_provider
from memcore.llm.openai_compatible import OpenAICompatibleProvider
from ops.cli.finding import Finding, require_answer
from ops.cli.session import ledger_of, policy_of

#: Agents that are named; more are counted.
_NAMED = 5


def language_model(settings: Settings) -> Iterator[Finding]:
    """Look whether every step that asks a model names one, and whether its server answers; the question is free."""
    policy = policy_of(settings)
    steps = model_steps(policy.memory)
    provider = create_provider(settings, policy)
    if provider is None:
        yield Finding(
            check="language model",
            ok=not steps,
            seen=f"no address, and {', '.join(steps)} needs one" if steps else "none needed",
            mend="set MEMTEND_LLM_URL, or turn the step off; until then it waits",
        )
        return
    for step, model in steps.items():
        yield Finding(
            check=f"model of {step.removeprefix('memory.')}",
            ok=model is not None,
            seen=model or "none is named",
            mend="name one: memory.llm.model",
        )
    try:
        require_answer(settings.llm_url or "")
        offered = asyncio.run(_offered(provider))
    except (ProviderError, MemoryConnectionError) as error:
        yield Finding(check="language model", ok=False, seen=str(error), mend="until it answers, its steps wait")
        return
    # Gateways answer under names that they do not list, so a name that is missing is told and is no defect.
    missing = sorted({model for model in steps.values() if model is not None} - set(offered))
    seen = f"answers, {len(offered)} models" + (f"; not on its list: {', '.join(missing)}" if missing else "")
    yield Finding(check="language model", ok=True, seen=seen)


def model_budget(settings: Settings) -> Iterator[Finding]:
    """Look whose budget is spent today."""
    policy = policy_of(settings)
    if not model_steps(policy.memory):
        return
    with ledger_of(settings) as ledger:
        waiting = ledger.spending.waiting(settings.company, datetime.now(UTC).date())
    cap = policy.memory.budgets.tokens_per_agent_per_day
    more = f" and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else ""
    if cap == 0:
        seen = "0 tokens: every step that asks a model waits"
    elif waiting:
        seen = f"spent today, waiting for tomorrow: {', '.join(waiting[:_NAMED])}{more}"
    else:
        seen = "nobody waits"
    yield Finding(
        check="model budget",
        ok=cap != 0 and not waiting,
        seen=seen,
        mend="raise memory.budgets, or let them wait; `memtend usage` says what it went for",
    )


async def _offered(provider: OpenAICompatibleProvider) -> tuple[str, ...]:
    try:
        return await provider.models()
    finally:
        await provider.close()

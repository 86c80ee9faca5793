"""One real question to a model, in the form of those that jobs ask: whether it answers, how fast, what was learnt."""

import time
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING

from pydantic import Field

from memcore import ids
from memcore.clock import Clock, utc_now
from memcore.config.llm import Api, BudgetsConfig
from memcore.errors import MalformedAnswerError, ProviderError
from memcore.llm.accounting import AccountedModel, create_provider
from memcore.llm.fitting import CONTEXT_TOO_SMALL
from memcore.llm.learnt import Learnt
from memcore.llm.protocol import CHECK_PURPOSE, Attribution, Completion, CompletionRequest
from memcore.llm.provider import ServerProvider
from memcore.llm.retry import Retrying
from memcore.llm.structured import ask_structured
from memcore.models.base import Frozen
from memcore.models.execution import ChatMessage, MessageRole
from memcore.untrusted_text import TAG_MEMORY_ENTRY, untrusted_content_directive, wrap_untrusted

if TYPE_CHECKING:
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings
    from memcore.ledger.ledger import Ledger

#: The longest answer, in tokens: a model that reasons needs most of it before it answers.
_MAX_TOKENS = 1_000

#: Names of models that are named where the one that was asked does not exist.
_NAMED = 8

#: The kind of failure where no model is named.
_UNNAMED = "no_model"

#: What to do about each kind of failure that no status explains.
_NEXT_STEPS: dict[str | None, str] = {
    "malformed": "choose a model that writes JSON, such as a larger one",
    "timeout": "raise memory.llm.timeout_seconds, or choose a smaller model",
    "connection": "start the server, or check MEMTEND_LLM_URL",
    "no_url": "check MEMTEND_LLM_URL",
    _UNNAMED: "name one in memory.llm.model",
    "unreadable": "check MEMTEND_LLM_URL and memory.llm.api",
    "filtered": "choose another model: this one's filter refuses a harmless question",
    CONTEXT_TOO_SMALL: "choose a model with a larger context, or set memory.llm.context_tokens",
}


class ModelCheck(Frozen):
    """What a question to a model showed.

    Attributes:
        server: its address, without a password.
        api: how it is spoken to.
        has_form: it answered in the form that was asked for.
        seconds: until the whole answer was there; of a failure, until it was known.
        tokens_per_second: written; None where nothing was.
        learnt: what is known of the server, a sentence each.
        status: the HTTP status that refused.
        kind: the type of the failure.
        problem: what is wrong; None where nothing is.
        next_step: what to do about it.
        offered: names of models that the server lists, where it has not the one that was asked, or none is named.
    """

    server: str
    api: Api
    model: str
    has_form: bool
    seconds: float
    tokens_per_second: float | None = None
    learnt: tuple[str, ...] = ()
    status: int | None = None
    kind: str | None = None
    problem: str | None = None
    next_step: str | None = None
    offered: tuple[str, ...] = ()


class _Form(Frozen):
    """The form of the answer."""

    city: str = Field(min_length=1, max_length=100)
    cats: int = Field(ge=0, le=1_000)


_REQUEST = CompletionRequest(
    messages=(
        ChatMessage(
            role=MessageRole.SYSTEM,
            content="You read a note and return what it says, as JSON of the schema with the keys city and cats. "
            + untrusted_content_directive(TAG_MEMORY_ENTRY),
        ),
        ChatMessage(
            role=MessageRole.USER,
            content=wrap_untrusted(TAG_MEMORY_ENTRY, "Mira moved to Lisbon and has three cats.")
            + "\nWhich city does Mira live in, and how many cats does she have?",
        ),
    ),
    temperature=0.0,
    max_tokens=_MAX_TOKENS,
)


class _Counting:
    """Counts what a model writes (see memcore.llm.protocol.Model)."""

    def __init__(self, model: AccountedModel) -> None:
        self._model = model
        self.written = 0

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        """Return the answer."""
        completion = await self._model.ask(request, by=by, key=key)
        self.written += completion.completion_tokens
        return completion


async def check_model(
    settings: "Settings",
    policy: "Policy",
    ledger: "Ledger",
    *,
    model: str | None = None,
    within: timedelta | None = None,
    anew: bool = False,
    clock: Clock = utc_now,
) -> ModelCheck | None:
    """Ask the configured server one question, once; None where no address is set.

    ``model`` None is that of ``memory.llm.model``, ``within`` None the limit of ``memory.llm.timeout_seconds``; with
    ``anew`` what was learnt of the model before is forgotten.

    Raises MemoryConnectionError, MemoryStoreError: the account cannot be written; nothing was asked.
    """
    provider = create_provider(settings, policy, ledger, within=within, clock=clock)
    if provider is None:
        return None
    config = settings.llm(policy.memory.llm)
    name = model or config.model
    knowledge = provider.knowledge
    before = knowledge.of(name or "")
    if anew and name is not None:
        knowledge.forget(name)
    asked = _Counting(
        AccountedModel(
            Retrying(provider, attempts=1),
            ledger.spending,
            budgets=BudgetsConfig(tokens_per_agent_per_day=None),
            prices=config.prices,
            model=name,
        )
    )
    by = Attribution(company=settings.company, agent_id=CHECK_PURPOSE, run_id=None, purpose=CHECK_PURPOSE)
    started, error = time.monotonic(), None
    try:
        # A key of its own: a server that knows the question would answer from before.
        await ask_structured(asked, _REQUEST.model_copy(update={"model": name}), _Form, by=by, key=ids.new_id())
    except ProviderError as failure:
        error = failure
    seconds = time.monotonic() - started
    try:
        is_unknown = error is not None and (error.status == HTTPStatus.NOT_FOUND or error.kind == _UNNAMED)
        offered = await _offered(provider) if is_unknown else ()
    finally:
        await provider.close()
    if error is not None and before != Learnt():
        # A server that is away has taught nothing.
        knowledge.keep(name or "", before)
    known = knowledge.of(name or "")
    step = None if error is None else _next_step(error)
    return ModelCheck(
        server=provider.server,
        api=provider.api(known),
        model=name or "",
        has_form=error is None,
        seconds=round(seconds, 3),
        tokens_per_second=round(asked.written / seconds, 1) if asked.written and seconds > 0 else None,
        learnt=known.sentences,
        status=None if error is None else error.status,
        kind=None if error is None else _kind_of(error),
        problem=None if error is None else str(error).removesuffix(f": {step}"),
        next_step=step,
        offered=offered,
    )


async def _offered(provider: ServerProvider) -> tuple[str, ...]:
    try:
        return (await provider.models())[:_NAMED]
    except ProviderError:
        return ()


def _kind_of(error: ProviderError) -> str | None:
    return "malformed" if isinstance(error, MalformedAnswerError) else error.kind


def _next_step(error: ProviderError) -> str:
    return error.next_step or _NEXT_STEPS.get(_kind_of(error), "see the server's log, and ask again later")

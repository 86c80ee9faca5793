"""The provider: asks one server in its own dialect, and learns what the server refuses."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Any

import orjson
from httpx import (
    AsyncClient,
    ConnectError,
    ConnectTimeout,
    InvalidURL,
    PoolTimeout,
    TransportError,
    UnsupportedProtocol,
)
from pydantic import SecretStr

from memcore.bounded_http import AnswerError, AnswerTooSlowError, HttpResponse, ask, open_client
from memcore.clock import Clock, utc_now
from memcore.config.llm import Api
from memcore.config.urls import masked
from memcore.errors import ProviderError, ProviderUnavailableError
from memcore.llm.dialects import api_of, dialect_of
from memcore.llm.dialects.protocol import Dialect, Style
from memcore.llm.fitting import fitted, needed_tokens, with_schema_in_prompt
from memcore.llm.learnt import MOST_DENSITY, Learnt, ServerKnowledge
from memcore.llm.protocol import Completion, CompletionRequest, estimated_prompt, estimated_tokens
from memcore.llm.refusals import About, Refusal

#: Largest answer that is read, in bytes; the longest that models write is some 500 KB.
MAX_ANSWER_BYTES = 4_194_304

#: Most requests for one question, where each refusal teaches something: one for each parameter, and some for the
#: context, whose size not every server says.
MOST_REQUESTS = 10

#: The factor by which an estimate grows when a text that was cut is still too long.
_DENSER = 1.25

#: The least number of tokens for one that is estimated, where a server cuts a longer prompt without a word: most
#: languages and figures have no more.
_SILENT_DENSITY = 4 / 3

#: Least context that is tried where the server does not say its size, in tokens.
_LEAST_GUESS = 1_024

#: Answers that another try may change, beside all from 500 on.
_PASSING = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)

#: The type of OpenAI's 429 for an account without money: it stays until a person pays.
_UNPAID = "insufficient_quota"

#: Refusals that hold for every question to a model, whatever it asks.
_ALL_REFUSED = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}
)

#: For how long such a refusal is repeated here, without a request: hundreds of questions may wait for the same key.
REFUSAL_HOLDS = timedelta(seconds=30)

#: Failures before anything was sent, and so before anything could be billed.
_UNSENT = (ConnectError, ConnectTimeout, PoolTimeout, UnsupportedProtocol)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Try:
    """How a question is asked: what is known or supposed of the server, and what holds for this question alone.

    Attributes:
        context: the size of the context by a refusal of this question.
        is_sure: the size of the context is kept also where the question is not asked with it.
    """

    learnt: Learnt
    context: int | None = None
    is_sure: bool = False


class ServerProvider:
    """Asks one server; used from one event loop, on which its connections are opened with the first question.

    Key and headers are in no error and no log, and no redirect is followed with them. ``timeout`` is that of one
    request, from its first byte to the answer's last; ``model`` is asked where a request names none. What a server
    refuses is asked in another way, within one call, and kept once it has answered.

    Args:
        api: the server's API; ``auto`` follows from the URL.
        context_tokens: the size of the context; None is learnt.
        extra_body: fields for every question, beside its own.
        extra_headers: headers for every request.
        knowledge: what is known of the server; None learns for as long as this lives.
    """

    def __init__(
        self,
        url: str,
        *,
        key: SecretStr | None = None,
        model: str | None,
        timeout: timedelta,
        api: Api = Api.AUTO,
        context_tokens: int | None = None,
        extra_body: Mapping[str, Any] | None = None,
        extra_headers: Mapping[str, SecretStr] | None = None,
        knowledge: ServerKnowledge | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self._url = url
        self._key = key
        self._model = model
        self._timeout = timeout
        self._is_chosen = api is not Api.AUTO
        self._api = api_of(url, api)
        self._context_tokens = context_tokens
        self._extra_body = dict(extra_body or {})
        self._extra_headers = {name: value.get_secret_value() for name, value in (extra_headers or {}).items()}
        self.knowledge = knowledge or ServerKnowledge(url)
        self._clock = clock
        self._client: AsyncClient | None = None
        # Of each model, until when all its questions are refused, and as what.
        self._refusals: dict[str, tuple[datetime, Callable[[], ProviderError]]] = {}

    @property
    def server(self) -> str:
        """The address, without a password."""
        return masked(self._url)

    def api(self, learnt: Learnt) -> Api:
        """Return the API over which a model is asked."""
        return self._api if learnt.api is None else learnt.api

    async def complete(self, request: CompletionRequest, *, idempotency_key: str) -> Completion:
        """Return the server's answer; raises what CompletionProvider.complete says, without a word of the prompt.

        A request whose body differs from the first that is tried has a key of its own, the same for the same body. A
        key, an account or a model that was refused is refused without a request for half a minute.
        """
        model = request.model or self._model
        if model is None:
            raise ProviderError("no language model is named: name one in memory.llm.model", kind="no_model")
        until, refused = self._refusals.get(model, (None, None))
        if until is not None and refused is not None and self._clock() < until:
            raise refused()
        request = request.model_copy(update={"model": model})
        known = self.knowledge.of(model)
        trial, plain = _Try(learnt=known), self._body(request, _Try(learnt=Learnt()))
        for left in range(MOST_REQUESTS, 0, -1):
            dialect = self._dialect(trial.learnt)
            try:
                shaped = self._shaped(request, trial)
            except ProviderError:
                if trial.is_sure:
                    self.knowledge.keep(model, trial.learnt)
                raise
            body = self._body(shaped, trial)
            key = _key(idempotency_key, body, plain)
            answer = await self._asked("POST", dialect.path(self._url), dialect, body=body, key=key)
            if answer.status < HTTPStatus.MULTIPLE_CHOICES:
                completion = _read_answer(dialect, answer.content, shaped, model=model)
                if trial.learnt != known:
                    self.knowledge.keep(model, trial.learnt)
                return completion
            refusal = Refusal.of(answer)
            after = self._after(trial, refusal, request, shaped) if left > 1 else None
            if after is None:
                failure = partial(self._refused, answer, refusal)
                if answer.status in _ALL_REFUSED:
                    self._refusals[model] = self._clock() + REFUSAL_HOLDS, failure
                raise failure()
            trial = after
        raise AssertionError("the last request ends the loop")

    async def models(self) -> tuple[str, ...]:
        """Return the names of the models that the server offers, a free question; raises as complete does."""
        dialect = dialect_of(self._api)
        answer = await self._asked("GET", dialect.models_path(self._url), dialect)
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise self._refused(answer, Refusal.of(answer))
        listed = dialect.models(answer.content)
        if listed is None:
            reason = "the language model's server lists its models as nobody can read"
            raise ProviderUnavailableError(reason, status=answer.status, kind="unreadable")
        return listed

    async def close(self) -> None:
        """Close the connections; a later question opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _dialect(self, learnt: Learnt) -> Dialect:
        return dialect_of(self.api(learnt))

    def _context(self, trial: _Try) -> int | None:
        """Return the size of the context: what a person set holds until the server says less."""
        own = self._context_tokens or trial.learnt.context_tokens or self._dialect(trial.learnt).context_tokens
        return min((each for each in (own, trial.context) if each is not None), default=None)

    def _shaped(self, request: CompletionRequest, trial: _Try) -> CompletionRequest:
        learnt = trial.learnt
        if learnt.answer_tokens is not None and request.max_tokens > learnt.answer_tokens:
            request = request.model_copy(update={"max_tokens": learnt.answer_tokens})
        if learnt.no_schema:
            request = with_schema_in_prompt(request)
        is_silent = self._dialect(learnt).context_tokens is not None
        density = max(learnt.density, _SILENT_DENSITY) if is_silent else learnt.density
        return fitted(request, self._context(trial), scale=density)

    def _body(self, request: CompletionRequest, trial: _Try) -> dict[str, Any]:
        learnt = trial.learnt
        style = Style(
            completion_tokens=learnt.completion_tokens,
            temperature=not learnt.no_temperature,
            context_tokens=self._context(trial),
        )
        body = self._dialect(learnt).body(request, style)
        for name, extra in self._extra_body.items():
            own = body.get(name)
            body[name] = {**extra, **own} if isinstance(own, dict) and isinstance(extra, dict) else extra
        return body

    def _after(
        self, trial: _Try, refusal: Refusal, request: CompletionRequest, asked: CompletionRequest
    ) -> _Try | None:
        """Return how to ask after a refusal; None where it teaches nothing that was not tried."""
        for about in refusal.about:
            if about is About.CONTEXT:
                if (smaller := self._after_context(trial, refusal, asked)) is not None:
                    return smaller
                continue
            if about is About.ANSWER_LENGTH and refusal.limit is not None and refusal.limit < asked.max_tokens:
                return replace(trial, learnt=trial.learnt.model_copy(update={"answer_tokens": refusal.limit}))
            if about is About.API and (self._is_chosen or self.api(trial.learnt) is not Api.CHAT):
                continue
            tried = replace(trial, learnt=trial.learnt.without(about))
            # A flag that changes nothing of what is sent would be refused for the same.
            if self._body(self._shaped(request, tried), tried) != self._body(asked, trial):
                return tried
        return None

    def _after_context(self, trial: _Try, refusal: Refusal, asked: CompletionRequest) -> _Try | None:
        before, estimated = self._context(trial), needed_tokens(asked)
        context, density = before, trial.learnt.density
        if refusal.limit is not None and (before is None or refusal.limit < before):
            context = refusal.limit
        elif refusal.limit is not None:
            # The size is known, and the texts have more tokens than was estimated.
            density *= _DENSER
        else:
            needed = estimated + asked.max_tokens
            context = max(_LEAST_GUESS, needed // 2)
            if context >= needed or asked.whole:
                # So short a question fits; and one that must not be cut is not tried shorter.
                return None
        if refusal.prompt_tokens is not None:
            density = max(density, refusal.prompt_tokens / max(1, estimated))
        if density > MOST_DENSITY:
            return None
        # A size that a person set is not learnt over.
        is_kept = self._context_tokens is None
        learnt = trial.learnt.model_copy(
            update={"density": density, **({"context_tokens": context} if is_kept else {})}
        )
        return _Try(learnt=learnt, context=context, is_sure=is_kept and refusal.is_sure)

    async def _asked(
        self, method: str, url: str, dialect: Dialect, *, body: dict[str, Any] | None = None, key: str | None = None
    ) -> HttpResponse:
        headers = {**dialect.headers(self._key), **self._extra_headers}
        if key is not None:
            headers["idempotency-key"] = key
        try:
            return await ask(
                self._opened(),
                method,
                url,
                content=None if body is None else orjson.dumps(body),
                headers=headers,
                max_bytes=MAX_ANSWER_BYTES,
                within=self._timeout,
            )
        except (AnswerError, TransportError, InvalidURL) as error:
            trouble = _classify_error(error, server=self.server)
        # Out here it carries no context: what httpx says may name the address with its password.
        raise trouble

    def _refused(self, answer: HttpResponse, refusal: Refusal) -> ProviderError:
        """Return our error for a status that refuses.

        Its sentence holds the status and a type, and never the server's words: servers quote the prompt that they
        refuse.
        """
        status, kind = refusal.status, refusal.kind
        said = f"the language model's server at {self.server} answers {status}" + (f" ({kind})" if kind else "")
        about: dict[str, Any] = {"status": status, "kind": kind}
        if _UNPAID in {refusal.code, kind}:
            return ProviderError(f"{said}: its account has no money left", **about)
        if status in _PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            wait = answer.asked_pause(now=self._clock())
            return ProviderUnavailableError(said, retry_after=wait, **about)
        return ProviderError(said, next_step=_next_step(status, refusal), **about)

    def _opened(self) -> AsyncClient:
        if self._client is None:
            self._client = open_client(self._url)
        return self._client


def _key(key: str, body: dict[str, Any], plain: dict[str, Any]) -> str:
    if body == plain:
        return key
    return f"{key}/{hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]}"


def _next_step(status: int, refusal: Refusal) -> str:
    match status:
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            return "check MEMTEND_LLM_API_KEY"
        case HTTPStatus.NOT_FOUND:
            return "check MEMTEND_LLM_URL, memory.llm.model and memory.llm.api"
        case HTTPStatus.PAYMENT_REQUIRED:
            return "its account has no money left"
        case _ if About.CONTEXT in refusal.about:
            return "the question is longer than the model's context: choose a model with a larger one"
        case _:
            return "check MEMTEND_LLM_URL, memory.llm.api and the model's name, or see its log"


def _classify_error(error: AnswerError | TransportError | InvalidURL, *, server: str) -> ProviderError:
    """Return our error for a request that got no answer, or one that breaks a limit; ``server`` has no password."""
    if isinstance(error, InvalidURL):
        return ProviderError(f"MEMTEND_LLM_URL: {server} is no URL", kind="no_url")
    if isinstance(error, AnswerError):
        kind = "timeout" if isinstance(error, AnswerTooSlowError) else "unreadable"
        return ProviderUnavailableError(f"the language model's server at {server}: {error}", tokens=None, kind=kind)
    tokens = (0, 0) if isinstance(error, _UNSENT) else None
    problem = type(error).__name__
    reason = f"the language model's server at {server} is away ({problem})"
    return ProviderUnavailableError(reason, tokens=tokens, kind="connection")


def _read_answer(dialect: Dialect, content: bytes, request: CompletionRequest, *, model: str) -> Completion:
    """Return the completion in the body of a server's answer; tokens are estimated where the server does not count.

    Raises:
        ProviderUnavailableError: nobody can read it, or it has no choice; with the tokens that it reports.
        ProviderError: the server's filter took the answer away, and will again.
    """
    used, answer = dialect.usage(content), dialect.answer(content)
    if answer is None:
        reason = "the language model's server answers what nobody can read"
        raise ProviderUnavailableError(reason, tokens=used, status=HTTPStatus.OK, kind="unreadable")
    if answer.is_filtered:
        reason = "the language model's server filters the answer away"
        raise ProviderError(reason, tokens=used, status=HTTPStatus.OK, kind="filtered")
    prompt_tokens, completion_tokens = used or (estimated_prompt(request), estimated_tokens(answer.text))
    return Completion(
        text=answer.text,
        is_cut=answer.is_cut,
        model=model,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
    )

"""Every error as one RFC 9457 document: which field, which limit, whether to try again; never the text of a memory."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import Field
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memcore.clock import utc_now
from memcore.errors import (
    ApprovalClosedError,
    ApprovalLimitError,
    BudgetExceededError,
    LeaseLostError,
    MaintenancePausedError,
    MemoryChannelError,
    MemoryConflictError,
    MemoryConnectionError,
    MemoryEmbeddingError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryInputError,
    MemoryQueueFullError,
    MemoryRefusedError,
    MemoryRetrievalError,
    MemoryStoreError,
    MissingExtraError,
    OrgMemoryAccessDeniedError,
    ProviderUnavailableError,
    SkillLimitError,
)
from memcore.models.base import Frozen, escaped
from memcore.telemetry.events import Event

_log = logging.getLogger(__name__)

#: The media type of a problem.
MEDIA_TYPE = "application/problem+json"

#: Seconds after which to try again, where nobody knows better.
RETRY_SECONDS = 1

#: Longest name of a field in a problem, in characters: a caller may have chosen it.
_LONGEST_FIELD = 200


class MemoryUnauthorizedError(MemoryError):
    """The request has no valid key: send ``Authorization: Bearer mt_...``, see `memtend keys create`."""

    domain_code = "unauthorized"


class MemoryForbiddenError(MemoryError):
    """The key is not for this agent, or not for this verb."""

    domain_code = "denied"


class MemoryRateLimitError(MemoryError):
    """The key sends more requests than it may: wait as long as ``retry_after`` says, in seconds."""

    domain_code = "rate_limited"
    is_retryable = True

    def __init__(self, retry_after: float) -> None:
        super().__init__("the key sends more requests than it may; wait, and send it again")
        self.retry_after = retry_after


class BodyTooLargeError(MemoryError):
    """The body of the request is larger than ``limit`` bytes."""

    domain_code = "too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"body: is larger than {limit} bytes")
        self.limit = limit


class Problem(Frozen):
    """What went wrong, as RFC 9457 writes it.

    Attributes:
        type: names the kind of problem.
        detail: one sentence that says what to change.
        domain_code: ``invalid``, ``not_found``, ``conflict``, ``not_supported``, ``denied``, ``unauthorized``,
            ``rate_limited``, ``too_large``, ``unavailable`` or ``internal``.
        is_retryable: whether the same request may succeed later.
        field: the field that breaks a limit, with dots.
        limit: that limit, where it is a number.
        part: what does not answer: ``store``, ``ledger``, ``broker`` or ``embedder``.
    """

    type: str
    title: str
    status: int = Field(ge=400, le=599)
    detail: str
    domain_code: str
    is_retryable: bool = False
    field: str | None = None
    limit: float | None = None
    part: str | None = None

    titles: ClassVar[Mapping[int, str]] = {
        400: "The request is not valid",
        401: "A key is needed",
        403: "The key is not for this",
        404: "Not found",
        405: "The method is not allowed here",
        409: "Not possible as things stand",
        413: "The body is too large",
        422: "A value breaks a limit",
        429: "Too much at once",
        500: "Something went wrong here",
        501: "Not supported",
        503: "A part of the installation does not answer",
    }

    @classmethod
    def of(cls, status: int, detail: str, *, code: str, **more: Any) -> "Problem":
        """Return the problem of a status and a code."""
        title = cls.titles.get(status, "The request failed")
        return cls(
            type=f"urn:memtend:problem:{code}", title=title, status=status, detail=detail, domain_code=code, **more
        )


#: Errors whose kind their ``domain_code`` does not say: status and code.
_BY_CLASS: tuple[tuple[type[BaseException], int, str], ...] = (
    (OrgMemoryAccessDeniedError, 403, "denied"),
    (BudgetExceededError, 429, "rate_limited"),
    (MemoryQueueFullError, 429, "rate_limited"),
    (MissingExtraError, 501, "not_supported"),
    (ApprovalClosedError, 409, "conflict"),
    (SkillLimitError, 409, "conflict"),
    (ApprovalLimitError, 409, "conflict"),
    (LeaseLostError, 409, "conflict"),
    (MaintenancePausedError, 409, "conflict"),
    (MemoryConnectionError, 503, "unavailable"),
    (MemoryConflictError, 409, "conflict"),
    (MemoryRefusedError, 409, "conflict"),
    (MemoryStoreError, 503, "unavailable"),
    (MemoryRetrievalError, 503, "unavailable"),
    (MemoryEmbeddingError, 503, "unavailable"),
    (ProviderUnavailableError, 503, "unavailable"),
    (TimeoutError, 503, "unavailable"),
)

_BY_CODE = {
    "invalid": 422,
    "not_found": 404,
    "conflict": 409,
    "not_supported": 501,
    "denied": 403,
    "unauthorized": 401,
    "rate_limited": 429,
    "too_large": 413,
}


def problem_of(error: BaseException) -> Problem:
    """Return an error as a problem. What a part of the installation says stays in the log: it may name hosts."""
    own = error.domain_code if isinstance(error, MemoryError) else "internal"
    status, code = next(
        ((status, code) for kind, status, code in _BY_CLASS if isinstance(error, kind)),
        (_BY_CODE.get(own, 500), own if own in _BY_CODE else "internal"),
    )
    is_retryable = isinstance(error, TimeoutError) or (isinstance(error, MemoryError) and error.is_retryable)
    if isinstance(error, MemoryInputError):
        field = escaped(error.field)[:_LONGEST_FIELD]
        return Problem.of(status, f"{field}: {escaped(error.problem)}", code=code, field=field)
    if status == 500 or code == "unavailable":  # noqa: PLR2004  # a status
        detail = "send it again later" if is_retryable else "the log of `memtend serve` says what happened"
    else:
        detail = escaped(str(error)) or type(error).__name__
    limit = error.limit if isinstance(error, BodyTooLargeError | ApprovalLimitError) else None
    refused = error.field if isinstance(error, MemoryChannelError) else None
    part = error.part if isinstance(error, MemoryConnectionError) else None
    return Problem.of(status, detail, code=code, is_retryable=is_retryable, limit=limit, part=part, field=refused)


def problem_response(error: BaseException) -> Response:
    """Return an error as a response, with the headers that belong to it."""
    problem = problem_of(error)
    headers: dict[str, str] = {}
    if problem.status == 401:  # noqa: PLR2004  # a status
        headers["WWW-Authenticate"] = 'Bearer realm="memtend"'
    if problem.status in {429, 503}:
        # A model's server that asks for no pause has None there.
        wait: float = getattr(error, "retry_after", None) or RETRY_SECONDS
        if isinstance(error, BudgetExceededError):
            wait = (error.until - utc_now()).total_seconds()
        headers["Retry-After"] = str(max(1, math.ceil(wait)))
    return response_of(problem, headers)


def response_of(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response of a problem."""
    body = problem.model_dump_json(exclude_none=True)
    return Response(body, status_code=problem.status, media_type=MEDIA_TYPE, headers=dict(headers or {}))


def problem_of_validation(errors: Sequence[ErrorDetails]) -> Problem:
    """Return what is wrong with a request's first field, or all that is missing, without the values that were given."""
    first = errors[0]
    missing = [".".join(map(str, each["loc"][1:])) for each in errors if each["type"] == "missing" and each["loc"][1:]]
    if first["type"] == "missing" and len(missing) > 1:
        return Problem.of(422, f"{', '.join(missing)}: are missing", code="invalid", field=missing[0])
    # The first part says where it stands: body, path, query, header.
    kind, *place = first["loc"] or ("body",)
    if first["type"] == "json_invalid":
        return Problem.of(422, "body: is not valid JSON", code="invalid", field="body")
    inside: ErrorDetails = {**first, "loc": tuple(place)}
    found = MemoryInputError.of_details(inside, place=[str(each) for each in place])
    if found.field == "input":
        found = MemoryInputError(str(kind), found.problem)
    context = first.get("ctx", {})
    limits = (context.get(name) for name in ("max_length", "min_length", "le", "ge", "lt", "gt"))
    limit = next((float(each) for each in limits if isinstance(each, (int, float))), None)
    field = escaped(found.field)[:_LONGEST_FIELD]
    return Problem.of(422, f"{field}: {escaped(found.problem)}", code="invalid", field=field, limit=limit)


def install_problems(app: FastAPI) -> None:
    """Let an app answer every error as a problem."""
    app.add_exception_handler(MemoryError, _known)
    app.add_exception_handler(TimeoutError, _known)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _of_framework)


async def _known(request: Request, error: Exception) -> Response:
    response = problem_response(error)
    if response.status_code >= 500 and response.status_code != 501:  # noqa: PLR2004  # statuses
        log_failure(error, request.scope, event=Event.MEMORY_HTTP_UNAVAILABLE)
    return response


async def _not_valid(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101  # registered for it alone
    return response_of(problem_of_validation(error.errors()))


async def _of_framework(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  # registered for it alone
    codes = {404: "not_found", 405: "not_supported"}
    detail = {404: "no such path; see /docs", 405: "the path has no such method; see /docs"}
    status = error.status_code
    code = codes.get(status, "invalid" if status < 500 else "internal")  # noqa: PLR2004  # a status
    return response_of(
        Problem.of(status, detail.get(status, "the request could not be read"), code=code), error.headers
    )


def log_failure(error: BaseException, scope: Scope, *, event: Event) -> None:
    """Log where an error came from: its class and its place, never its text, which may quote a memory."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"
        trace = trace.tb_next
    route = getattr(scope.get("route"), "path", "")
    about = {"error": type(error).__name__, "place": place, "method": scope.get("method", ""), "route": route}
    _log.error(event, extra=about)


class CatchDefects:
    """Middleware: answers an error that nobody expected with 500, and logs where it came from without its text.

    The framework's own would log the traceback, whose last line may quote a memory. ``page`` makes the answer of an
    error; by default it is a problem document.
    """

    def __init__(self, app: ASGIApp, *, page: Callable[[Exception, Scope], ASGIApp] | None = None) -> None:
        self._app = app
        self._page = page or _document_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_begun = False

        async def sending(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception as error:  # noqa: BLE001  # it is answered, and its place logged
            log_failure(error, scope, event=Event.MEMORY_HTTP_DEFECT)
            if is_begun:
                # Half an answer must not look like a whole one: the server closes the connection.
                raise RuntimeError("an answer broke off") from None
            await self._page(error, scope)(scope, receive, send)


def _document_of(error: Exception, _: Scope) -> ASGIApp:
    return problem_response(error)

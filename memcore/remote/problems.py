"""Answers that are no success, as the errors that Memory raises in the engine's own process."""

import json
from collections.abc import Mapping
from typing import Any

import httpx

from memcore.errors import (
    MemoryCapabilityError,
    MemoryConflictError,
    MemoryConnectionError,
    MemoryError,  # noqa: A004  # the reference fixes the name
    MemoryInputError,
    MemoryNotFoundError,
    MemoryQueueFullError,
)

#: Longest sentence of an answer that an error repeats, in characters.
_LONGEST_DETAIL = 1_000

#: Statuses after which the same request may succeed; the first says that nothing was done.
TOO_MANY, UNAVAILABLE = 429, 503

#: Statuses of what stands between: a proxy whose server is away.
_AWAY = frozenset({502, UNAVAILABLE, 504})

#: What a kind of problem is in the engine's own process.
_BY_CODE: Mapping[str, type[MemoryError]] = {
    "not_found": MemoryNotFoundError,
    "conflict": MemoryConflictError,
    "not_supported": MemoryCapabilityError,
}


class RemoteRefusedError(MemoryError):
    """The server refuses the request: the key is missing, revoked, or not for this; or something went wrong there.

    Attributes:
        status: of the answer.
        domain_code: what kind it is: ``unauthorized``, ``denied``, ``too_large``, ``internal``, ...
    """

    def __init__(self, reason: str, *, status: int, domain_code: str) -> None:
        super().__init__(reason)
        self.status = status
        self.domain_code = domain_code  # type: ignore[misc]  # one class stands for several kinds here


def error_of(response: httpx.Response) -> MemoryError:
    """Return the error that an answer stands for."""
    problem = _problem(response)
    status, code = response.status_code, str(problem.get("domain_code") or "")
    detail = str(problem.get("detail") or f"the server answered with status {status}")[:_LONGEST_DETAIL]
    field = problem.get("field")
    if code == "invalid" and isinstance(field, str):
        return MemoryInputError(field, detail.removeprefix(f"{field}: "))
    if code in _BY_CODE:
        return _BY_CODE[code](detail)
    if status == TOO_MANY:
        return MemoryQueueFullError(detail)
    if status in _AWAY:
        return MemoryConnectionError(detail, part=problem.get("part"))
    return RemoteRefusedError(detail, status=status, domain_code=code or "internal")


def _problem(response: httpx.Response) -> Mapping[str, Any]:
    """Return the fields of an RFC 9457 document; empty for what a proxy between may have answered."""
    try:
        found = json.loads(response.content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}

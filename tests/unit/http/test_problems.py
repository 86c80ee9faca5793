"""Every error becomes one problem: the status, the field, and never what a memory or a caller said."""

import json
from datetime import timedelta
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import BaseModel, Field

from memcore import errors
from memcore.clock import utc_now
from memcore.models.memory import MemoryStoreRequest
from ops.http.limits import LimitBody
from ops.http.problems import (
    BodyTooLargeError,
    CatchDefects,
    MemoryForbiddenError,
    MemoryRateLimitError,
    MemoryUnauthorizedError,
    install_problems,
    problem_of,
    problem_of_validation,
    problem_response,
)

SECRET = "zyzzyva whispers at midnight"


def _every_error() -> list[type[errors.MemoryError]]:
    found, left = [], [errors.MemoryError]
    while left:
        kind = left.pop()
        found.append(kind)
        left += kind.__subclasses__()
    return found


@pytest.mark.parametrize(
    ("error", "status", "code", "is_retryable"),
    [
        (errors.MemoryInputError("content", "is too long"), 422, "invalid", False),
        (errors.MemoryNotFoundError("no"), 404, "not_found", False),
        (errors.CheckpointNotFoundError(), 404, "not_found", False),
        (errors.FineTuneRunActiveError("no"), 409, "conflict", False),
        (errors.ApprovalClosedError("one", "approved"), 409, "conflict", False),
        (errors.ApprovalLimitError(3, limit=3), 409, "conflict", False),
        (errors.MemoryBackendUnsupportedError("no"), 501, "not_supported", False),
        (errors.MissingExtraError("mem0", "mem0"), 501, "not_supported", False),
        (errors.OrgMemoryAccessDeniedError("core", "no"), 403, "denied", False),
        (MemoryForbiddenError("no"), 403, "denied", False),
        (MemoryUnauthorizedError("no"), 401, "unauthorized", False),
        (MemoryRateLimitError(2.0), 429, "rate_limited", True),
        (BodyTooLargeError(5), 413, "too_large", False),
        (errors.MemoryQueueFullError("no"), 429, "rate_limited", True),
        (errors.BudgetExceededError("no", until=utc_now()), 429, "rate_limited", False),
        (errors.MemoryConnectionError(SECRET), 503, "unavailable", True),
        (errors.MemoryRefusedError("level none"), 409, "conflict", False),
        (errors.MemoryDiskFullError(SECRET), 503, "unavailable", True),
        (errors.OrgMemoryQueryError(SECRET), 503, "unavailable", True),
        (TimeoutError(SECRET), 503, "unavailable", True),
        (errors.MemoryConfigError(SECRET), 500, "internal", False),
        (errors.FineTuneStageError(SECRET), 500, "internal", False),
        (ValueError(SECRET), 500, "internal", False),
    ],
)
def test_each_kind_of_error_has_its_status(error: Exception, status: int, code: str, is_retryable: bool) -> None:
    problem = problem_of(error)
    assert (problem.status, problem.domain_code, problem.is_retryable) == (status, code, is_retryable)
    assert SECRET not in problem.model_dump_json()


def test_no_error_of_ours_is_forgotten() -> None:
    codes = {kind.domain_code for kind in _every_error()}
    known = {"internal", "invalid", "not_found", "conflict", "not_supported"}
    # Those that a test or another module adds have a status too.
    assert codes <= known | {"denied", "unauthorized", "rate_limited", "too_large"}


def test_what_to_wait_stands_in_a_header() -> None:
    assert problem_response(MemoryRateLimitError(1.2)).headers["retry-after"] == "2"
    assert problem_response(errors.MemoryConnectionError("x")).headers["retry-after"] == "1"
    late = errors.BudgetExceededError("no", until=utc_now() + timedelta(hours=1))
    assert 3_500 < int(problem_response(late).headers["retry-after"]) <= 3_600
    assert "retry-after" not in problem_response(errors.MemoryInputError("a", "b")).headers
    assert "bearer" in problem_response(MemoryUnauthorizedError("x")).headers["www-authenticate"].lower()


class Body(BaseModel):
    text: str = Field(min_length=1, max_length=10)
    count: int = Field(default=1, le=5)


@pytest.fixture
def app() -> FastAPI:
    made = FastAPI()
    install_problems(made)

    @made.post("/things/{place}")
    async def things(place: int, body: Body) -> int:
        if body.text == "defect":
            raise ValueError(SECRET)
        return place + body.count

    @made.post("/store")
    async def store(body: MemoryStoreRequest) -> str:
        return body.content

    made.add_middleware(LimitBody, limit=4_096)
    made.add_middleware(CatchDefects)
    return made


async def _post(app: FastAPI, path: str, **given: Any) -> tuple[httpx.Response, dict[str, Any]]:
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        answer = await client.post(path, **given)
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["status"], problem["type"]) == (answer.status_code, f"urn:memtend:problem:{problem['domain_code']}")
    return answer, problem


#: A memory whose fields are right.
MEMORY = {"category": "semantic", "content": SECRET}

#: Times in the wrong order.
BACKWARDS = {"valid_from": "2026-01-02T00:00:00Z", "valid_until": "2026-01-01T00:00:00Z"}

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("path", "given", "field", "limit"),
    [
        ("/things/1", {"json": {"text": SECRET}}, "text", 10),
        ("/things/1", {"json": {"text": ""}}, "text", 1),
        ("/things/1", {"json": {"text": "a", "count": 9}}, "count", 5),
        ("/things/1", {"json": {}}, "text", None),
        ("/things/1", {"json": [SECRET]}, "body", None),
        ("/things/1", {"content": b"{" + SECRET.encode(), "headers": JSON}, "body", None),
        ("/things/x", {"json": {"text": "a"}}, "place", None),
        ("/store", {"json": {**MEMORY, "metadata": {"confidence": 2}}}, "metadata.confidence", 1),
        ("/store", {"json": {**MEMORY, **BACKWARDS}}, "valid_until", None),
    ],
)
async def test_a_value_that_breaks_a_limit_is_named(
    app: FastAPI, path: str, given: dict[str, Any], field: str, limit: float | None
) -> None:
    answer, problem = await _post(app, path, **given)
    assert (answer.status_code, problem["field"], problem.get("limit")) == (422, field, limit)
    assert problem["detail"].startswith(f"{field}: ")
    assert SECRET not in answer.text


async def test_unknown_paths_and_methods_are_problems_too(app: FastAPI) -> None:
    assert (await _post(app, "/nothing"))[0].status_code == 404
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        answer = await client.get("/store")
    assert (answer.status_code, answer.headers["allow"], answer.json()["status"]) == (405, "POST", 405)


async def test_a_defect_is_answered_and_logged_without_its_text(app: FastAPI, caplog: pytest.LogCaptureFixture) -> None:
    answer, problem = await _post(app, "/things/1", json={"text": "defect"})
    assert (answer.status_code, problem["domain_code"]) == (500, "internal")
    (record,) = [each for each in caplog.records if each.name == "ops.http.problems"]
    assert (record.getMessage(), vars(record)["error"]) == ("memory.http.defect", "ValueError")
    assert vars(record)["place"].startswith(f"{__name__}:")
    assert SECRET not in caplog.text + answer.text


@pytest.mark.parametrize("is_declared", [True, False])
async def test_a_body_that_is_too_large_is_refused(app: FastAPI, is_declared: bool) -> None:
    body = json.dumps({"category": "semantic", "content": "a" * 5_000}).encode()

    async def pieces() -> Any:
        for start in range(0, len(body), 1_000):
            yield body[start : start + 1_000]

    headers = {"content-type": "application/json"}
    answer, problem = await _post(app, "/store", content=body if is_declared else pieces(), headers=headers)
    assert (answer.status_code, problem["limit"]) == (413, 4_096)


def test_all_that_is_missing_is_named_at_once() -> None:
    found = problem_of_validation(
        [
            {"type": "missing", "loc": ("body", name), "msg": "Field required", "input": {}}
            for name in ("reason", "confirm")
        ]
    )
    assert (found.status, found.field, found.detail) == (422, "reason", "reason, confirm: are missing")

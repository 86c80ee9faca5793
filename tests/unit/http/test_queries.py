"""Addresses and numbers of requests: a name that a route does not know, a NUL, and half a number are refused."""

from pathlib import Path
from urllib.parse import quote

import pytest
from pydantic import BaseModel, ValidationError
from support.console import console_settings
from support.http_api import http_api

from memcore.config.urls import LedgerUrls
from memcore.models.memory import MAX_CONTENT_BYTES
from memcore.models.organization import OrgMemoryQuery
from ops.http.mem0.models import PASSED_OVER
from ops.http.mem0.models import SearchBody as TheirSearch
from ops.http.models import BatchItem, ContextBody, SearchBody, StoreBody, UpdateBody
from ops.http.routes.approvals import ProposalBody

#: Stands for every value in a path.
VALUE = "x"


def _address(path: str) -> str:
    return "/".join(VALUE if part.startswith("{") else part for part in path.split("/"))


async def test_every_route_refuses_a_name_that_it_does_not_know(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    async with http_api(console_settings(sqlite_ledger, tmp_path)) as opened, opened.client(opened.key()) as client:
        tried = 0
        for path, methods in opened.app.openapi()["paths"].items():
            for method, described in methods.items():
                known = {each["name"] for each in described.get("parameters", ()) if each["in"] == "path"}
                # The name of a value of the path is none of the query.
                for name in ("runid", *known):
                    answer = await client.request(method, _address(path), params={name: VALUE})
                    is_theirs = described["tags"] == ["mem0"]
                    assert answer.status_code == (400 if is_theirs else 422), f"{method} {path}: {answer.text}"
                    assert answer.json()["field"] == name
                    assert not is_theirs or set(answer.json()) == {"detail", "error", "field"}
                    tried += 1
        assert tried > 100


async def test_no_address_may_have_a_nul_which_postgresql_keeps_in_no_text(
    sqlite_ledger: LedgerUrls, tmp_path: Path
) -> None:
    async with http_api(console_settings(sqlite_ledger, tmp_path)) as opened, opened.client(opened.key()) as client:
        for path, methods in opened.app.openapi()["paths"].items():
            for method, described in methods.items():
                for each in described.get("parameters", ()):
                    if each["in"] == "path":
                        answer = await client.request(method, _address(path.replace(f"{{{each['name']}}}", "a%00")))
                    elif each["in"] == "query":
                        answer = await client.request(method, _address(path), params={each["name"]: "a\0"})
                    else:
                        continue
                    assert answer.status_code in {400, 422}, f"{method} {path}: {answer.text}"
                    assert "NUL" in answer.json()["detail"] or each["in"] == "query"


@pytest.mark.parametrize("limit", ["1.0", "1.5", "1e2", "1_0", " 1", "+1", "", "nan", "true", "\u0661", "9" * 5_000])
async def test_a_number_in_a_query_is_digits_alone(sqlite_ledger: LedgerUrls, tmp_path: Path, limit: str) -> None:
    async with http_api(console_settings(sqlite_ledger, tmp_path)) as opened, opened.client(opened.key()) as client:
        for path, status in (("/v1/skills?limit=", 422), ("/memories?user_id=u&top_k=", 400)):
            answer = await client.get(path + quote(limit))
            assert (answer.status_code, answer.json()["field"]) == (status, path[:-1].rpartition("?")[2].split("&")[-1])
        assert (await client.get("/v1/skills?limit=1")).status_code == 200


@pytest.mark.parametrize(
    ("model", "field", "rest"),
    [
        (SearchBody, "limit", {"text": "tea"}),
        (ContextBody, "token_budget", {"text": "tea"}),
        (OrgMemoryQuery, "limit", {"context": "tea"}),
        (TheirSearch, "top_k", {"query": "tea"}),
    ],
)
def test_a_number_in_a_body_is_one(model: type[BaseModel], field: str, rest: dict[str, str]) -> None:
    assert getattr(model.model_validate({**rest, field: 7}), field) == 7
    for wrong in (7.0, 7.5, "7", True):
        with pytest.raises(ValidationError, match=field):
            model.model_validate({**rest, field: wrong})


@pytest.mark.parametrize("model", [StoreBody, BatchItem, UpdateBody, ProposalBody])
def test_the_limit_of_a_text_is_told_in_the_bytes_that_are_counted(model: type[BaseModel]) -> None:
    assert model.model_validate({"content": "x" * MAX_CONTENT_BYTES})
    for text in ("x" * (MAX_CONTENT_BYTES + 1), "\u00e9" * MAX_CONTENT_BYTES):
        with pytest.raises(ValidationError, match=f"has {len(text.encode())} bytes; the limit is 65536"):
            model.model_validate({"content": text})
    for blank in ("", " "):
        with pytest.raises(ValidationError):
            model.model_validate({"content": blank})


async def test_what_is_not_supported_says_so_whatever_the_query(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    async with http_api(console_settings(sqlite_ledger, tmp_path)) as opened, opened.client(opened.key()) as client:
        answer = await client.get("/api/v1/orgs/organizations/acme/projects/one/", params={"fields": VALUE})
        assert answer.status_code == 501


async def test_a_name_of_many_characters_is_shortened(sqlite_ledger: LedgerUrls, tmp_path: Path) -> None:
    async with http_api(console_settings(sqlite_ledger, tmp_path)) as opened, opened.client(opened.key()) as client:
        answer = await client.get("/v1/skills", params={"a\nb" * 2_000: VALUE})
        assert answer.status_code == 422
        assert len(answer.text) < 1_000


@pytest.mark.parametrize("name", sorted(PASSED_OVER))
async def test_hints_of_mem0s_clients_are_passed_over_there_alone(
    name: str, sqlite_ledger: LedgerUrls, tmp_path: Path
) -> None:
    async with http_api(console_settings(sqlite_ledger, tmp_path)) as opened, opened.client(opened.key()) as client:
        assert (await client.get("/v1/ping/", params={name: VALUE})).status_code == 200
        assert (await client.get("/v1/skills", params={name: VALUE})).status_code == 422

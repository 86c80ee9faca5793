"""Names in a query string: a route refuses those that it does not know, so that a slip of the pen is no filter less."""

from pathlib import Path

import pytest
from support.console import console_settings
from support.http_api import http_api

from memcore.config.urls import LedgerUrls
from ops.http.mem0.models import PASSED_OVER

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

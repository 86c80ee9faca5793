"""Every endpoint of /openapi.json with whatever its document allows, and what it does not: no server error.

``MEMTEND_TEST_THOROUGH=1 pytest -n 0 -s tests/integration/http/test_document.py`` sends more than 20,000 requests.
"""

import os
from collections import Counter
from collections.abc import Generator
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from support.http_api import ALL
from support.memories import new_agent
from support.running_stack import StackAddress
from support.serve_process import ServeProcess, serve_process
from support.thorough import sized

from ops.cli.session import ledger_of

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]

#: What the server says of a request whose path or headers are longer than HTTP allows: it never reaches the app.
UNREADABLE = "Invalid HTTP request received."

#: Requests of each operation, of which there are about 90.
REQUESTS = int(os.environ.get("MEMTEND_TEST_REQUESTS", sized(2, thorough=250)))


@pytest.fixture(scope="module")
def serve(stack: StackAddress) -> Generator[ServeProcess]:
    with serve_process(stack.home, "--rate=1000000", "--burst=1000000") as started:
        yield started


#: What may be asked for with a key of one agent, without an agent in the path.
OWN = {("GET", "/v1/agents")}


def _operations(serve: ServeProcess) -> list[Any]:
    schema = schemathesis.openapi.from_dict(httpx.get(f"{serve.url}/openapi.json", timeout=600).json())
    found = list(schema.get_all_operations())
    assert all(isinstance(each, Ok) for each in found)
    return [each.ok() for each in found if isinstance(each, Ok)]


def _token(stack: StackAddress, agents: list[str] | None = None) -> str:
    with ledger_of(stack.settings) as ledger:
        keys = ledger.api_keys
        return keys.create(stack.settings.company, name=new_agent("schemathesis"), verbs=ALL, agents=agents).token


#: Generated requests are slow, large and often refused: nothing to warn of.
EVERY = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example)


def _try(
    operation: Any, url: str, token: str, session: requests.Session, *, examples: int, modes: tuple[GenerationMode, ...]
) -> Counter[int]:
    """Send generated requests, hold every answer against the document, and count the statuses."""
    codes = Counter[int]()
    headers = {"Authorization": f"Bearer {token}"}

    @settings(
        max_examples=examples,
        database=None,
        suppress_health_check=EVERY,
        phases=[Phase.generate],
    )
    @given(case=st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes)))
    def sent(case: schemathesis.Case[Any]) -> None:
        answer = case.call(base_url=url, session=session, headers=headers)
        codes[answer.status_code] += 1
        if answer.status_code == 400 and answer.text == UNREADABLE:
            return
        # 501 is an answer of its own: what is asked for exists elsewhere, and not here.
        case.validate_response(answer, checks=CHECKS if answer.status_code != 501 else CHECKS[1:])

    sent()
    return codes


@pytest.mark.slow(because="a process of its own, and some hundred requests")
@pytest.mark.timeout(7_200)
def test_no_request_makes_a_server_error_and_every_answer_is_as_the_document_says(
    stack: StackAddress, serve: ServeProcess
) -> None:
    codes, token = Counter[int](), _token(stack)
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    with requests.Session() as session:
        for operation in _operations(serve):
            codes += _try(operation, serve.url, token, session, examples=REQUESTS, modes=modes)
    print(f"\n{sum(codes.values())} requests: {dict(sorted(codes.items()))}")  # noqa: T201  # the figure to report
    assert {code // 100 for code in codes if code != 501} == {2, 4}


@pytest.mark.slow(because="two right requests of each path of a company")
def test_a_key_of_one_agent_is_refused_for_the_company_whatever_the_body_says(
    stack: StackAddress, serve: ServeProcess
) -> None:
    token = _token(stack, [new_agent("one")])
    with requests.Session() as session:
        for operation in _operations(serve):
            definition = operation.definition.raw
            is_open = "security" not in definition or definition.get("tags") in (["mem0"], ["health"])
            if "{agent_id}" in operation.path or is_open or (operation.method.upper(), operation.path) in OWN:
                continue
            codes = _try(operation, serve.url, token, session, examples=2, modes=(GenerationMode.POSITIVE,))
            # 422: what the document cannot say of a value.
            assert codes.keys() <= {401, 403, 404, 422}, f"{operation.label}: {codes}"

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
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from support.http_door import ALL
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

#: Requests of each operation.
REQUESTS = int(os.environ.get("MEMTEND_TEST_REQUESTS", sized(12, thorough=1_500)))


@pytest.fixture(scope="module")
def serve(stack: StackAddress) -> Generator[ServeProcess]:
    with serve_process(stack.home, "--rate=1000000", "--burst=1000000") as started:
        yield started


@pytest.mark.slow(because="a process of its own, and some hundred requests")
@pytest.mark.timeout(7_200)
def test_no_request_makes_a_server_error_and_every_answer_is_as_the_document_says(
    stack: StackAddress, serve: ServeProcess
) -> None:
    with ledger_of(stack.settings) as ledger:
        token = ledger.api_keys.create(stack.settings.company, name="schemathesis", verbs=ALL).token
    schema = schemathesis.openapi.from_dict(httpx.get(f"{serve.url}/openapi.json").json())
    codes = Counter[int]()
    headers = {"Authorization": f"Bearer {token}"}
    with requests.Session() as session:
        for found in schema.get_all_operations():
            assert isinstance(found, Ok)
            operation = found.ok()

            @settings(
                max_examples=REQUESTS,
                database=None,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate],
            )
            @given(
                case=st.one_of(
                    operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE),
                    operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE),
                )
            )
            def try_it(case: schemathesis.Case[Any]) -> None:
                answer = case.call(base_url=serve.url, session=session, headers=headers)
                codes[answer.status_code] += 1
                case.validate_response(answer, checks=CHECKS)

            try_it()
    print(f"\n{sum(codes.values())} requests: {dict(sorted(codes.items()))}")  # noqa: T201  # the figure to report
    assert sum(codes.values()) >= REQUESTS * 10
    assert {code // 100 for code in codes} == {2, 4}

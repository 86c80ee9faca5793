"""The provider against a faulty server: transient errors, final errors, and secrets in neither."""

import logging
import socket
import traceback
from collections.abc import Callable
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from pydantic import SecretStr
from support.ledger_records import StoppedClock
from support.present import present
from support.stub_llm_process import StubLLM

from examples.stub_llm.fault import Fault, Scripted
from memcore.errors import ProviderError, ProviderUnavailableError
from memcore.llm.protocol import CompletionRequest
from memcore.llm.provider import ServerProvider
from memcore.models.execution import ChatMessage, MessageRole

#: In every prompt, and so in what the stub quotes; only the server may see it.
CANARY = "Zanzibar-4711"

REQUEST = CompletionRequest(
    messages=(
        ChatMessage(role=MessageRole.SYSTEM, content="Merge what you see."),
        ChatMessage(role=MessageRole.USER, content=f"Ada moved to {CANARY} and likes green tea."),
    ),
    max_tokens=50,
)
SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}

Build = Callable[..., ServerProvider]


async def trouble(provider: ServerProvider) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await provider.complete(REQUEST, idempotency_key="k")
    error = caught.value
    shown = "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
    assert CANARY not in shown
    seen: BaseException | None = error
    while seen is not None:
        assert CANARY not in str(seen)
        assert not hasattr(seen, "body")
        seen = seen.__cause__ or seen.__context__
    return error


async def test_a_good_answer_comes_with_the_servers_count(stub: StubLLM, provider_at: Build) -> None:
    answer = await provider_at(stub.url).complete(REQUEST, idempotency_key="k")
    assert CANARY in answer.text
    assert not answer.is_cut
    assert answer.prompt_tokens + answer.completion_tokens == stub.billed() > 0


async def test_what_is_sent_is_the_request_and_nothing_of_this_machine(
    stub: StubLLM, provider_at: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "somebody")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Leak: this\nAuthorization: Bearer other")
    request = REQUEST.model_copy(update={"json_schema": SCHEMA, "model": "large", "temperature": 0.0})
    await provider_at(stub.url, key=SecretStr("the-key")).complete(request, idempotency_key="the question")
    (asked,) = stub.log()
    assert asked["key"] == "the question"
    assert asked["body"] == {
        "model": "large",
        "messages": [{"role": each.role.value, "content": each.content} for each in REQUEST.messages],
        "temperature": 0.0,
        "max_tokens": 50,
        "stream": False,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}},
    }
    sent = asked["headers"]
    assert sent.keys() <= {
        "host", "accept", "accept-encoding", "connection", "content-type", "content-length", "user-agent",
        "authorization", "idempotency-key",
    }  # fmt: skip
    assert sent["authorization"] == "Bearer the-key"


async def test_without_a_key_none_is_sent(stub: StubLLM, provider_at: Build) -> None:
    await provider_at(stub.url).complete(REQUEST, idempotency_key="k")
    assert "authorization" not in stub.log()[0]["headers"]


async def test_the_same_key_gets_the_same_answer_and_one_bill(stub: StubLLM, provider_at: Build) -> None:
    provider = provider_at(stub.url)
    first = await provider.complete(REQUEST, idempotency_key="k")
    billed = stub.billed()
    assert await provider.complete(REQUEST, idempotency_key="k") == first
    assert stub.billed() == billed
    assert [each["is_repeated"] for each in stub.log()] == [False, True]


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504])
async def test_a_status_that_passes_is_passing_trouble(stub: StubLLM, provider_at: Build, status: int) -> None:
    stub.order(Scripted(fault=Fault.STATUS, status=status, kind="rate_limit_error"))
    error = await trouble(provider_at(stub.url))
    assert isinstance(error, ProviderUnavailableError)
    assert error.retry_after is None
    assert error.tokens == (0, 0)
    assert f"{status} (rate_limit_error)" in str(error)


@pytest.mark.parametrize("status", [301, 307, 400, 401, 402, 403, 404, 422])
async def test_a_status_that_stays_is_a_refusal(stub: StubLLM, provider_at: Build, status: int) -> None:
    stub.order(Scripted(fault=Fault.STATUS, status=status, kind="invalid_request_error"))
    error = await trouble(provider_at(stub.url))
    assert not error.is_retryable
    assert str(status) in str(error)
    assert len(stub.log()) == 1


async def test_an_account_without_money_is_a_refusal(stub: StubLLM, provider_at: Build) -> None:
    stub.order(Scripted(fault=Fault.STATUS, status=429, kind="insufficient_quota"))
    assert not (await trouble(provider_at(stub.url))).is_retryable


async def test_a_type_that_quotes_the_prompt_is_not_repeated(stub: StubLLM, provider_at: Build) -> None:
    stub.order(Scripted(fault=Fault.STATUS, status=400, kind=f"cannot answer {CANARY}"))
    await trouble(provider_at(stub.url))


@pytest.mark.parametrize(("asked", "wait"), [("7", 7.0), ("0.5", 0.5), ("soon", None), ("nan", None), ("-3", 0.0)])
async def test_the_wait_that_the_server_asks_for_is_kept(
    stub: StubLLM, provider_at: Build, asked: str, wait: float | None
) -> None:
    stub.order(Scripted(fault=Fault.STATUS, status=429, retry_after=asked))
    error = await trouble(provider_at(stub.url))
    assert isinstance(error, ProviderUnavailableError)
    assert error.retry_after == wait


async def test_the_wait_may_be_a_date(stub: StubLLM, provider_at: Build, clock: StoppedClock) -> None:
    clock.now = clock.now.replace(microsecond=0)
    until = format_datetime(clock.now + timedelta(seconds=90), usegmt=True)
    stub.order(Scripted(fault=Fault.STATUS, status=503, retry_after=until))
    error = await trouble(provider_at(stub.url))
    assert isinstance(error, ProviderUnavailableError)
    assert error.retry_after == 90.0


async def test_a_server_that_takes_too_long_is_passing_trouble_and_nobody_knows_the_bill(
    stub: StubLLM, provider_at: Build
) -> None:
    stub.order(Fault.HANG)
    error = await trouble(provider_at(stub.url, seconds=1.0))
    assert isinstance(error, ProviderUnavailableError)
    assert error.tokens is None


@pytest.mark.parametrize("fault", [Fault.DROP, Fault.LOSE])
async def test_a_connection_that_is_lost_is_passing_trouble_and_nobody_knows_the_bill(
    stub: StubLLM, provider_at: Build, fault: Fault
) -> None:
    stub.order(fault)
    error = await trouble(provider_at(stub.url))
    assert isinstance(error, ProviderUnavailableError)
    assert error.tokens is None


async def test_nobody_there_is_passing_trouble_without_a_bill(provider_at: Build) -> None:
    with socket.socket() as held:
        # Bound and not listening: whoever connects is refused, and nobody else can take the port.
        held.bind(("127.0.0.1", 0))
        error = await trouble(provider_at(f"http://user:secret@127.0.0.1:{held.getsockname()[1]}/v1"))
    assert isinstance(error, ProviderUnavailableError)
    assert error.tokens == (0, 0)
    assert "secret" not in str(error)


async def test_an_address_that_is_none_is_a_refusal(provider_at: Build) -> None:
    assert not (await trouble(provider_at("http://nobody:port/v1"))).is_retryable


async def test_a_body_that_nobody_can_read_is_passing_trouble(stub: StubLLM, provider_at: Build) -> None:
    stub.order(Fault.MALFORMED)
    assert (await trouble(provider_at(stub.url))).is_retryable


async def test_an_answer_without_a_choice_is_passing_trouble_with_its_bill(stub: StubLLM, provider_at: Build) -> None:
    stub.order(Fault.NO_CHOICES)
    error = await trouble(provider_at(stub.url))
    assert error.is_retryable
    assert sum(present(error.tokens)) == stub.billed() > 0


async def test_what_the_servers_filter_takes_away_is_refused_with_its_bill(stub: StubLLM, provider_at: Build) -> None:
    stub.order(Fault.FILTERED)
    error = await trouble(provider_at(stub.url))
    assert not error.is_retryable
    assert sum(present(error.tokens)) == stub.billed() > 0


async def test_a_blank_answer_is_an_answer(stub: StubLLM, provider_at: Build) -> None:
    stub.order(Fault.BLANK)
    assert not (await provider_at(stub.url).complete(REQUEST, idempotency_key="k")).text.strip()


async def test_an_answer_that_was_cut_says_so(stub: StubLLM, provider_at: Build) -> None:
    stub.order(Fault.CUT)
    assert (await provider_at(stub.url).complete(REQUEST, idempotency_key="k")).is_cut


async def test_without_the_servers_count_tokens_are_a_quarter_of_the_bytes(stub: StubLLM, provider_at: Build) -> None:
    stub.order(Fault.UNCOUNTED)
    answer = await provider_at(stub.url).complete(REQUEST, idempotency_key="k")
    assert answer.prompt_tokens == sum(-(-len(each.content.encode()) // 4) for each in REQUEST.messages)
    assert answer.completion_tokens == -(-len(answer.text.encode()) // 4)


async def test_an_answer_longer_than_anybody_writes_is_not_read(stub: StubLLM, provider_at: Build) -> None:
    stub.order(Fault.OVER_LONG)
    request = REQUEST.model_copy(update={"max_tokens": 100_000})
    with pytest.raises(ProviderUnavailableError, match="4194304 bytes"):
        await provider_at(stub.url).complete(request, idempotency_key="k")


async def test_without_a_model_nobody_is_asked(stub: StubLLM, provider_at: Build) -> None:
    with pytest.raises(ProviderError, match=r"memory\.llm\.model"):
        await provider_at(stub.url, model=None).complete(REQUEST, idempotency_key="k")
    assert stub.log() == []


async def test_a_wrong_key_is_refused_and_the_list_of_models_says_so_for_nothing(
    stub: StubLLM, provider_at: Build
) -> None:
    stub.order(key="the-key")
    assert "401" in str(await trouble(provider_at(stub.url, key=SecretStr("another"))))
    with pytest.raises(ProviderError, match="401"):
        await provider_at(stub.url).models()
    assert await provider_at(stub.url, key=SecretStr("the-key")).models() == ("stub-small",)
    assert stub.billed() == 0


async def test_neither_prompt_nor_answer_nor_key_is_logged(
    stub: StubLLM, provider_at: Build, caplog: pytest.LogCaptureFixture
) -> None:
    provider = provider_at(stub.url, key=SecretStr("the-secret-key"))
    with caplog.at_level(logging.DEBUG):
        stub.order(Scripted(fault=Fault.STATUS, status=400))
        await trouble(provider)
        await provider.complete(REQUEST, idempotency_key="k")
    shown: list[Any] = [vars(record) for record in caplog.records]
    assert shown
    assert CANARY not in repr(shown)
    assert "the-secret-key" not in repr(shown)

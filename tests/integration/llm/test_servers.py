"""Any server: each dialect, and each way to refuse, ends in an answer in the form that was asked for."""

import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field, SecretStr
from support.ledger_records import COMPANY, StoppedClock
from support.model_servers import (
    MODEL,
    REASONING,
    Script,
    anthropic,
    chat,
    model_server,
    ollama,
    questions,
    responses,
)
from support.present import present
from support.recording_server import Answer, Recorder

from memcore.config.llm import Api
from memcore.config.loader import load_policy
from memcore.config.settings import Settings
from memcore.errors import MemoryConnectionError, ProviderError
from memcore.ledger.ledger import Ledger
from memcore.llm.accounting import AccountedModel, create_model, create_provider
from memcore.llm.dialects import api_of
from memcore.llm.learnt import Learnt
from memcore.llm.protocol import Attribution, CompletionRequest
from memcore.llm.provider import REFUSAL_HOLDS
from memcore.llm.structured import ask_structured
from memcore.models.base import Frozen
from memcore.models.execution import ChatMessage, MessageRole
from memcore.telemetry.events import Event
from memcore.untrusted_text import wrap_untrusted

BY = Attribution(company=COMPANY, agent_id="ada", run_id=None, purpose="test")

#: A text of some 10,000 tokens as memtend estimates, more as the scripted servers count.
LONG = "".join(f"Ada has met number {number} in Lisbon. " for number in range(1_100))


class Lesson(Frozen):
    title: str = Field(min_length=1, max_length=60)
    confidence: float = Field(ge=0.0, le=1.0)


def asking(text: str = "Ada likes tea.", **given: Any) -> CompletionRequest:
    return CompletionRequest(
        messages=(
            ChatMessage(role=MessageRole.SYSTEM, content="Find the lesson."),
            ChatMessage(role=MessageRole.USER, content=wrap_untrusted("memory-entry", text)),
        ),
        max_tokens=200,
        **given,
    )


def installed(folder: Path, url: str, **given: object) -> Settings:
    return Settings.model_validate(
        {
            "broker_url": "redis://127.0.0.1:1/0",
            "database_url": f"sqlite:///{folder / 'ledger.db'}",
            "qdrant_url": "http://127.0.0.1:1",
            "home": folder,
            "company": COMPANY,
            "llm_url": url,
            **given,
        }
    )


@pytest.fixture
def open_model(tmp_path: Path, ledger: Ledger, clock: StoppedClock) -> Callable[..., Any]:
    """Build what a job asks, as an installation does."""

    @asynccontextmanager
    async def opened(url: str, *, policy: str = "", **given: object) -> AsyncIterator[AccountedModel]:
        lines = f"memory: {{llm: {{model: {MODEL}, attempts: 1{policy}}}}}"
        model = present(create_model(installed(tmp_path, url, **given), load_policy(lines), ledger, clock=clock))
        try:
            yield model
        finally:
            await model.close()

    return opened


OpenModel = Callable[..., Any]

#: Of each server: its dialect, what it refuses, the end of its address, how many requests the first question takes,
#: and the second one.
SERVERS: dict[str, tuple[Callable[[Script], Answer], Script, str, int, int]] = {
    "OpenAI chat": (chat, Script(), "/v1", 1, 1),
    "no max_tokens, no temperature": (chat, Script(refuses=("max_tokens", "temperature")), "/v1", 3, 1),
    "no schema": (chat, Script(refuses=("response_format",)), "/v1", 2, 1),
    "context of 4,096": (chat, Script(context=4_096), "/v1", 2, 1),
    "responses only": (responses, Script(), "/v1", 2, 1),
    "Anthropic": (anthropic, Script(), "/v1", 1, 1),
    "Anthropic, no forced tool": (anthropic, Script(refuses=("tool_choice", "temperature")), "", 3, 1),
    "Ollama": (ollama, Script(), "/api", 1, 1),
    "Ollama, no format": (ollama, Script(refuses=("format",)), "/api", 2, 1),
}


@contextmanager
def server_of(name: str) -> Iterator[tuple[Recorder, str, str]]:
    """Yield a server, its address, and what the policy says of its dialect."""
    dialect, script, path, _, _ = SERVERS[name]
    with model_server(dialect, script) as server:
        yield server, f"{server.url}{path}", ", api: anthropic" if dialect is anthropic else ""


@pytest.mark.parametrize("name", SERVERS)
async def test_every_server_answers_in_the_form_and_is_learnt_once(
    name: str, open_model: OpenModel, record_property: Callable[[str, object], None]
) -> None:
    first, then = SERVERS[name][3:]
    with server_of(name) as (server, url, policy):
        async with open_model(url, policy=policy) as model:
            lesson = await ask_structured(model, asking(LONG), Lesson, by=BY, key="k")
        assert lesson == Lesson(title="because", confidence=0.0)
        asked = len(questions(server))
        # Another process, with another connection, knows it.
        async with open_model(url, policy=policy) as model:
            assert await ask_structured(model, asking(LONG), Lesson, by=BY, key="other") == lesson
        again = len(questions(server)) - asked
    keys = [each.headers["idempotency-key"] for each in questions(server)]
    assert len(set(keys)) == len(keys)
    found = f"{name}: {asked} requests, then {again}"
    record_property("server", found)
    print(found)  # noqa: T201  # the figures of the page
    assert (asked, again) == (first, then)


async def test_a_refused_request_is_no_second_bill(ledger: Ledger, open_model: OpenModel, clock: StoppedClock) -> None:
    with server_of("no max_tokens, no temperature") as (server, url, _):
        async with open_model(url) as model:
            answer = await model.ask(asking(), by=BY, key="k")
        assert len(questions(server)) == 3
    spent = ledger.spending.of(COMPANY, "ada", clock().date())
    assert spent.tokens == answer.prompt_tokens + answer.completion_tokens
    first, _, last = (each.headers["idempotency-key"] for each in questions(server))
    assert first == "k"
    assert last.startswith("k/")


async def test_an_answer_is_not_lost_where_the_ledger_cannot_keep_what_was_learnt(
    ledger: Ledger, open_model: OpenModel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_args: object, **_given: object) -> None:
        raise MemoryConnectionError("away", part="ledger")

    caplog.set_level(logging.INFO)
    monkeypatch.setattr(ledger.model_servers, "keep", away)
    with server_of("no schema") as (server, url, _):
        async with open_model(url) as model:
            await ask_structured(model, asking(), Lesson, by=BY, key="k")
            monkeypatch.setattr(ledger.model_servers, "learnt", away)
            # This process knows it all the same.
            await ask_structured(model, asking(), Lesson, by=BY, key="other")
    assert len(questions(server)) == 3
    found = {each.getMessage(): vars(each) for each in caplog.records}
    assert found[Event.LLM_SERVER_LEARNT]["learnt"] == ["it takes no schema: the schema stands in the prompt"]
    assert found[Event.LLM_SERVER_UNKEPT]["error"] == "MemoryConnectionError"


async def test_reasoning_is_never_the_answer(open_model: OpenModel) -> None:
    for name in ("OpenAI chat", "responses only", "Anthropic", "Ollama"):
        with server_of(name) as (_, url, policy):
            async with open_model(url, policy=policy) as model:
                answer = await model.ask(asking(), by=BY, key=name)
        assert answer.text == "because"
        assert REASONING not in answer.text


async def test_reasoning_alone_is_a_blank_answer(open_model: OpenModel) -> None:
    for dialect, path in ((chat, "/v1"), (ollama, "/api")):
        with model_server(dialect, Script(says="")) as server:
            async with open_model(f"{server.url}{path}") as model:
                assert (await model.ask(asking(), by=BY, key=path)).text == ""


async def test_a_text_is_cut_in_its_middle_and_its_fence_stays_whole(open_model: OpenModel) -> None:
    with model_server(chat, Script(context=4_096)) as server:
        async with open_model(f"{server.url}/v1") as model:
            await model.ask(asking(LONG), by=BY, key="k")
    sent = questions(server)[-1].body["messages"][1]["content"]
    assert sent.startswith("<memory-entry>\nAda has met number 0 in")
    assert sent.endswith("number 1099 in Lisbon. \n</memory-entry>")
    assert "bytes are left out here" in sent
    # As much as fits: four fifths of what is left beside the answer.
    assert len(sent) > 0.8 * 3 * (4_096 - 200)


async def test_a_question_that_must_be_whole_is_refused_and_the_size_is_kept(
    open_model: OpenModel,
) -> None:
    with model_server(chat, Script(context=4_096)) as server:
        async with open_model(f"{server.url}/v1") as model:
            for _ in range(2):
                with pytest.raises(ProviderError, match=r"4096.*must not be cut") as caught:
                    await model.ask(asking(LONG, whole=True), by=BY, key="k")
                assert caught.value.kind == "context_too_small"
            assert await model.ask(asking(whole=True), by=BY, key="short")
    assert len(questions(server)) == 2


async def test_a_context_whose_size_the_server_does_not_say_is_found(open_model: OpenModel) -> None:
    script = Script(context=2_500)
    play = chat(script)

    def silent(_script: Script) -> Answer:
        def answer(request: Any) -> tuple[int, Any]:
            status, made = play(request)
            if status == 400:
                return 400, {"error": "the input length exceeds the context length"}
            return status, made

        return answer

    with model_server(silent) as server:
        async with open_model(f"{server.url}/v1") as model:
            assert (await model.ask(asking(LONG), by=BY, key="k")).text == "because"
            before = len(questions(server))
            assert await model.ask(asking(LONG), by=BY, key="other")
        assert len(questions(server)) == before + 1


@pytest.mark.parametrize("whole", [True, False])
async def test_a_question_that_is_refused_for_its_words_is_not_cut_again_and_again(
    open_model: OpenModel, *, whole: bool
) -> None:
    quoting = {"error": {"message": "I do not like this: the context window of the house"}}
    with model_server(chat, Script(status=400, error=quoting)) as server:
        async with open_model(f"{server.url}/v1") as model:
            with pytest.raises(ProviderError, match="longer than the model's context"):
                await model.ask(asking(LONG if whole else "Ada", whole=whole), by=BY, key="k")
    assert len(questions(server)) == 1


async def test_a_context_that_is_set_is_sent_and_not_learnt_over(open_model: OpenModel) -> None:
    with model_server(ollama) as server:
        async with open_model(f"{server.url}/api", policy=", context_tokens: 2048") as model:
            await model.ask(asking(LONG), by=BY, key="k")
    body = questions(server)[0].body
    assert body["options"]["num_ctx"] == 2_048
    assert len(json.dumps(body["messages"])) < 2_048 * 4


async def test_a_context_that_is_set_too_large_is_cut_to_the_servers_and_not_learnt(
    tmp_path: Path, ledger: Ledger, open_model: OpenModel
) -> None:
    with model_server(chat, Script(context=4_096)) as server:
        async with open_model(f"{server.url}/v1", policy=", context_tokens: 8192") as model:
            assert (await model.ask(asking(LONG), by=BY, key="k")).text == "because"
        provider = create_provider(installed(tmp_path, f"{server.url}/v1"), load_policy(""), ledger)
    assert provider is not None
    assert provider.knowledge.of(MODEL).context_tokens is None


async def test_what_was_learnt_is_another_servers_or_models_no_more(
    tmp_path: Path, ledger: Ledger, open_model: OpenModel
) -> None:
    with server_of("no schema") as (_, url, _), server_of("OpenAI chat") as (other, elsewhere, _):
        async with open_model(url) as model:
            await ask_structured(model, asking(), Lesson, by=BY, key="k")
        policy = load_policy(f"memory: {{llm: {{model: {MODEL}}}}}")
        provider = present(create_provider(installed(tmp_path, url), policy, ledger))
        assert provider.knowledge.of(MODEL) == Learnt(no_schema=True)
        assert provider.knowledge.of("another") == Learnt()
        async with open_model(elsewhere) as model:
            await ask_structured(model, asking(), Lesson, by=BY, key="k")
    assert "response_format" in questions(other)[0].body


@pytest.mark.parametrize(
    ("status", "error", "step"),
    [
        (401, {"error": {"type": "authentication_error", "message": "no"}}, "MEMTEND_LLM_API_KEY"),
        (404, {"error": "model 'small' not found"}, r"memory\.llm\.model"),
        (400, {"error": {"type": "invalid_request_error", "message": "this is not my day"}}, r"memory\.llm\.api"),
        (400, {"error": {"message": "unsupported: temperature, max_tokens, response_format"}}, "400"),
    ],
)
async def test_another_refusal_is_not_asked_again_and_teaches_nothing(
    tmp_path: Path, ledger: Ledger, open_model: OpenModel, status: int, error: Any, step: str
) -> None:
    with model_server(chat, Script(status=status, error=error)) as server:
        async with open_model(f"{server.url}/v1") as model:
            with pytest.raises(ProviderError, match=step) as caught:
                await ask_structured(model, asking(), Lesson, by=BY, key="k")
            assert caught.value.status == status
        policy = load_policy(f"memory: {{llm: {{model: {MODEL}}}}}")
        provider = present(create_provider(installed(tmp_path, f"{server.url}/v1"), policy, ledger))
        assert provider.knowledge.of(MODEL) == Learnt()
    # One, and one for each parameter that a refusal names.
    assert len(questions(server)) <= (4 if "temperature" in str(error) else 1)


async def test_a_key_that_was_refused_is_not_sent_again_and_again(open_model: OpenModel, clock: StoppedClock) -> None:
    script = Script(key="right")
    with model_server(chat, script) as server:
        async with open_model(f"{server.url}/v1", llm_api_key=SecretStr("wrong")) as model:
            for key in ("a", "b", "c"):
                with pytest.raises(ProviderError, match="MEMTEND_LLM_API_KEY") as caught:
                    await model.ask(asking(), by=BY, key=key)
                assert caught.value.status == 401
            assert len(questions(server)) == 1
            script.key = None
            clock.advance(REFUSAL_HOLDS)
            assert await model.ask(asking(), by=BY, key="d")


@pytest.mark.parametrize(
    ("script", "status", "kind"),
    [
        (Script(status=400, error={"error": {"type": "bad_day", "message": "no"}}), 400, "bad_day"),
        (Script(status=503, error={"error": {"code": "overloaded"}}), 503, "overloaded"),
        (Script(status=200, error={"choices": []}), 200, "unreadable"),
        (None, None, "connection"),
    ],
)
async def test_a_failure_has_its_status_and_type_in_log_and_account(
    ledger: Ledger, open_model: OpenModel, caplog: pytest.LogCaptureFixture, script: Script | None,
    status: int | None, kind: str,
) -> None:  # fmt: skip
    with model_server(chat, script) as server:
        url = f"{server.url}/v1" if script is not None else "http://127.0.0.1:1/v1"
        async with open_model(url) as model:
            with pytest.raises(ProviderError) as caught:
                await model.ask(asking(), by=BY, key="k")
    assert (caught.value.status, caught.value.kind) == (status, kind)
    (logged,) = (vars(each) for each in caplog.records if each.getMessage() == Event.LLM_CALL_FAILED)
    assert (logged["status"], logged["kind"]) == (status, kind)
    (failing,) = ledger.usage.failing(COMPANY, without="another")
    assert (failing.model, failing.status, failing.error_kind) == (MODEL, status, kind)


async def test_extra_fields_and_headers_are_sent_and_no_header_is_shown(
    open_model: OpenModel, caplog: pytest.LogCaptureFixture
) -> None:
    extra = ", extra_body: {reasoning_effort: low, options: {num_gpu: 1}}, extra_headers: {X-Team: the-secret-word}"
    caplog.set_level(logging.DEBUG)
    with model_server(ollama) as server:
        async with open_model(f"{server.url}/api", policy=extra) as model:
            await model.ask(asking(), by=BY, key="k")
    (asked,) = questions(server)
    assert asked.headers["x-team"] == "the-secret-word"
    assert asked.body["reasoning_effort"] == "low"
    assert asked.body["options"]["num_gpu"] == 1
    assert asked.body["options"]["num_predict"] == 200
    with model_server(ollama, Script(status=400, error={"error": "no"})) as server:
        async with open_model(f"{server.url}/api", policy=extra) as model:
            with pytest.raises(ProviderError) as caught:
                await model.ask(asking(), by=BY, key="k")
    assert "the-secret-word" not in repr([vars(each) for each in caplog.records]) + repr(vars(caught.value))


async def test_anthropic_has_its_key_in_its_own_header(open_model: OpenModel) -> None:
    with model_server(anthropic, Script(key="the-key")) as server:
        async with open_model(server.url, policy=", api: anthropic", llm_api_key=SecretStr("the-key")) as model:
            await model.ask(asking(), by=BY, key="k")
    (asked,) = questions(server)
    assert asked.body["system"] == "Find the lesson."
    assert asked.body["max_tokens"] == 200
    assert "authorization" not in asked.headers


@pytest.mark.parametrize(
    ("url", "wanted", "api"),
    [
        ("https://api.openai.com/v1", "auto", "chat"),
        ("https://api.anthropic.com", "auto", "anthropic"),
        ("https://notanthropic.com/v1", "auto", "chat"),
        ("http://127.0.0.1:11434/api", "auto", "ollama"),
        ("http://127.0.0.1:11434/v1", "auto", "chat"),
        ("http://[::1", "auto", "chat"),
        ("https://api.anthropic.com", "chat", "chat"),
    ],
)
def test_the_address_says_which_api_a_server_speaks(url: str, wanted: str, api: str) -> None:
    assert api_of(url, Api(wanted)) == api

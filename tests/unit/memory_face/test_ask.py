"""Questions through Memory and AsyncMemory: the answer, its parts as they come, and the agent's account."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.agent_tools import COMPANY, WordBackend, memory_parts
from support.config_effects import Place
from support.fake_summarizer import said
from support.memories import NOW

from memcore.client.async_client import AsyncMemoryClient
from memcore.client.client import MemoryClient
from memcore.clock import utc_now
from memcore.config.loader import load_policy
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.errors import MemoryConnectionError
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_usage import UsageBy
from memcore.llm.protocol import Completion, CompletionRequest
from memcore.memory.async_memory import AsyncMemory
from memcore.memory.memory import Memory
from memcore.models.asking import Answer, AnsweredBy, AnswerSentence, FoundPassages, NoSentences
from memcore.models.memory import MemoryCategory, MemoryStoreRequest

QUESTION, SAID = "Which disk is full?", "The disk of the build host is full."
SENTENCES = [{"text": SAID, "passages": [1]}, {"text": "The lift is red.", "passages": [1]}]
ANSWER = {"known": True, "sentences": SENTENCES, "answers": True}
POLICY = load_policy("memory: {llm: {model: m}}")


class Writing:
    """A broker that takes nothing: asking sends no job."""

    def send(self, name: str, *_given: object, **_how: object) -> str:
        raise AssertionError(name)

    send_many = send

    def close(self) -> None:
        """Nothing is open."""


class Provider:
    """A language model that answers every question alike, or waits for a test."""

    def __init__(self, *, waits: bool = False) -> None:
        self.asked: list[CompletionRequest] = []
        self.waits = waits

    async def complete(self, request: CompletionRequest, *, idempotency_key: str) -> Completion:
        del idempotency_key
        self.asked.append(request)
        if self.waits:
            await asyncio.Event().wait()
        return said(json.dumps(ANSWER))

    async def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def settings(tmp_path: Path, ledger_template: Path) -> Settings:
    return Place(folder=tmp_path / "home", template=ledger_template).settings()


@pytest.fixture
def backend() -> WordBackend:
    made = WordBackend(company=COMPANY, clock=lambda: NOW)
    asyncio.run(made.connect())
    asyncio.run(made.store("ada", MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=SAID)))
    return made


#: Asks with what it is given, and returns the parts of the answer.
Asking = Callable[..., list[Any]]


def of_memory(settings: Settings, policy: Policy, backend: WordBackend, provider: Provider | None) -> Iterator[Asking]:
    client = MemoryClient("redis://127.0.0.1:1/0")
    client._opened = Writing()  # type: ignore[assignment]  # it has what these calls need
    with Memory(client, **memory_parts(settings, policy, backend, provider)) as memory:

        def asked(**fields: Any) -> list[Any]:
            streamed = [*memory.ask_stream("ada", QUESTION, **fields)]
            assert memory.ask("ada", QUESTION, **fields) == streamed[-1]
            return streamed

        yield asked


def of_async(settings: Settings, policy: Policy, backend: WordBackend, provider: Provider | None) -> Iterator[Asking]:
    client = AsyncMemoryClient("redis://127.0.0.1:1/0")
    client.blocking._opened = Writing()  # type: ignore[assignment]  # it has what these calls need

    async def engine(**fields: Any) -> list[Any]:
        async with AsyncMemory(client, **memory_parts(settings, policy, backend, provider)) as memory:
            streamed = [part async for part in await memory.ask_stream("ada", QUESTION, **fields)]
            assert await memory.ask("ada", QUESTION, **fields) == streamed[-1]
            return streamed

    yield lambda **fields: asyncio.run(engine(**fields))


both_faces = pytest.mark.parametrize("face", [of_memory, of_async])
Face = Callable[[Settings, Policy, WordBackend, Provider | None], Iterator[Asking]]


@both_faces
def test_what_was_found_comes_first_then_each_sentence_and_the_whole(
    face: Face, settings: Settings, backend: WordBackend
) -> None:
    (found, sentence, answer), *_ = [ask() for ask in face(settings, POLICY, backend, Provider())]
    assert type(found) is FoundPassages
    assert [each.text for each in found.passages] == [SAID]
    assert sentence == AnswerSentence(text=SAID, memory_ids=(found.passages[0].memory_id,))
    assert isinstance(answer, Answer)
    assert (answer.passages, answer.sentences) == (found.passages, (sentence,))


@both_faces
def test_the_agent_pays_under_a_purpose_of_its_own(face: Face, settings: Settings, backend: WordBackend) -> None:
    for ask in face(settings, POLICY, backend, Provider()):
        ask()
    with closing(Ledger.open(settings.ledger_urls)) as ledger:
        today = utc_now().date()
        since = today - timedelta(days=1)
        (spent,) = ledger.usage.report(COMPANY, UsageBy.PURPOSE, since=since, until=today)
        assert (spent.key, spent.calls) == ("system:memory:ask", 4)
        (spent,) = ledger.usage.report(COMPANY, UsageBy.AGENT, since=since, until=today)
        assert spent.key == "ada"


@both_faces
def test_an_agent_over_its_budget_is_shown_the_passages(face: Face, settings: Settings, backend: WordBackend) -> None:
    policy = load_policy("memory: {llm: {model: m}, budgets: {tokens_per_agent_per_day: 0}}")
    provider = Provider()
    for ask in face(settings, policy, backend, provider):
        *_, answer = ask()
        assert (answer.answered_by, answer.reason) == (AnsweredBy.PASSAGES, NoSentences.BUDGET)
        assert [each.text for each in answer.passages] == [SAID]
    assert provider.asked == []


@both_faces
def test_without_a_server_the_passages_are_the_answer(face: Face, settings: Settings, backend: WordBackend) -> None:
    for ask in face(settings, POLICY, backend, None):
        found, answer = ask()
        assert (answer.reason, answer.passages) == (NoSentences.NO_MODEL, found.passages)


@both_faces
def test_a_model_that_takes_too_long_is_left_and_what_it_may_bill_stays_on_the_account(
    face: Face, settings: Settings, backend: WordBackend
) -> None:
    for ask in face(settings, POLICY, backend, Provider(waits=True)):
        _, answer = ask(timeout_seconds=0.05)
        assert answer.reason is NoSentences.TIME
    with closing(Ledger.open(settings.ledger_urls)) as ledger:
        today = utc_now().date()
        (spent,) = ledger.usage.report(COMPANY, UsageBy.AGENT, since=today - timedelta(days=1), until=today)
    assert (spent.calls, spent.failed, spent.open) == (2, 2, 0)
    assert spent.prompt_tokens + spent.completion_tokens > 0


@both_faces
def test_a_store_that_is_away_is_an_error_before_the_first_part(
    face: Face, settings: Settings, backend: WordBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_given: object, **_how: object) -> tuple[()]:
        raise MemoryConnectionError("away", part="store")

    monkeypatch.setattr(WordBackend, "retrieve", away)
    for ask in face(settings, POLICY, backend, Provider()):
        with pytest.raises(MemoryConnectionError):
            ask()

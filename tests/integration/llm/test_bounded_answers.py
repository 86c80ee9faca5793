"""Whatever a server answers, a call ends in time and reads no more than its limit: models, embedder, webhook."""

import asyncio
import logging
import resource
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from support.hostile_server import (
    Answer,
    announced,
    endless,
    endless_refusal,
    gzip_bomb,
    hostile_server,
    slow_body,
    slow_head,
    small_gzip,
)
from support.proposals import proposal

from memcore.approvals import Webhook
from memcore.clock import utc_now
from memcore.embedding.remote import ATTEMPTS, JsonPost
from memcore.errors import (
    MemoryConfigError,
    MemoryEmbeddingError,
    MemoryError,  # noqa: A004
    ProviderError,
)
from memcore.llm.protocol import CompletionRequest
from memcore.llm.provider import ServerProvider
from memcore.models.approval import Approval, ApprovalNeed, ApprovalState
from memcore.models.execution import ChatMessage, MessageRole

#: How long one request may take to a server that is slow, and how long a call with all its attempts.
LIMIT = timedelta(seconds=0.4)
WITHIN_SECONDS = LIMIT.total_seconds() * ATTEMPTS + 1.5

#: The same where only the size ends the request: a busy machine needs a while for 32 MiB.
PATIENT = timedelta(seconds=20)

#: Growth of this process that is far below what any of the servers sends, in bytes.
MOST_MEMORY = 150 * 2**20

REQUEST = CompletionRequest(messages=(ChatMessage(role=MessageRole.USER, content="hello"),), max_tokens=10)


def ask_model(url: str, limit: timedelta) -> str:
    async def ask() -> None:
        provider = ServerProvider(f"{url}/v1", model="m", timeout=limit)
        try:
            await provider.complete(REQUEST, idempotency_key="k")
        finally:
            await provider.close()

    with pytest.raises(ProviderError) as caught:
        asyncio.run(ask())
    return str(caught.value)


def list_models(url: str, limit: timedelta) -> str:
    async def ask() -> None:
        provider = ServerProvider(f"{url}/v1", model="m", timeout=limit)
        try:
            await provider.models()
        finally:
            await provider.close()

    with pytest.raises(ProviderError) as caught:
        asyncio.run(ask())
    return str(caught.value)


def embed(url: str, limit: timedelta) -> str:
    with pytest.raises(MemoryError) as caught:
        JsonPost(f"{url}/v1", timeout=limit, pause=lambda _seconds: None).ask("/embeddings", {"input": ["tea"]})
    assert isinstance(caught.value, MemoryEmbeddingError | MemoryConfigError) or "status 400" in str(caught.value)
    return str(caught.value)


def notify(url: str, limit: timedelta) -> str:
    now = utc_now()
    approval = Approval(
        approval_id="one",
        proposal=proposal(),
        state=ApprovalState.PENDING,
        needs=ApprovalNeed.WORD,
        created_at=now,
        expires_at=now,
    )
    problems: list[str] = []

    class Remember(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            problems.append(str(vars(record)["problem"]))

    log, handler = logging.getLogger("memcore.approvals"), Remember()
    log.addHandler(handler)
    try:
        asyncio.run(Webhook(url, timeout=limit).notify(approval))
    finally:
        log.removeHandler(handler)
    return "".join(problems)


CALLS: dict[str, Callable[[str, timedelta], str]] = {
    "a model": ask_model, "list of models": list_models, "an embedder": embed, "a webhook": notify,
}  # fmt: skip

TOO_LARGE = {"a model": "4194304 bytes", "list of models": "4194304 bytes", "an embedder": "33554432 bytes"}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "answer",
    [endless, endless_refusal, announced, slow_body, slow_head, gzip_bomb, small_gzip],
    ids=lambda each: each.__name__,
)
def test_no_answer_holds_a_worker_or_fills_its_memory(call: str, answer: Answer) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024
    started = time.monotonic()
    with hostile_server(answer) as url:
        problem = CALLS[call](url, LIMIT if answer in {slow_body, slow_head} else PATIENT)
    assert time.monotonic() - started < (
        WITHIN_SECONDS if answer in {slow_body, slow_head} else PATIENT.total_seconds()
    )
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024 - before < MOST_MEMORY
    if call == "a webhook":
        return  # it reads nothing of the answer but its status
    if answer in {endless, announced}:
        assert TOO_LARGE[call] in problem
    elif answer in {slow_body, slow_head}:
        assert "0.4 s" in problem
    elif answer in {gzip_bomb, small_gzip}:
        assert "gzip, which was not asked for" in problem
    else:
        assert "400" in problem

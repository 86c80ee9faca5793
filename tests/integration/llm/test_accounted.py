"""The accounted model: budget, retries and account around a faulty stub."""

import asyncio
import logging
from collections.abc import Callable
from datetime import date, timedelta

import pytest
from sqlalchemy import select
from support.ledger_records import COMPANY, StoppedClock
from support.stub_llm_process import StubLLM

from examples.stub_llm.fault import Fault, Scripted
from memcore.config.llm import BudgetsConfig, ModelPrice
from memcore.errors import (
    BudgetExceededError,
    MemoryConnectionError,
    ProviderError,
    ProviderUnavailableError,
    RetryExhaustedError,
)
from memcore.ledger.ledger import Ledger
from memcore.ledger.tables import model_calls
from memcore.llm.accounting import AccountedModel
from memcore.llm.protocol import Attribution, CompletionRequest
from memcore.llm.provider import ServerProvider
from memcore.llm.retry import Retrying
from memcore.models.execution import ChatMessage, MessageRole

CANARY = "Zanzibar-4711"
DAY = date(2026, 3, 1)
BY = Attribution(company=COMPANY, agent_id="ada", run_id="run", purpose="system:memory:consolidate:semantic")
REQUEST = CompletionRequest(
    messages=(ChatMessage(role=MessageRole.USER, content=f"Ada moved to {CANARY} and likes green tea."),),
    max_tokens=50,
)
#: What the request may use at most: a quarter of its 47 bytes, rounded up, and the longest answer.
MOST = 12 + 50
PRICES = {"stub-small": ModelPrice(prompt_per_million=1e6, completion_per_million=2e6)}

OpenContext = Callable[..., AccountedModel]


@pytest.fixture
def open_context(ledger: Ledger, provider_at: Callable[..., ServerProvider]) -> OpenContext:
    """Build models that wait for nothing between two attempts."""

    async def at_once(_seconds: float) -> None:
        pass

    def build(
        stub: StubLLM,
        *,
        tokens: int | None = 200_000,
        cost: float | None = None,
        priced: bool = False,
        attempts: int = 4,
        seconds: float = 60.0,
    ) -> AccountedModel:
        return AccountedModel(
            Retrying(provider_at(stub.url, seconds=seconds), attempts=attempts, sleep=at_once),
            ledger.spending,
            budgets=BudgetsConfig(tokens_per_agent_per_day=tokens, cost_per_agent_per_day=cost),
            prices=PRICES if priced else {},
            model="stub-small",
        )

    return build


def calls(ledger: Ledger) -> list[tuple[str, int, int]]:
    """Return state, attempts and tokens of every call."""
    query = select(model_calls).order_by(model_calls.c.called_at)
    with ledger.spending._database.read() as connection:
        rows = connection.execute(query).mappings().all()
    return [(row["state"], row["attempts"], row["prompt_tokens"] + row["completion_tokens"]) for row in rows]


def spent(ledger: Ledger) -> int:
    return ledger.spending.of(COMPANY, "ada", DAY).tokens


async def test_an_answer_is_paid_at_its_price_and_has_its_reason(
    stub: StubLLM, ledger: Ledger, open_context: OpenContext
) -> None:
    answer = await open_context(stub, priced=True).ask(REQUEST, by=BY, key="k")
    assert CANARY in answer.text
    assert answer.cost == answer.prompt_tokens + 2 * answer.completion_tokens > 0
    assert spent(ledger) == stub.billed() == answer.prompt_tokens + answer.completion_tokens
    assert ledger.spending.of(COMPANY, "ada", DAY).cost == answer.cost
    with ledger.spending._database.read() as connection:
        row = dict(connection.execute(select(model_calls)).mappings().one())
    figures = {
        name: row[name] for name in ("company", "agent_id", "run_id", "question_id", "purpose", "model", "state")
    }
    assert figures == {
        "company": COMPANY,
        "agent_id": "ada",
        "run_id": "run",
        "question_id": "k",
        "purpose": BY.purpose,
        "model": "stub-small",
        "state": "answered",
    }
    assert row["settled_at"] is not None


@pytest.mark.parametrize(
    "fault",
    [
        Scripted(fault=Fault.STATUS, status=429, times=3),
        Scripted(fault=Fault.STATUS, status=429, retry_after="2", times=3),
        Scripted(fault=Fault.STATUS, status=500, times=3),
        Scripted(fault=Fault.DROP, times=3),
        Scripted(fault=Fault.MALFORMED, times=3),
    ],
    ids=lambda scripted: f"{scripted.fault}-{scripted.status}-{scripted.retry_after}",
)
async def test_trouble_that_passes_is_asked_again_under_the_same_key(
    stub: StubLLM, ledger: Ledger, open_context: OpenContext, fault: Scripted
) -> None:
    stub.order(fault)
    assert CANARY in (await open_context(stub).ask(REQUEST, by=BY, key="k")).text
    assert stub.keys() == ["k"] * 4
    assert calls(ledger) == [("answered", 4, stub.billed())]
    assert spent(ledger) == stub.billed()


async def test_an_answer_that_was_lost_on_its_way_is_paid_once(
    stub: StubLLM, ledger: Ledger, open_context: OpenContext
) -> None:
    stub.order(Fault.LOSE)
    assert CANARY in (await open_context(stub).ask(REQUEST, by=BY, key="k")).text
    assert [each["is_repeated"] for each in stub.log()] == [False, True]
    assert spent(ledger) == stub.billed()


async def test_tokens_of_failed_attempts_that_the_server_reports_are_paid_too(
    stub: StubLLM, ledger: Ledger, open_context: OpenContext
) -> None:
    stub.order(Scripted(fault=Fault.NO_CHOICES, times=2))
    answer = await open_context(stub).ask(REQUEST, by=BY, key="k")
    assert spent(ledger) == stub.billed() > answer.prompt_tokens + answer.completion_tokens


async def test_trouble_without_end_gives_the_budget_back(
    stub: StubLLM, ledger: Ledger, open_context: OpenContext
) -> None:
    stub.order(Scripted(fault=Fault.STATUS, status=503, times=None))
    with pytest.raises(RetryExhaustedError) as caught:
        await open_context(stub).ask(REQUEST, by=BY, key="k")
    assert isinstance(caught.value.__cause__, ProviderUnavailableError)
    assert calls(ledger) == [("failed", 4, 0)]
    assert spent(ledger) == 0


@pytest.mark.parametrize("fault", [Fault.DROP, Fault.LOSE, Fault.HANG])
async def test_trouble_without_an_answer_leaves_what_was_set_aside_as_spent(
    stub: StubLLM, ledger: Ledger, open_context: OpenContext, fault: Fault
) -> None:
    stub.order(fault)
    with pytest.raises(RetryExhaustedError):
        await open_context(stub, attempts=1, seconds=1.0).ask(REQUEST, by=BY, key="k")
    assert calls(ledger) == [("failed", 1, MOST)]
    assert spent(ledger) == MOST


@pytest.mark.parametrize("status", [400, 401])
async def test_a_refusal_is_asked_once_and_gives_the_budget_back(
    stub: StubLLM, ledger: Ledger, open_context: OpenContext, status: int
) -> None:
    stub.order(Scripted(fault=Fault.STATUS, status=status))
    with pytest.raises(ProviderError) as caught:
        await open_context(stub).ask(REQUEST, by=BY, key="k")
    assert not caught.value.is_retryable
    assert calls(ledger) == [("failed", 1, 0)]
    assert spent(ledger) == 0


@pytest.mark.parametrize(
    ("caps", "named"),
    [({"tokens": MOST - 1}, "tokens_per_agent_per_day: 0 of 61"), ({"cost": 111.0}, "cost_per_agent_per_day: 0.0000")],
)
async def test_over_the_budget_nothing_is_asked(
    stub: StubLLM, ledger: Ledger, open_context: OpenContext, clock: StoppedClock, caps: dict[str, int], named: str
) -> None:
    model = open_context(stub, priced=True, **caps)
    for _ in range(2):
        with pytest.raises(BudgetExceededError, match=named) as caught:
            await model.ask(REQUEST, by=BY, key="k")
        assert caught.value.until == clock.now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    assert stub.log() == []
    assert calls(ledger) == [("refused", 0, 0)]
    assert ledger.spending.waiting(COMPANY, DAY) == ("ada",)


async def test_a_budget_of_zero_lets_every_step_wait(stub: StubLLM, ledger: Ledger, open_context: OpenContext) -> None:
    with pytest.raises(BudgetExceededError):
        await open_context(stub, tokens=0).ask(REQUEST, by=BY, key="k")
    assert stub.log() == []
    assert spent(ledger) == 0


async def test_without_a_cap_there_is_no_end(stub: StubLLM, open_context: OpenContext) -> None:
    assert (await open_context(stub, tokens=None).ask(REQUEST, by=BY, key="k")).text


async def test_the_next_day_has_a_budget_of_its_own(
    stub: StubLLM, open_context: OpenContext, clock: StoppedClock
) -> None:
    model = open_context(stub, tokens=MOST)
    await model.ask(REQUEST, by=BY, key="k")
    with pytest.raises(BudgetExceededError) as caught:
        await model.ask(REQUEST, by=BY, key="other")
    clock.now = caught.value.until
    assert (await model.ask(REQUEST, by=BY, key="other")).text


async def test_eight_questions_at_once_stay_under_the_cap(
    stub: StubLLM, ledger: Ledger, open_context: OpenContext
) -> None:
    stub.order(seconds=0.2)
    model = open_context(stub, tokens=3 * MOST + 1)
    asked = [model.ask(REQUEST, by=BY, key=str(place)) for place in range(8)]
    results = await asyncio.gather(*asked, return_exceptions=True)
    refused = [each for each in results if isinstance(each, BudgetExceededError)]
    assert len(refused) == 5
    assert len(stub.log()) == 3
    assert spent(ledger) == stub.billed() <= 3 * MOST + 1


async def test_a_question_that_is_cancelled_keeps_what_was_set_aside(
    stub: StubLLM, ledger: Ledger, open_context: OpenContext
) -> None:
    stub.order(Fault.HANG)
    asking = asyncio.create_task(open_context(stub).ask(REQUEST, by=BY, key="k"))
    while not stub.log():  # noqa: ASYNC110  # the stub is another process
        await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert calls(ledger) == [("failed", 1, MOST)]
    assert spent(ledger) == MOST


async def test_an_answer_is_not_lost_when_the_ledger_cannot_be_told(
    stub: StubLLM, ledger: Ledger, open_context: OpenContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = open_context(stub)

    def away(*_: object, **__: object) -> bool:
        raise MemoryConnectionError("the ledger is away")

    monkeypatch.setattr(ledger.spending, "settle", away)
    assert (await model.ask(REQUEST, by=BY, key="k")).text
    assert calls(ledger) == [("asking", 0, MOST)]


async def test_neither_prompt_nor_answer_stands_in_a_log_or_in_the_ledger(
    stub: StubLLM, ledger: Ledger, open_context: OpenContext, caplog: pytest.LogCaptureFixture
) -> None:
    stub.order(Fault.STATUS, Scripted(fault=Fault.STATUS, status=400))
    model = open_context(stub)
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(ProviderError) as caught:
            await model.ask(REQUEST, by=BY, key="k")
        await model.ask(REQUEST, by=BY, key="k")
    assert CANARY not in str(caught.value)
    assert "llm.call.failed" in caplog.messages
    assert CANARY not in repr([vars(record) for record in caplog.records])
    with ledger.spending._database.read() as connection:
        assert CANARY not in repr(connection.execute(select(model_calls)).mappings().all())

"""Retries: when a question is asked again, the pause before, and when it gives up."""

import pytest

from memcore.errors import ProviderError, ProviderUnavailableError, RetryExhaustedError
from memcore.llm.protocol import Completion, CompletionRequest
from memcore.llm.retry import FIRST_PAUSE, LONGEST_PAUSE, Retrying, Tries
from memcore.models.execution import ChatMessage, MessageRole

REQUEST = CompletionRequest(messages=(ChatMessage(role=MessageRole.USER, content="hello"),), max_tokens=10)
ANSWER = Completion(text="hi", is_cut=False, model="m", prompt_tokens=2, completion_tokens=1)


class Scripted:
    """Raise what the script says, then answer."""

    def __init__(self, *troubles: ProviderError) -> None:
        self.troubles = list(troubles)
        self.keys: list[str] = []
        self.closed = False

    async def complete(self, request: CompletionRequest, *, idempotency_key: str) -> Completion:
        assert request is REQUEST
        self.keys.append(idempotency_key)
        if self.troubles:
            raise self.troubles.pop(0)
        return ANSWER

    async def close(self) -> None:
        self.closed = True


class Pauses(list[float]):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def busy(**given: float) -> ProviderUnavailableError:
    return ProviderUnavailableError("busy", **given)  # type: ignore[arg-type]  # only retry_after is given


async def asked(provider: Scripted, *, attempts: int = 4, chance: float = 1.0) -> tuple[list[float], Tries]:
    pauses, tries = Pauses(), Tries()
    retrying = Retrying(provider, attempts=attempts, sleep=pauses, chance=lambda: chance)
    try:
        assert await retrying.complete(REQUEST, idempotency_key="k", tries=tries) == ANSWER
    finally:
        await retrying.close()
    return pauses, tries


async def test_a_good_answer_is_asked_for_once() -> None:
    provider = Scripted()
    pauses, tries = await asked(provider)
    assert (pauses, tries.count, provider.keys, provider.closed) == ([], 1, ["k"], True)


async def test_the_longest_pause_doubles_and_every_attempt_carries_the_same_key() -> None:
    provider = Scripted(busy(), busy(), busy())
    pauses, tries = await asked(provider)
    first = FIRST_PAUSE.total_seconds()
    assert pauses == [first, 2 * first, 4 * first]
    assert (tries.count, provider.keys) == (4, ["k"] * 4)


@pytest.mark.parametrize("chance", [0.0, 0.25])
async def test_the_pause_is_drawn_from_zero_to_the_longest(chance: float) -> None:
    pauses, _ = await asked(Scripted(busy(), busy()), chance=chance)
    assert pauses == [chance * FIRST_PAUSE.total_seconds(), chance * 2 * FIRST_PAUSE.total_seconds()]


async def test_no_pause_of_our_own_is_longer_than_the_longest() -> None:
    pauses, _ = await asked(Scripted(*(busy() for _ in range(9))), attempts=10)
    assert max(pauses) == LONGEST_PAUSE.total_seconds()


async def test_what_the_server_asks_for_is_waited_and_a_little_more() -> None:
    pauses, _ = await asked(Scripted(busy(retry_after=7.0)), chance=0.5)
    assert pauses == [7.5]


async def test_a_wait_longer_than_the_longest_is_not_waited() -> None:
    provider = Scripted(busy(retry_after=LONGEST_PAUSE.total_seconds() + 1))
    with pytest.raises(RetryExhaustedError) as caught:
        await asked(provider)
    assert len(provider.keys) == 1
    assert isinstance(caught.value.__cause__, ProviderUnavailableError)


async def test_trouble_in_every_attempt_is_given_up_with_the_last_as_its_cause() -> None:
    last = ProviderUnavailableError("the last")
    provider = Scripted(busy(), busy(), last, busy())
    with pytest.raises(RetryExhaustedError, match="the last") as caught:
        await asked(provider, attempts=3)
    assert caught.value.__cause__ is last
    assert caught.value.is_retryable
    assert len(provider.keys) == 3


async def test_a_refusal_is_not_asked_again() -> None:
    provider = Scripted(ProviderError("wrong key"))
    with pytest.raises(ProviderError, match="wrong key") as caught:
        await asked(provider)
    assert not caught.value.is_retryable
    assert len(provider.keys) == 1


async def test_the_tokens_of_failed_attempts_are_counted() -> None:
    first, second = (ProviderUnavailableError("unreadable", tokens=tokens) for tokens in ((5, 2), (7, 0)))
    _, tries = await asked(Scripted(first, second))
    assert (tries.prompt_tokens, tries.completion_tokens, tries.is_unclear) == (12, 2, False)


async def test_an_attempt_that_ended_without_an_answer_is_unclear() -> None:
    _, tries = await asked(Scripted(ProviderUnavailableError("too slow", tokens=None)))
    assert tries.is_unclear

"""A request is made to fit into a model's context: its longest texts lose their middle, and nothing else changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from memcore.errors import ProviderError
from memcore.llm.fitting import fitted, needed_tokens, with_schema_in_prompt
from memcore.llm.protocol import CompletionRequest
from memcore.models.execution import ChatMessage, MessageRole
from memcore.untrusted_text import wrap_untrusted

RULES = "Find what is new, and answer in one sentence."


def asking(*texts: str, most: int = 100, whole: bool = False) -> CompletionRequest:
    content = "\n".join(wrap_untrusted("memory-entry", text, attributes={"number": "1"}) for text in texts)
    return CompletionRequest(
        messages=(
            ChatMessage(role=MessageRole.SYSTEM, content=RULES),
            ChatMessage(role=MessageRole.USER, content=f"These are known:\n{content}\nAnd now?"),
        ),
        max_tokens=most,
        whole=whole,
    )


def test_what_fits_and_what_has_no_limit_is_as_it_was() -> None:
    request = asking("tea " * 100)
    assert fitted(request, None) == fitted(request, 4_096) == request


def test_the_longest_texts_are_cut_and_a_short_one_stays() -> None:
    request = asking("a" * 20_000, "Ada likes tea.", "b" * 12_000)
    found = fitted(request, 2_000)
    content = found.messages[1].content
    assert needed_tokens(found) + 100 <= 2_000
    assert wrap_untrusted("memory-entry", "Ada likes tea.", attributes={"number": "1"}) in content
    assert content.count('<memory-entry number="1">\n') == content.count("\n</memory-entry>") == 3
    assert content.count("bytes are left out here") == 2
    assert content.startswith("These are known:\n")
    assert content.endswith("\nAnd now?")
    assert abs(content.count("a" * 10) - content.count("b" * 10)) <= 20
    assert found.messages[0].content == RULES


def test_without_fences_the_users_message_is_cut() -> None:
    user = ChatMessage(role=MessageRole.USER, content=f"first {'x' * 40_000} last")
    found = fitted(CompletionRequest(messages=(user,), max_tokens=100), 2_000)
    content = found.messages[0].content
    assert content.startswith("first ")
    assert content.endswith(" last")
    assert needed_tokens(found) <= 1_900


def test_a_question_that_must_be_whole_is_refused_with_both_sizes() -> None:
    with pytest.raises(ProviderError, match=r"some 5\d\d\d tokens.*has 4096") as caught:
        fitted(asking("a" * 20_000, whole=True), 4_096)
    assert caught.value.kind == "context_too_small"


def test_rules_that_are_longer_than_the_context_are_refused() -> None:
    rules = ChatMessage(role=MessageRole.SYSTEM, content="rule " * 4_000)
    request = CompletionRequest(messages=(rules, *asking("tea").messages), max_tokens=100)
    with pytest.raises(ProviderError, match="rules alone"):
        fitted(request, 2_000)


def test_an_answer_takes_at_most_half_of_the_context() -> None:
    assert fitted(asking("tea", most=8_000), 2_000).max_tokens == 1_000


def test_a_schema_is_the_last_sentence_of_the_rules() -> None:
    request = asking("tea").model_copy(update={"json_schema": {"type": "object"}})
    found = with_schema_in_prompt(request)
    assert found.json_schema is None
    assert found.messages[0].content.startswith(RULES)
    assert found.messages[0].content.endswith('{"type":"object"}')
    assert found.messages[1:] == request.messages[1:]


@given(
    some.lists(some.text(alphabet="ab <>é日\n", max_size=4_000), min_size=1, max_size=5),
    some.integers(1_024, 3_000),
    some.floats(1.0, 3.0),
)
def test_whatever_the_texts_they_fit_and_every_fence_is_whole(texts: list[str], context: int, scale: float) -> None:
    request = asking(*texts)
    try:
        found = fitted(request, context, scale=scale)
    except ProviderError:
        return
    assert needed_tokens(found) * scale + found.max_tokens <= context + scale
    content = found.messages[1].content
    assert content.count("<") == 2 * len(texts)

"""Messages of chat models as turns."""

from typing import Any

import pytest

from memcore.conversation.messages import MAX_MESSAGES, SpokenTurn, turns_of
from memcore.errors import MemoryInputError
from memcore.jobs import MAX_TURN_CHARS


def _user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


@pytest.mark.parametrize(
    ("messages", "turns"),
    [
        ("I like tea.", [("I like tea.", "")]),
        (_user("I like tea."), [("I like tea.", "")]),
        ([_user("a"), _assistant("b"), _user("c"), _assistant("d")], [("a", "b"), ("c", "d")]),
        ([_user("a"), _user("b"), _assistant("c"), _assistant("d")], [("a\nb", "c\nd")]),
        ([{"role": "system", "content": "be kind"}, _user("a")], [("a", "")]),
        ([_assistant("hello"), _user("a")], [("a", "")]),
        ([_assistant("hello")], []),
        ([_user("  "), _assistant("b")], []),
        ([_user([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}])], [("a", "")]),
        ([_user(None)], []),
    ],
)
def test_messages_are_read_as_turns(messages: Any, turns: list[tuple[str, str]]) -> None:
    assert turns_of(messages) == tuple(SpokenTurn(*turn) for turn in turns)


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ([], "messages"),
        ([_user("a")] * (MAX_MESSAGES + 1), "messages"),
        (["a"], "messages.0"),
        ([_user("a"), {"role": "judge", "content": "b"}], "messages.1.role"),
        ([{"content": "b"}], "messages.0.role"),
        ([_user(7)], "messages.0.content"),
        ([_user(["a"])], "messages.0.content"),
        ([_user("a" * (MAX_TURN_CHARS + 1))], "messages.0.content"),
    ],
)
def test_what_is_no_message_is_refused_by_name(messages: Any, field: str) -> None:
    with pytest.raises(MemoryInputError) as refused:
        turns_of(messages)
    assert refused.value.field == field

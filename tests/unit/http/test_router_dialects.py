"""Where the router finds a person's turn in a request, what it leaves of it, and how it reads answers."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.http.router.dialects import BETWEEN, DIALECTS, MAX_LINE_BYTES, Reply

CHAT, MESSAGES, RESPONSES = (DIALECTS[name] for name in ("chat/completions", "messages", "responses"))
MEMORY = '<memory>"tea"\\ \u2026</memory>'

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
CALL = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}


def said(dialect: str, turns: Any, **more: Any) -> bytes:
    """Return a body as some client might write it: with spaces of its own."""
    return json.dumps({"model": "m", **more, DIALECTS[dialect].turns: turns}, indent=1, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("dialect", "turns", "text"),
    [
        ("chat/completions", [{"role": "user", "content": "Hi \u00e9\n"}], "Hi \u00e9\n"),
        ("chat/completions", [{"role": "user", "content": "a"}, CALL, {"role": "tool", "content": "x"}], "a"),
        (
            "chat/completions",
            [
                {"role": "user", "content": "a"},
                {"content": [{"type": "text", "text": "b"}, PICTURE, {"type": "text", "text": "c"}], "role": "user"},
            ],
            "b\nc",
        ),
        ("chat/completions", [{"role": "user", "content": "a"}, {"role": "user", "content": [PICTURE]}], "a"),
        (
            "messages",
            [
                {"role": "user", "content": "a"},
                {"role": "user", "content": [{"type": "tool_result", "content": "r"}, {"type": "text", "text": "b"}]},
            ],
            "a",
        ),
        ("responses", "Hi", "Hi"),
        ("responses", [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}], "Hi"),
    ],
)
def test_the_last_words_of_the_person_are_the_turn_and_all_else_stays(dialect: str, turns: Any, text: str) -> None:
    sent = said(dialect, turns, temperature=1.0, seed=12345678901234567890)
    turn = DIALECTS[dialect].turn(sent)
    assert turn is not None
    assert turn.text == text
    made = turn.with_memory(MEMORY)
    at = turn.place.at
    head = turn.body[:at].encode()
    assert made.startswith(head)
    assert made.endswith(sent[len(head) :])
    # What was put in is a text of its own, or stands before the words.
    changed = json.loads(made)
    plain, shown = json.dumps(json.loads(sent)), json.dumps(changed)
    assert shown != plain
    assert json.dumps(MEMORY)[1:-1] in shown
    assert len(changed[DIALECTS[dialect].turns]) >= len(turns)


def test_the_person_and_the_conversation_are_read_from_the_apis_own_fields() -> None:
    turns = [{"role": "user", "content": "first"}, CALL, {"role": "user", "content": "second"}]
    turn = CHAT.turn(said("chat/completions", turns, user="ada", metadata={"user_id": "bo", "session_id": "s"}))
    assert turn is not None
    assert (turn.begun, turn.text, turn.user, turn.session) == ("first", "second", "ada", "s")
    turn = MESSAGES.turn(said("messages", turns, user=7, metadata={"user_id": "bo"}))
    assert turn is not None
    assert (turn.user, turn.session) == ("bo", None)
    for nobody in ("", " ", "x" * 1_000, "a\0b", None, 7, ["ada"]):
        turn = CHAT.turn(said("chat/completions", turns, user=nobody, metadata=nobody))
        assert turn is not None
        assert turn.user is None


@pytest.mark.parametrize(
    "sent",
    [
        b"", b"{", b"[]", b"null", b"\xff", b'{"messages": [', b'{"messages": {}}', b'{"messages": "x"', b'{"a" 1}',
        b'{"messages": [{"role": "user", "content": ""}]}', b'{"messages": [{"role": "system", "content": "x"}]}',
        b'{"messages": [{"role": "user", "content": [1, {"type": "text", "text": 2}]}, 3, null]}',
        b"[" * 100_000, b'{"messages": ' + b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_holds_no_turn_is_left_as_it_is(sent: bytes) -> None:
    assert CHAT.turn(sent) is None


def test_of_a_name_that_stands_twice_the_last_one_counts_as_for_every_reader() -> None:
    sent = b'{"messages": [{"role": "user", "content": "a"}], "messages": [{"role": "user", "content": "b"}]}'
    turn = CHAT.turn(sent)
    assert turn is not None
    assert turn.text == "b"
    assert json.loads(turn.with_memory("m"))["messages"][0]["content"] == f"m{BETWEEN}b"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=20,
)


@given(more=st.dictionaries(st.text(max_size=8), _JSON, max_size=4), text=st.text(min_size=1), memory=st.text())
def test_taken_out_again_the_request_is_the_one_that_was_sent(more: dict[str, Any], text: str, memory: str) -> None:
    turns = [{"role": "user", "content": text, "more": more}, {"role": "assistant", "content": more}]
    sent = json.dumps({**more, "messages": turns}).encode()
    turn = CHAT.turn(sent)
    assert (turn is None) == (text.strip() == "")
    if turn is not None:
        changed = json.loads(turn.with_memory(memory))
        content = changed["messages"][0].pop("content")
        assert content == f"{memory}{BETWEEN}{text}"
        assert changed == {**more, "messages": [{"role": "user", "more": more}, turns[1]]}


def events(*made: dict[str, Any], end: bytes = b"data: [DONE]\n\n") -> bytes:
    return b"".join(b"event: x\ndata: %s\r\n\n" % json.dumps(each).encode() for each in made) + end


def delta(text: str, index: int = 0, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": {"content": text, **more}}]}


STREAMS = {
    "chat/completions": events(delta("Te", 0), delta("other", 1), delta("a."), {"choices": [], "usage": {}}),
    "messages": events(
        {"type": "message_start", "message": {"content": []}},
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Te"}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a."}},
        end=b"",
    ),
    "responses": events(
        {"type": "response.output_text.delta", "delta": "Te"},
        {"type": "response.output_text.delta", "delta": "a."},
        {"type": "response.completed", "response": {"output": [{"type": "message", "content": []}]}},
        end=b"",
    ),
}

WHOLE: dict[str, Any] = {
    "chat/completions": {"choices": [{"message": {"role": "assistant", "content": "Tea."}}]},
    "messages": {"type": "message", "content": [{"type": "thinking"}, {"type": "text", "text": "Tea."}]},
    "responses": {"output": [{"type": "message", "content": [{"type": "output_text", "text": "Tea."}]}]},
}

TOOLS: dict[str, dict[str, Any]] = {
    "chat/completions": delta("Tea.", tool_calls=[{"index": 0}]),
    "messages": {"type": "content_block_start", "content_block": {"type": "tool_use"}},
    "responses": {"type": "response.output_item.added", "item": {"type": "function_call"}},
}


def read(name: str, body: bytes, *, is_stream: bool, piece: int = 7, most: int = 100) -> str | None:
    reply = Reply(DIALECTS[name], is_stream=is_stream, most=most)
    for at in range(0, len(body), piece):
        reply.feed(body[at : at + piece])
    assert reply.text is None
    reply.end()
    return reply.text


@pytest.mark.parametrize("name", DIALECTS)
def test_an_answer_is_read_however_it_is_cut(name: str) -> None:
    for piece in (1, 2, 50, 10_000):
        assert read(name, STREAMS[name], is_stream=True, piece=piece) == "Tea."
        assert read(name, json.dumps(WHOLE[name]).encode(), is_stream=False, piece=piece) == "Tea."
    assert read(name, STREAMS[name], is_stream=True, most=3) == "Tea"
    assert read(name, STREAMS[name] + events(TOOLS[name]), is_stream=True) is None


def test_a_whole_answer_that_calls_a_tool_is_no_end_of_the_turn() -> None:
    chat = {"choices": [{"message": {"content": "Tea.", "tool_calls": [{"id": "1"}]}}]}
    assert read("chat/completions", json.dumps(chat).encode(), is_stream=False) is None
    messages = WHOLE["messages"] | {"stop_reason": "tool_use"}
    assert read("messages", json.dumps(messages).encode(), is_stream=False) is None
    responses = {"output": [*WHOLE["responses"]["output"], {"type": "function_call"}]}
    assert read("responses", json.dumps(responses).encode(), is_stream=False) is None


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    "body",
    [
        b"null", b"[1]", b'"x"', b"{", b"\xff\xfe", b"{}", b"[" * 10_000, b'{"choices": 1, "content": 2, "output": 3}',
        b'{"choices": [1, {"message": 2}, {"message": {"content": 3}}], "type": "message", "content": ["x", {}]}',
        b'{"type": "content_block_delta", "delta": "x"}', b'{"output": [{"type": "message", "content": "x"}, 1]}',
    ],
)  # fmt: skip
def test_what_no_model_answers_says_nothing(name: str, body: bytes) -> None:
    assert read(name, body, is_stream=False) == ""
    assert read(name, b"data: " + body + b"\n\n", is_stream=True) == ""


def test_a_line_without_an_end_is_read_no_further() -> None:
    reply = Reply(CHAT, is_stream=True, most=100)
    for _ in range(3):
        reply.feed(b"x" * (MAX_LINE_BYTES // 2))
    reply.feed(b"\n" + STREAMS["chat/completions"])
    reply.end()
    assert reply.text is None

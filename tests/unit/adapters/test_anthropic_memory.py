"""The memory tool beside the SDK's own tool over a folder, and in its tool runner with scripted answers."""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.lib.tools import ToolError
from anthropic.tools import BetaLocalFilesystemMemoryTool
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.fake_memory import AnyMemory, FakeMemory

from memcore.adapters.anthropic_memory import AsyncMemtendMemoryTool, MemtendMemoryTool
from memcore.errors import MemoryConnectionError

AGENT = "oncall"


def tool_of(memory: AnyMemory, **how: Any) -> MemtendMemoryTool:
    return MemtendMemoryTool(memory, agent_id=AGENT, **how)


@pytest.fixture
def tool(memory: AnyMemory) -> MemtendMemoryTool:
    return tool_of(memory)


def result(tool: Any, command: str, **how: Any) -> str:
    """Return what the model would read, behind ERROR where it is an error."""
    try:
        return str(tool.call({"command": command, **how}))
    except ToolError as error:
        return f"ERROR {error.content}"


def text_at(tool: Any, path: str) -> str:
    """Return a file's text, from its numbered lines."""
    shown = result(tool, "view", path=path)
    assert not shown.startswith("ERROR"), shown
    return "\n".join(line.split("\t", 1)[1] for line in shown.split("\n")[1:])


def test_the_definition_is_that_of_the_api(tool: MemtendMemoryTool) -> None:
    assert tool.to_dict() == {"type": "memory_20250818", "name": "memory"}
    assert tool.name == "memory"


def test_a_view_numbers_the_lines_of_a_file(tool: MemtendMemoryTool) -> None:
    made = result(tool, "create", path="/memories/a.txt", file_text="one\ntwo\nthree\n")
    assert made == "File created successfully at: /memories/a.txt"
    head = "Here's the content of /memories/a.txt with line numbers:\n"
    assert result(tool, "view", path="/memories/a.txt") == head + "     1\tone\n     2\ttwo\n     3\tthree\n     4\t"
    assert result(tool, "view", path="/memories/a.txt", view_range=[2, 3]) == head + "     2\ttwo\n     3\tthree"
    assert result(tool, "view", path="/memories/a.txt", view_range=[3, -1]) == head + "     3\tthree\n     4\t"
    assert result(tool, "view", path="/memories/a.txt", view_range=[9, 12]) == head


def test_a_view_of_a_folder_shows_two_levels_with_sizes(tool: MemtendMemoryTool) -> None:
    for path, size in (("a.txt", 10), ("d/b.txt", 1536), ("d/e/c.txt", 1), ("d/e/f/g.txt", 2048), (".hidden", 5)):
        result(tool, "create", path=f"/memories/{path}", file_text="x" * size)
    head = "Here're the files and directories up to 2 levels deep in {}, excluding hidden items:\n"
    assert result(tool, "view", path="/memories") == head.format("/memories") + (
        "3.5K\t/memories\n10B\t/memories/a.txt\n3.5K\t/memories/d/\n1.5K\t/memories/d/b.txt\n2.0K\t/memories/d/e/"
    )
    assert result(tool, "view", path="/memories/d/e/") == head.format("/memories/d/e/") + (
        "2.0K\t/memories/d/e\n1B\t/memories/d/e/c.txt\n2K\t/memories/d/e/f/\n2K\t/memories/d/e/f/g.txt"
    )


def test_the_empty_folder_can_be_viewed(tool: MemtendMemoryTool) -> None:
    assert result(tool, "view", path="/memories").endswith("\n0B\t/memories")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "memories/a",
        "/memoriesx/a",
        "/memories/../a",
        "/memories/a/../../b",
        "/memories/..",
        "/memories/./a",
        "/memories//a",
        "/memories/a\\..\\b",
        "/memories/a\0",
        "/memories/a\nb",
        "/memories/" + "x" * 257,
        "",
    ],
)
@pytest.mark.parametrize("command", ["view", "create", "str_replace", "insert", "delete", "rename"])
def test_a_path_that_leads_elsewhere_is_refused(fake: FakeMemory, command: str, path: str) -> None:
    tool = tool_of(fake)
    result(tool, "create", path="/memories/mine", file_text="x")
    given: dict[str, dict[str, Any]] = {
        "view": {"path": path, "view_range": None},
        "create": {"path": path, "file_text": "x"},
        "str_replace": {"path": path, "old_str": "x", "new_str": "y"},
        "insert": {"path": path, "insert_line": 0, "insert_text": "x"},
        "delete": {"path": path},
        "rename": {"old_path": "/memories/mine", "new_path": path},
    }
    assert result(tool, command, **given[command]).startswith("ERROR ")
    assert [entry.key for entry in fake.entries] == ["mine"]


@pytest.mark.parametrize("text", ["", "\n", " \t\n ", "a", "a\n", "\n\na", "(an empty file)", "é漢🙂", "a\r\nb"])
def test_any_text_comes_back_exactly(tool: MemtendMemoryTool, text: str) -> None:
    result(tool, "create", path="/memories/a", file_text=text)
    assert text_at(tool, "/memories/a") == text
    result(tool, "rename", old_path="/memories/a", new_path="/memories/b/c")
    assert text_at(tool, "/memories/b/c") == text
    result(tool, "insert", path="/memories/b/c", insert_line=0, insert_text="first")
    result(tool, "str_replace", path="/memories/b/c", old_str="first\n", new_str="")
    # An edit lets a file end with a line break; as in the SDK's tool, a file of nothing but one has no line.
    assert text_at(tool, "/memories/b/c") == ("" if text in {"", "\n"} else text.removesuffix("\n") + "\n")


def test_a_file_can_be_made_again_after_it_was_deleted(tool: MemtendMemoryTool) -> None:
    for _ in range(2):
        assert result(tool, "create", path="/memories/a", file_text="same").startswith("File created")
        assert result(tool, "create", path="/memories/a", file_text="x") == "ERROR File /memories/a already exists"
        assert result(tool, "delete", path="/memories/a") == "Successfully deleted /memories/a"


def test_a_file_above_the_limit_is_refused_with_the_limit(tool: MemtendMemoryTool) -> None:
    assert result(tool, "create", path="/memories/a", file_text="x" * 65_536).startswith("File created")
    refused = result(tool, "create", path="/memories/b", file_text="x" * 65_537)
    assert refused == "ERROR The file would have 65537 bytes; the limit is 65536. Use several files."
    assert "limit" in result(tool, "insert", path="/memories/a", insert_line=0, insert_text="x")
    assert "1024" in result(tool, "create", path="/memories/c", file_text=" " * 1_025)


@pytest.mark.parametrize(
    ("command", "how"),
    [
        ("create", {"path": "/memories/d", "file_text": "x"}),
        ("create", {"path": "/memories/a.txt/b", "file_text": "x"}),
        ("create", {"path": "/memories", "file_text": "x"}),
        ("rename", {"old_path": "/memories/d", "new_path": "/memories/d/e"}),
        ("rename", {"old_path": "/memories/a.txt", "new_path": "/memories/a.txt"}),
        ("rename", {"old_path": "/memories/d", "new_path": "/memories/a.txt/x"}),
        ("rename", {"old_path": "/memories", "new_path": "/memories/x"}),
        ("str_replace", {"path": "/memories/a.txt", "old_str": "", "new_str": "x"}),
        ("delete", {"path": "/memories/"}),
    ],
)
def test_what_folders_do_not_allow_is_refused(fake: FakeMemory, command: str, how: dict[str, Any]) -> None:
    tool = tool_of(fake)
    result(tool, "create", path="/memories/a.txt", file_text="x")
    result(tool, "create", path="/memories/d/b", file_text="y")
    assert result(tool, command, **how).startswith("ERROR ")
    assert (text_at(tool, "/memories/a.txt"), text_at(tool, "/memories/d/b")) == ("x", "y")


def test_agents_and_namespaces_have_their_own_files(memory: AnyMemory) -> None:
    first, second = tool_of(memory), tool_of(memory, namespace="second")
    other = MemtendMemoryTool(memory, agent_id="other")
    memory.put(AGENT, "A memory of the agent's own.")
    for each in (first, second, other):
        result(each, "create", path="/memories/a", file_text="x")
    assert first.clear_all_memory() == "All memory cleared"
    assert result(first, "view", path="/memories/a").startswith("ERROR ")
    assert text_at(second, "/memories/a") == text_at(other, "/memories/a") == "x"
    assert len(memory.entries) == 3


def test_searches_of_the_agent_find_its_files(tool: MemtendMemoryTool, memory: AnyMemory) -> None:
    result(tool, "create", path="/memories/paging.md", file_text="The payment queue pages at 500 messages.")
    assert [each.key for each in memory.search(AGENT, "payment queue")] == ["paging.md"]


def test_an_edit_does_not_wait_for_a_queue(tool: MemtendMemoryTool, memory: AnyMemory) -> None:
    result(tool, "create", path="/memories/a", file_text="one")
    memory.calls.clear()
    result(tool, "str_replace", path="/memories/a", old_str="one", new_str="two")
    assert "store_many" not in memory.calls


def test_memory_that_is_away_is_said_without_its_address(
    tool: MemtendMemoryTool, memory: AnyMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_given: object, **_named: object) -> None:
        raise MemoryConnectionError("10.0.0.7:6333 does not answer")

    monkeypatch.setattr(memory, "get_by_key", away)
    said = result(tool, "view", path="/memories/a")
    assert said == "ERROR Memory cannot be used now (MemoryConnectionError); try again later"


PATHS = st.sampled_from(["/memories/a.md", "/memories/b.md", "/memories/d/a.md", "/memories/d/e/c.md", "/memories/d"])
TEXTS = st.text(st.sampled_from("ab \nc"), max_size=8)
COMMANDS = st.one_of(
    st.fixed_dictionaries({"command": st.just("create"), "path": PATHS, "file_text": TEXTS}),
    st.fixed_dictionaries(
        {
            "command": st.just("view"),
            "path": PATHS,
            "view_range": st.one_of(st.none(), st.tuples(st.integers(0, 4), st.integers(1, 5)).map(list)),
        }
    ),
    st.fixed_dictionaries(
        {
            "command": st.just("str_replace"),
            "path": PATHS,
            "old_str": st.text(st.sampled_from("ab\n"), min_size=1, max_size=2),
            "new_str": TEXTS,
        }
    ),
    st.fixed_dictionaries(
        {"command": st.just("insert"), "path": PATHS, "insert_line": st.integers(-1, 5), "insert_text": TEXTS}
    ),
    st.fixed_dictionaries({"command": st.just("delete"), "path": PATHS}),
    st.fixed_dictionaries({"command": st.just("rename"), "old_path": PATHS, "new_path": PATHS}),
)


def without_empty_folders(root: Path) -> None:
    for folder in sorted((each for each in root.rglob("*") if each.is_dir()), reverse=True):
        if not any(folder.iterdir()):
            folder.rmdir()


def comparable(shown: str) -> str:
    """Return what is shown without the sizes of folders, which depend on the disk."""
    return re.sub(r"(?m)^[\d.]+[BKM](?=\t/memories\S*/$|\t/memories(/d|/d/e)?$)", "?", shown)


@given(st.lists(COMMANDS, max_size=14))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_commands_give_what_the_tool_over_a_folder_gives(commands: list[dict[str, Any]]) -> None:
    ours = tool_of(FakeMemory())
    with tempfile.TemporaryDirectory() as folder:
        theirs = BetaLocalFilesystemMemoryTool(folder)
        for command in [*commands, {"command": "view", "path": "/memories"}]:
            try:
                right = result(theirs, **command)
            except OSError:
                # It leaves a folder in the place of a file, and the like, to the disk: ours refuses that in a sentence.
                assert result(ours, **command).startswith("ERROR ")
                without_empty_folders(theirs.memory_root)
                continue
            without_empty_folders(theirs.memory_root)
            assert comparable(result(ours, **command)) == comparable(right), command


class Answers:
    """The API's answers in a row; keeps what it was sent."""

    def __init__(self, *contents: dict[str, Any]) -> None:
        self.contents = list(contents)
        self.sent: list[dict[str, Any]] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(json.loads(request.content))
        content = self.contents.pop(0)
        body = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [content],
            "stop_reason": "tool_use" if content["type"] == "tool_use" else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        return httpx2.Response(200, json=body)

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        return self(request)


def call(call_id: str, **how: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "memory", "input": how}


ASK: dict[str, Any] = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Remember tea."}]}


def answers() -> Answers:
    return Answers(
        call("1", command="view", path="/memories/tea.md"),
        call("2", command="create", path="/memories/tea.md", file_text="Likes tea."),
        {"type": "text", "text": "Noted."},
    )


def check(api: Answers, memory: AnyMemory) -> None:
    assert api.sent[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    replies = [each["messages"][-1]["content"][0] for each in api.sent[1:]]
    assert [reply.get("is_error", False) for reply in replies] == [True, False]
    assert replies[1]["content"] == "File created successfully at: /memories/tea.md"
    assert [entry.content for entry in memory.entries] == ["Likes tea."]


def test_the_tool_runner_runs_it(memory: AnyMemory) -> None:
    api = answers()
    with Anthropic(api_key="x", http_client=httpx2.Client(transport=httpx2.MockTransport(api))) as client:
        last = client.beta.messages.tool_runner(**ASK, tools=[tool_of(memory)]).until_done()
    assert last.content[0].text == "Noted."
    check(api, memory)


async def test_the_awaited_tool_runner_runs_it(memory: AnyMemory) -> None:
    api = answers()
    tool = AsyncMemtendMemoryTool(memory, agent_id=AGENT)
    transport = httpx2.MockTransport(api.answer)
    async with AsyncAnthropic(api_key="x", http_client=httpx2.AsyncClient(transport=transport)) as client:
        last = await client.beta.messages.tool_runner(**ASK, tools=[tool]).until_done()
    assert last.content[0].text == "Noted."
    check(api, memory)


async def test_every_awaited_command_does_what_the_other_does(memory: AnyMemory) -> None:
    tool = AsyncMemtendMemoryTool(memory, agent_id=AGENT)
    for command in (
        {"command": "create", "path": "/memories/a", "file_text": "one"},
        {"command": "insert", "path": "/memories/a", "insert_line": 1, "insert_text": "two"},
        {"command": "str_replace", "path": "/memories/a", "old_str": "one", "new_str": "1"},
        {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"},
    ):
        await tool.call(command)
    assert str(await tool.call({"command": "view", "path": "/memories/b"})).endswith("     1\t1\n     2\ttwo\n     3\t")
    await tool.call({"command": "delete", "path": "/memories/b"})
    assert await tool.clear_all_memory() == "All memory cleared"
    assert memory.entries == []

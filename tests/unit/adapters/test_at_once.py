"""Several writers of one item or file at one moment: each is told the truth, and nothing of theirs is lost."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from anthropic.lib.tools import ToolError
from support.fake_memory import LocalMemory
from support.present import present

from memcore.adapters.anthropic_memory import MemtendMemoryTool
from memcore.adapters.langgraph import MemtendStore
from memcore.errors import MemoryConflictError
from memcore.memories import Memories
from memcore.models.memory import MemoryCategory, MemoryStoreRequest
from memcore.records import MemoryRecord

AGENT, FILE = "oncall", "/memories/a.txt"


def commanded(memory: LocalMemory, **command: object) -> str:
    """What the model reads of a command to a tool of its own."""
    try:
        return str(MemtendMemoryTool(memory, agent_id=AGENT).call(command))
    except ToolError as error:
        return f"ERROR {error.content}"


def lines_of(memory: LocalMemory, path: str = FILE) -> list[str]:
    shown = commanded(memory, command="view", path=path).split("\n")[1:]
    return sorted(line.split("\t")[1] for line in shown if line.split("\t")[1])


async def test_of_ten_puts_to_one_key_all_are_done_and_the_last_stays(local: LocalMemory) -> None:
    store = MemtendStore(local, agent_id=AGENT)
    for round_ in range(4):
        await asyncio.gather(*(store.aput(("a",), "k", {"n": round_ * 10 + number}) for number in range(10)))
        found = store.search(("a",))
        assert len(found) == len(local.entries) == 1
        assert found[0].value["n"] // 10 == round_
    await store.aput(("a",), "k", {"n": 99})
    last = present(store.get(("a",), "k"))
    assert last.value == {"n": 99}


@pytest.mark.parametrize(("others", "kept"), [("delete", "mine"), ("put", "theirs")])
def test_a_put_that_meets_a_delete_is_done_again_and_a_later_put_stays(
    local: LocalMemory, monkeypatch: pytest.MonkeyPatch, others: str, kept: str
) -> None:
    look, calls = Memories._current, iter([others])

    async def seen_after(self: Memories, agent_id: str, memory_id: str) -> MemoryRecord | None:
        for call in calls:
            await self.forget(agent_id, memory_id)
            if call == "put":
                request = MemoryStoreRequest(content="theirs", category=MemoryCategory.SEMANTIC, key="k")
                await self.put(agent_id, request)
        return await look(self, agent_id, memory_id)

    monkeypatch.setattr(Memories, "_current", seen_after)
    assert local.put(AGENT, "mine", key="k").content == kept
    assert [each.content for each in local.entries] == [kept]


def test_edits_by_several_tools_of_one_file_are_all_there(local: LocalMemory) -> None:
    commanded(local, command="create", path=FILE, file_text="begin\n")

    def edit(number: int) -> str:
        if number % 3:
            return commanded(local, command="insert", path=FILE, insert_line=1, insert_text=f"line {number}")
        return commanded(local, command="str_replace", path=FILE, old_str="begin\n", new_str=f"begin\nline {number}\n")

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(edit, range(12)))
    assert [each for each in answers if each.startswith("ERROR")] == []
    assert lines_of(local) == sorted(["begin", *(f"line {number}" for number in range(12))])


def test_of_tools_that_create_one_file_one_does_and_the_others_read_that_it_exists(local: LocalMemory) -> None:
    for number in range(4):
        path = f"/memories/{number}.txt"

        def create(tool: int, path: str = path) -> str:
            return commanded(local, command="create", path=path, file_text=f"of {tool}")

        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(create, range(4)))
        (winner,) = [place for place, each in enumerate(answers) if not each.startswith("ERROR")]
        assert {each for each in answers if each.startswith("ERROR")} == {f"ERROR File {path} already exists"}
        assert lines_of(local, path) == [f"of {winner}"]


def test_a_file_that_is_edited_while_it_is_renamed_keeps_the_edit(
    local: LocalMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    commanded(local, command="create", path=FILE, file_text="one\n")
    forget, edits = Memories.forget, iter(["two"])

    async def edited_before(self: Memories, *given: object, **how: object) -> object:
        for text in edits:
            entry = present(await self.get_by_key(AGENT, "a.txt", namespace="memory-tool"))
            await self.update(AGENT, entry.id, content=f"{entry.content}{text}\n")
        return await forget(self, *given, **how)  # type: ignore[arg-type]  # as it was given

    monkeypatch.setattr(Memories, "forget", edited_before)
    answer = commanded(local, command="rename", old_path=FILE, new_path="/memories/b.txt")
    assert not answer.startswith("ERROR")
    assert lines_of(local, "/memories/b.txt") == ["one", "two"]
    assert commanded(local, command="view", path=FILE).startswith("ERROR")


def test_where_others_always_come_first_the_model_reads_that_it_may_try_again(
    local: LocalMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    commanded(local, command="create", path=FILE, file_text="one\n")
    monkeypatch.setattr("memcore.adapters.anthropic_memory._PAUSE_SECONDS", 0)

    async def conflict(*_given: object, **_how: object) -> object:
        raise MemoryConflictError("always")

    monkeypatch.setattr(Memories, "update", conflict)
    answer = commanded(local, command="insert", path=FILE, insert_line=0, insert_text="two")
    assert answer == "ERROR Memory cannot be used now (MemoryConflictError); try again later"

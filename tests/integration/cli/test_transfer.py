import json
from pathlib import Path

import pytest
from support.command_line import CommandLine
from support.memories import new_agent

from memcore.models.origin import Channel


def lines_of(agent: str) -> list[dict[str, object]]:
    texts = [
        "plain",
        "  spaced  ",
        "café 日本 🗝",
        "two\nlines\r\n",
        "line\u2028separator\u0085next\x0bpage",
        'quo"te\\',
        "\x01\x1f",
    ]
    return [
        {
            "agent_id": agent,
            "category": "episodic",
            "namespace": "n/1",
            "content": text,
            "metadata": {"source": "s", "confidence": 0.25, "tags": ["b", "a"]},
            "expires_at": "2999-01-01T00:00:00+00:00",
            "created_at": f"2026-01-01T00:00:0{number}.000123+00:00",
            "origin": {"channels": ["agent"], "principals": ["0123456789abcdef"]},
        }
        for number, text in enumerate(texts)
    ]


def test_what_goes_in_comes_out_the_same(memtend: CommandLine, tmp_path: Path) -> None:
    agent = new_agent()
    lines = lines_of(agent)
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join(json.dumps(each, ensure_ascii=False) for each in lines) + "\n", encoding="utf-8")
    assert memtend.ok("import", str(source), "--json").value == {
        "lines": 7, "memories": 7, "duplicate_lines": 0, "deleted_before": 0, "level_none": 0, "expired_lines": 0,
        "unknown_supersedes": 0,
    }  # fmt: skip
    memtend.ok("export", str(target), "--agent", agent)
    found = [json.loads(each) for each in target.read_bytes().split(b"\n")[:-1]]
    assert len({each.pop("id") for each in found}) == len(lines)
    assert found == lines
    assert list(tmp_path.glob(".*")) == []


def test_a_line_that_says_no_origin_is_another_systems(memtend: CommandLine) -> None:
    agent = new_agent()
    lines = [{name: value for name, value in each.items() if name != "origin"} for each in lines_of(agent)[:2]]
    given = [*lines, {**lines_of(agent)[2], "channel": "tool"}, lines_of(agent)[3]]
    memtend.ok("import", "-", stdin="\n".join(map(json.dumps, given)).encode())
    found = [json.loads(each)["origin"] for each in memtend.ok("export", "--agent", agent).out.splitlines()]
    assert [each["channels"] for each in found] == [["import"], ["import"], ["tool"], ["agent"]]

    other = new_agent()
    same = [{**each, "agent_id": other} for each in given]
    memtend.ok("import", "-", "--channel", "operator", stdin="\n".join(map(json.dumps, same)).encode())
    found = [json.loads(each)["origin"] for each in memtend.ok("export", "--agent", other).out.splitlines()]
    assert [each["channels"] for each in found] == [["operator"], ["operator"], ["tool"], ["agent"]]
    refused = memtend("import", "-", "--channel", "oracle", stdin=b"")
    assert (refused.code != 0, "channel" in refused.err) == (True, True)


@pytest.mark.parametrize("said", [{"origin": {"channels": ["tool", "person"]}}, {"channel": "agent"}])
def test_a_line_claims_at_most_the_channel_of_the_import(
    memtend: CommandLine, tmp_path: Path, said: dict[str, object]
) -> None:
    agent = new_agent()
    first, second = ({name: value for name, value in each.items() if name != "origin"} for each in lines_of(agent)[:2])
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(map(json.dumps, [first, {**second, **said}])))
    (field,) = said
    refused = memtend("import", str(file), "--channel", "tool")
    assert refused.code != 0
    assert f"line 2.{field}: is {'person' if field == 'origin' else 'agent'}; tool at most" in refused.err
    assert memtend.ok("export", "--agent", agent).out == ""

    report = memtend("import", str(file), "--from", "jsonl", "--channel", "tool", "--json")
    assert (report.code, report.value["refused"], report.value["sent"]) == (1, {field: 1}, 1)
    assert "tool at most" in Path(report.value["refused_list"]).read_text()
    (kept,) = [json.loads(each) for each in memtend.ok("export", "--agent", agent).out.splitlines()]
    assert (kept["content"], kept["origin"]["channels"]) == (first["content"], ["tool"])


def test_an_operators_restore_keeps_every_origin_as_it_was(memtend: CommandLine) -> None:
    agent, other = new_agent(), new_agent()
    origins = [{"channels": [each], "principals": ["k1"]} for each in Channel]
    origins += [{"channels": ["person", "tool"], "principals": []}, {"channels": ["import"], "principals": ["a", "b"]}]
    lines = [{**lines_of(agent)[0], "content": str(n), "origin": origin} for n, origin in enumerate(origins)]
    memtend.ok("import", "-", stdin="\n".join(map(json.dumps, lines)).encode())
    exported = memtend.ok("export", "--agent", agent).out
    memtend.ok("import", "-", stdin=exported.replace(agent, other).encode())
    for whose in (agent, other):
        found = [json.loads(each) for each in memtend.ok("export", "--agent", whose).out.splitlines()]
        assert {each["content"]: each["origin"] for each in found} == {str(n): each for n, each in enumerate(origins)}


def test_keys_and_attributes_come_out_as_they_went_in(memtend: CommandLine) -> None:
    agent = new_agent()
    line = {**lines_of(agent)[0], "key": "card/1", "attributes": {"origin": {"channel": "chat"}, "n": [1, None]}}
    memtend.ok("import", "-", stdin=json.dumps(line).encode())
    found = json.loads(memtend.ok("export", "--agent", agent).out)
    assert (found["key"], found["attributes"]) == ("card/1", {"origin": {"channel": "chat"}, "n": [1, None]})


def test_an_export_can_be_brought_in_again_and_changes_nothing(memtend: CommandLine) -> None:
    agent = new_agent()
    memtend.ok("import", "-", stdin="\n".join(map(json.dumps, lines_of(agent))).encode())
    out = memtend.ok("export", "--agent", agent).out
    memtend.ok("import", "-", stdin=out.encode())
    assert memtend.ok("export", "--agent", agent).out == out


def test_what_replaced_a_memory_replaces_it_where_they_are_brought_in(memtend: CommandLine, tmp_path: Path) -> None:
    old_id, new_id, none = (f"00000000-0000-0000-0000-00000000000{number}" for number in range(3))
    for words in ((), ("--from", "jsonl")):
        agent = new_agent()
        old, new = ({**each, "id": name} for each, name in zip(lines_of(agent), (old_id, new_id), strict=False))
        file = tmp_path / "moved.jsonl"
        file.write_text("\n".join(map(json.dumps, [{**new, "supersedes": [old_id, none]}, old])))
        assert memtend.ok("import", str(file), "--json", *words).value["unknown_supersedes"] == 1
        brought = {
            each["content"]: each for each in map(json.loads, memtend.ok("export", "--agent", agent).out.splitlines())
        }
        before, after = brought[old["content"]], brought[new["content"]]
        assert after["supersedes"] == [before["id"], none]
        assert "superseded" in before["metadata"]["tags"]


def test_an_export_of_all_holds_every_agent(memtend: CommandLine) -> None:
    ours = {new_agent(), new_agent()}
    for agent in ours:
        memtend.ok("store", agent, "here")
    found = {json.loads(line)["agent_id"] for line in memtend.ok("export").out.split("\n") if line}
    assert ours <= found


def test_an_empty_import_is_no_mistake(memtend: CommandLine) -> None:
    imported = memtend.ok("import", "-", "--json", stdin=b"\n\n").value
    assert set(imported.values()) == {0}


def test_an_import_says_why_there_are_fewer_memories_than_lines(memtend: CommandLine) -> None:
    agent = new_agent()
    lines = [{"agent_id": agent, "category": "semantic", "content": text} for text in ("one", "two", "two", "three")]
    content = "\n".join(map(json.dumps, lines)).encode()
    assert memtend.ok("import", "-", "--json", stdin=content).value == {
        "lines": 4, "memories": 3, "duplicate_lines": 1, "deleted_before": 0, "level_none": 0, "expired_lines": 0,
        "unknown_supersedes": 0,
    }  # fmt: skip


def test_a_byte_order_mark_is_no_part_of_the_first_line(memtend: CommandLine) -> None:
    line = json.dumps({"agent_id": new_agent(), "category": "semantic", "content": "kept"}).encode()
    imported = memtend.ok("import", "-", "--json", stdin=b"\xef\xbb\xbf" + line).value
    assert (imported["lines"], imported["memories"]) == (1, 1)


def test_an_import_says_how_many_lines_no_agent_keeps(memtend: CommandLine) -> None:
    agent, keeps_none = new_agent(), new_agent()
    memtend.ok("agents", "add", keeps_none, "--level", "none")
    owners = (agent, agent, keeps_none, keeps_none, keeps_none)
    lines = [{"agent_id": owner, "category": "semantic", "content": f"lift {at}"} for at, owner in enumerate(owners)]
    said = memtend.ok("import", "-", "--json", stdin="\n".join(map(json.dumps, lines)).encode()).value
    assert (said["lines"], said["level_none"]) == (5, 3)


def test_an_import_says_how_many_lines_had_expired(memtend: CommandLine) -> None:
    agent, old = new_agent(), {"created_at": "2019-01-01T00:00:00+00:00"}
    expiring = [{**old, "expires_at": f"{year}-01-01T00:00:00+00:00"} for year in (2020, 9000)]
    lines = [
        {"agent_id": agent, "category": "semantic", "content": f"lift {number}", **each}
        for number, each in enumerate([{}, *expiring])
    ]
    said = memtend.ok("import", "-", "--json", stdin="\n".join(map(json.dumps, lines)).encode()).value
    assert (said["lines"], said["memories"], said["expired_lines"]) == (3, 3, 1)

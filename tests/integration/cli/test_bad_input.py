"""Each mistake gets one sentence that names the field and the limit, exit code 2, and writes nothing."""

import json
import subprocess
from pathlib import Path

import pytest
from support.command_line import Answer, CommandLine
from support.memories import new_agent
from support.running_stack import MEMTEND, StackAddress, clean_environ
from support.stored import history_events, jobs_waiting, memory_ids

from memcore.jobs import Queue

#: More than any limit allows, in bytes.
TEN_MB = 10_000_000


def held(stack: StackAddress) -> tuple[int, int, int]:
    """Count memories, history rows and jobs of all agents; beat sends jobs of its own."""
    settings = stack.settings
    waiting = jobs_waiting(settings, *(queue for queue in Queue if queue is not Queue.CONTROL))
    return memory_ids(settings).total(), history_events(settings).total(), waiting


def known_agents(memtend: CommandLine) -> set[tuple[str, str | None]]:
    """Return who is known, and since when a person added them; beat writes when each is due next meanwhile."""
    return {(each["agent_id"], each["added_at"]) for each in memtend.ok("agents", "list", "--json").value}


def refused(answer: Answer, *words: str) -> None:
    assert answer.code == 2, answer
    assert answer.out == ""
    assert answer.err.startswith("memtend: ")
    assert answer.err.count("\n") == 1
    for word in words:
        assert word in answer.err


@pytest.mark.parametrize(
    ("options", "text", "said"),
    [
        ((), b"", "content: must not be blank"),
        ((), b" \n\t ", "content: must not be blank"),
        ((), b"x" * TEN_MB, f"content: has {TEN_MB} bytes; the limit is 65536"),
        ((), b"caf\xe9", "content: must be valid UTF-8"),
        (
            ("--category", "gossip"),
            b"x",
            "category: must be 'working', 'episodic', 'semantic', 'procedural' or 'social'",
        ),
        (("--expires-at", "2999-01-01T00:00:00"), b"x", "expires_at: needs a time zone, such as Z or +02:00"),
        (("--expires-at", "tomorrow"), b"x", "expires_at: must be an ISO time such as 2027-01-01T00:00:00Z"),
        (("--expires-at", "2001-01-01T00:00:00Z"), b"x", "expires_at: lies before created_at"),
        (("--namespace", " "), b"x", "namespace: must not be blank"),
        (("--namespace", "n" * 257), b"x", "namespace: must have at most 256 characters"),
        (("--confidence", "1.5"), b"x", "confidence: must be less than or equal to 1"),
        (("--source", "s" * 257), b"x", "source: must have at most 256 characters"),
        (("--tag", "t" * 257), b"x", "tags: a tag has 257 characters; the limit is 256"),
        (tuple(f"--tag={n}" for n in range(65)), b"x", "tags: has 65 items; the limit is 64"),
    ],
)
def test_a_memory_that_breaks_a_limit_is_refused_in_one_sentence(
    memtend: CommandLine, stack: StackAddress, options: tuple[str, ...], text: bytes, said: str
) -> None:
    before = held(stack)
    refused(memtend("store", new_agent(), "-", *options, stdin=text), said)
    assert held(stack) == before


@pytest.mark.parametrize(
    ("agent_id", "said"),
    [
        ("a" * 10_000, "agent_id: must have at most 256 characters"),
        ("  ", "agent_id: must not be blank"),
        ("a\0b", "agent_id: must not contain the character NUL"),
        ("a\udc80", "agent_id: must be valid Unicode text"),
    ],
)
def test_an_agent_id_that_breaks_a_limit_is_refused_by_every_command_that_writes(
    memtend: CommandLine, stack: StackAddress, agent_id: str, said: str
) -> None:
    before = held(stack)
    agents = known_agents(memtend)
    refused(memtend("store", agent_id, "text"), said)
    refused(memtend("maintain", agent_id), said)
    refused(memtend("agents", "add", agent_id), said)
    assert held(stack) == before
    assert known_agents(memtend) == agents


@pytest.mark.parametrize(
    "words",
    [("maintain", "{}"), ("maintain", "{}", "--dry-run"), ("end", "session", "{}", "s"), ("end", "task", "{}", "t")],
)
def test_an_agent_that_nobody_knows_has_no_runs(memtend: CommandLine, words: tuple[str, ...]) -> None:
    nobody = new_agent()
    answer = memtend(*(word.format(nobody) for word in words))
    assert (answer.code, answer.err.startswith(f"memtend: agent_id: '{nobody}' is not known")) == (1, True), answer
    assert nobody not in {agent_id for agent_id, _ in known_agents(memtend)}
    assert memtend.ok("runs", "list", "--agent", nobody, "--json").value == []


def line(**fields: object) -> bytes:
    return json.dumps({"agent_id": "importer", "category": "semantic", "content": "text", **fields}).encode()


BAD_LINES = [
    (line(content="x" * TEN_MB), f"line 500.content: has {TEN_MB} bytes; the limit is 65536"),
    (line(content=" "), "line 500.content: must not be blank"),
    (line(category="gossip"), "line 500.category: must be 'working'"),
    (line(created_at="2026-01-01T00:00:00"), "line 500.created_at: needs a time zone, such as Z or +02:00"),
    (line(expires_at="2026-01-01T00:00:00"), "line 500.expires_at: needs a time zone, such as Z or +02:00"),
    (line(expires_at="2001-01-01T00:00:00Z"), "line 500.expires_at: lies before created_at"),
    (line(agent_id="a" * 10_000), "line 500.agent_id: must have at most 256 characters"),
    (line(agent_id="a\0"), "line 500.agent_id: must not contain the character NUL"),
    (line(mood="sad"), "line 500.mood: is not a known field"),
    (b'{"agent_id": "importer"}', "line 500.category: is missing"),
    (b"{oops", "line 500: invalid JSON"),
    (b"[1]", "line 500: must be an object"),
    (b'{"agent_id": "importer", "category": "semantic", "content": "\xff"}', "line 500: invalid JSON"),
]


@pytest.mark.parametrize(("bad", "said"), BAD_LINES, ids=[said[:40] for _, said in BAD_LINES])
def test_an_import_with_one_bad_line_writes_no_line_at_all(
    memtend: CommandLine, stack: StackAddress, tmp_path: Path, bad: bytes, said: str
) -> None:
    before = held(stack)
    good = [line(content=f"good line {number} of {said}") for number in range(499)]
    file = tmp_path / "memories.jsonl"
    file.write_bytes(b"\n".join([*good, bad, *good]))
    refused(memtend("import", str(file)), said)
    assert held(stack) == before


def test_a_bad_line_behind_the_first_round_writes_nothing_either(
    memtend: CommandLine, stack: StackAddress, tmp_path: Path
) -> None:
    before = held(stack)
    good = [line(content=f"early line {number}") for number in range(3_000)]
    file = tmp_path / "memories.jsonl"
    file.write_bytes(b"\n".join([*good, line(agent_id=" ")]))
    refused(memtend("import", str(file)), "line 3001.agent_id: must not be blank")
    assert held(stack) == before


def test_a_file_that_is_not_there_is_told_as_such(memtend: CommandLine, tmp_path: Path) -> None:
    refused(memtend("import", str(tmp_path / "none.jsonl")), "file: cannot be read (No such file or directory)")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("search", "a", "x", "--limit", "0"), "limit: must be greater than or equal to 1"),
        (("search", "a", "x", "--since", "2026-01-01T00:00:00"), "since: needs a time zone"),
        (("search", "a", "x", "--since", "2027-01-01T00:00:00Z", "--until", "2026-01-01T00:00:00Z"), "since: must lie"),
        (("search", "a", "x", "--category", "gossip"), "categories"),
        (("agents", "add", "a", "--interval", "often"), "interval: must be 'hourly'"),
        (("agents", "add", "a", "--max-memories", "0"), "max_memories: must be greater than or equal to 1"),
        (("agents", "add", "a", "--retain", "working"), "retain: must be CATEGORY=DAYS"),
        (("dead", "replay"), "job_ids: name the jobs, or say --all"),
        (("dead", "replay", "job-1", "--all"), "job_ids: name the jobs, or say --all"),
        (("dead", "purge", "--yes"), "job_ids: name the jobs, or say --older-than DAYS"),
        (("dead", "purge", "job-1", "--older-than", "3"), "job_ids: name the jobs, or say --older-than DAYS"),
        (("dead", "purge", "--older-than", "-1"), "older_than: must be from 0 to 36500 days"),
        (("finetune", "runs", "--offset", "1" + "0" * 30), "offset: must be 0 to 1000000000"),
        (("dead", "purge", "--older-than", "0"), "yes: would drop 0 for good; say --yes"),
    ],
)
def test_a_wrong_option_is_refused_in_one_sentence(memtend: CommandLine, words: tuple[str, ...], said: str) -> None:
    refused(memtend(*words), said)


@pytest.mark.parametrize("words", [("runs", "list"), ("dead", "list")])
@pytest.mark.parametrize("limit", ["-1", "0", "1" + "0" * 30])
def test_a_limit_that_a_database_cannot_count_is_refused(
    memtend: CommandLine, words: tuple[str, ...], limit: str
) -> None:
    answer = memtend(*words, "--limit", limit)
    assert (answer.code, "'--limit'" in answer.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("runs", "show", "nothing"), "run_id"),
        (("runs", "undo", "nothing"), "run_id"),
        (("runs", "release", "nothing"), "run_id"),
        (("dead", "show", "nothing"), "job_id"),
        (("dead", "replay", "nothing"), "job_id"),
        (("dead", "purge", "nothing"), "job_id"),
        (("agents", "pause", "nobody-at-all"), "agent_id"),
        (("agents", "set", "nobody-at-all", "--role", "x"), "agent_id"),
    ],
)
def test_what_does_not_exist_is_told_in_one_sentence(memtend: CommandLine, words: tuple[str, ...], said: str) -> None:
    answer = memtend(*words)
    assert answer.code == 1
    assert said in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("memory:\n  levl: persistent\n", "memory.levl: unknown key; did you mean memory.level?"),
        ("memory:\n  storage:\n    data_dir: ../x\n", "memory.storage.data_dir: must not contain '..'"),
    ],
)
def test_a_wrong_policy_stops_every_command_and_starts_nothing(tmp_path: Path, policy: str, said: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "policy.yaml").write_text(policy)
    cold = CommandLine(home=home)
    refused(cold("config", "show"), said)
    refused(cold("up", "--home", str(home)), said)
    assert not list((home / "data").rglob("*.db"))
    assert not (home / "run" / "state.json").exists()


def test_the_script_itself_ends_with_exit_code_two(stack: StackAddress) -> None:
    done = subprocess.run(
        [MEMTEND, "store", "agent", " ", "--home", stack.home],
        env=clean_environ(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "memtend: content: must not be blank\n"


def test_without_a_stack_a_command_says_how_to_start_one(tmp_path: Path) -> None:
    refused(CommandLine(home=tmp_path)("status"), "nothing runs at", "memtend up")

import json
from pathlib import Path

import pytest
from support.command_line import CommandLine
from support.memories import new_agent
from support.running_stack import StackAddress, wait_until

from memcore.jobs import Queue

PARTS = ["broker", "store-server", "worker-store", "worker-night", "beat", "flower", "serve"]


def test_status_names_every_part_and_queue(memtend: CommandLine) -> None:
    def is_ready() -> bool:
        # Another test may have woken the model's worker a moment ago.
        parts = memtend.ok("status", "--json").value["parts"]
        return all(part["ready"] and part["pid"] and part["resident_bytes"] for part in parts)

    wait_until(is_ready, what="every part is ready")
    status = memtend.ok("status", "--json").value
    # No model is set here, so its worker sleeps unless another test had a job for it.
    assert [part["name"] for part in status["parts"] if part["name"] != "worker-llm"] == PARTS
    assert ("worker-llm" in status["asleep"]) != ("worker-llm" in {part["name"] for part in status["parts"]})
    assert set(status["queues"]) == set(map(str, Queue))
    assert status["paused"] is False
    assert status["dead"] == 0
    out = memtend.ok("status").out
    assert "up since" in out
    for part in (*PARTS, "worker-llm"):
        assert part in out


def test_a_well_stack_passes_every_look_of_the_doctor(memtend: CommandLine) -> None:
    def complaints() -> list[object]:
        # Another test may have left a run that the removal guard holds, or turns that wait for a model.
        found = memtend("doctor", "--json").value
        return [each for each in found if not each["ok"] and each["check"] not in {"held runs", "language model"}]

    wait_until(lambda: complaints() == [], what="a well stack")
    checks = {each["check"] for each in memtend("doctor", "--json").value}
    assert {f"part {part}" for part in (*PARTS, "worker-llm")} <= checks
    assert {
        "worker store",
        "worker night",
        "store",
        "embedder",
        "kill switch",
        "schedule",
        "policy",
    } <= checks


def test_the_configuration_tells_each_values_origin(memtend: CommandLine) -> None:
    rows = {row["key"]: row for row in memtend.ok("config", "show", "--json").value}
    assert rows["memory.level"]["value"] == "persistent"
    assert rows["memory.level"]["origin"] != rows["memory.backend"]["origin"]
    assert "memory.level" in memtend.ok("config", "show").out


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("top",),
        ("doctor",),
        ("config", "show"),
        ("agents", "list"),
        ("runs", "list"),
        ("skills", "cycles"),
        ("usage",),
        ("dead", "list"),
        ("search", "reader"),
        ("maintain", "reader", "--dry-run"),
    ],
)
def test_every_read_speaks_json(memtend: CommandLine, words: tuple[str, ...]) -> None:
    memtend.ok("agents", "add", "reader", "--interval", "never")
    answer = memtend(*words, "--json")
    json.loads(answer.out)


def test_nothing_of_the_stacks_files_is_for_other_eyes(stack: StackAddress) -> None:
    inside = [path for name in ("data", "logs", "run") for path in (stack.home / name).rglob("*")]
    kept = [stack.home, *inside]
    assert len(kept) > 30
    # A file may be replaced while it is looked at.
    modes = {path: path.stat().st_mode for path in kept if path.exists()}
    assert {str(path): oct(mode) for path, mode in modes.items() if mode & 0o077} == {}


def test_no_password_stands_in_a_command_line(stack: StackAddress) -> None:
    addresses = json.loads((stack.home / "run" / "doors.json").read_bytes())
    secrets = [value for name, value in addresses.items() if not name.endswith("_port")]
    assert len(secrets) == 4
    for process in stack.family():
        line = " ".join(process.cmdline())
        assert not any(secret in line for secret in secrets)


def test_logs_hold_no_memory_text(memtend: CommandLine, stack: StackAddress) -> None:
    agent = new_agent()
    memtend.ok("store", agent, "xylophonequartz is a word that no log may hold")
    memtend.ok("search", agent, "xylophonequartz")
    memtend.ok("maintain", agent)
    logs = list((stack.home / "logs").iterdir())
    assert logs
    for log in [*logs, Path(f"{stack.home}.up.log")]:
        assert b"xylophonequartz" not in log.read_bytes(), log

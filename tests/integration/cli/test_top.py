"""``memtend top`` over a running stack: one look, JSON, and the live screen on a terminal."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest
from support.command_line import CommandLine
from support.memories import new_agent
from support.running_stack import MEMTEND, StackAddress, clean_environ, wait_until

from memcore.jobs import Queue


def test_one_look_shows_parts_queues_canary_and_what_was_stored(memtend: CommandLine) -> None:
    memtend.ok("store", new_agent(), "tea at four")

    def is_whole() -> bool:
        # Workers add what they stored every five seconds, and a canary is sent every minute.
        seen = memtend.ok("top", "--json").value
        return bool(seen["stored"] and seen["canary"] and all(each["state"] == "ready" for each in seen["parts"][:7]))

    wait_until(is_whole, what="a canary and a count")
    seen = memtend.ok("top", "--json", "--once").value
    assert (seen["away"], seen["paused"], seen["company"]) == ([], False, "default")
    assert [each["queue"] for each in seen["queues"]] == list(map(str, Queue))
    assert all(each["waiting"] is not None for each in seen["queues"])
    parts = {each["part"]: each for each in seen["parts"]}
    assert parts["worker-store"]["answering"] == 1
    assert parts["worker-store"]["heartbeat_seconds"] < 30
    assert set(seen["needs_a_person"]) == {"held_runs", "approvals", "dead_letters", "failed_memory_tests"}
    out = memtend.ok("top", "--once").out
    for words in ("memtend default", "up ", "maintenance on", "canary: ", "stored: ", "worker-night", "store-server"):
        assert words in out


@pytest.mark.parametrize("typed", [b"xq", b"\x03", None], ids=["q", "Ctrl-C", "SIGTERM"])
def test_the_live_screen_goes_on_until_a_person_ends_it_and_leaves_the_terminal(
    stack: StackAddress, typed: bytes | None
) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before = termios.tcgetattr(theirs)
    environ = {**clean_environ(), "TERM": "xterm-256color"}
    words = [str(MEMTEND), "top", "--home", str(stack.home), "--interval", "0.5"]

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        words,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environ,
        preexec_fn=take_terminal,  # noqa: PLW1509  # no threads of ours
    )
    out, until, is_asked = b"", time.monotonic() + 300, False
    while process.poll() is None and time.monotonic() < until:
        if select.select([ours], [], [], 0.1)[0]:
            out += os.read(ours, 65_536)
        if not is_asked and out.count(b"memtend default") >= 3:
            process.terminate() if typed is None else os.write(ours, typed)
            is_asked = True
    process.kill()
    while select.select([ours], [], [], 0)[0]:
        out += os.read(ours, 65_536)
    assert process.wait() == 0, out
    assert b"Traceback" not in out
    # The alternate screen and the hidden cursor are left as they were entered.
    for on, off in ((b"\x1b[?1049h", b"\x1b[?1049l"), (b"\x1b[?25l", b"\x1b[?25h")):
        assert out.count(on) == out.count(off) == 1
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


def test_without_servers_a_look_says_so_in_place_of_a_traceback(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MEMTEND_DATABASE_URL", "postgresql://memtend@127.0.0.1:1/memtend")
    answer = subprocess.run(
        [MEMTEND, "top", "--once"], env={**os.environ, "MEMTEND_HOME": str(tmp_path)}, capture_output=True, check=True
    )
    assert answer.stderr == b""
    for part in (b"ledger", b"broker"):
        assert b"the " + part + b" does not answer" in answer.stdout

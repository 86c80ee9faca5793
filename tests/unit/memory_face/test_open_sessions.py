"""The sessions that an engine ends when it shuts down: each once, in bounded time, and none of another process."""

import asyncio
import os
import sys
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from subprocess import run
from typing import TYPE_CHECKING, Any, cast

import pytest
from support.repository import ROOT

from memcore import AsyncMemory, AsyncMemoryClient, Memory
from memcore.client.results import JobReceipt, TurnReceipt
from memcore.config.policy import Policy
from memcore.memory.open_sessions import MOST_SESSIONS, SHUTDOWN_SECONDS, OpenSessions, SessionName

if TYPE_CHECKING:
    from memcore.client.client import MemoryClient

IDLE = timedelta(minutes=20)

ANN = SessionName("helpdesk", "s-1", "ann")
EVE = SessionName("helpdesk", "s-2", None)


@dataclass
class Client:
    """A client that notes the ends; each takes some seconds of the clock."""

    seconds: float = 0.0
    is_away: bool = False
    takes: float = 0.0
    ends: list[tuple[str, bool]] = field(default_factory=list)
    is_closed: bool = False

    def monotonic(self) -> float:
        return self.seconds

    def extract_turn(self, agent_id: str, **_given: Any) -> TurnReceipt | None:
        return None if self.is_away else TurnReceipt(job_id=agent_id, turn_id="t")

    def end_conversation(self, agent_id: str, *, session_id: str, is_shutdown: bool = False, **_: Any) -> Any:
        self.seconds += self.takes
        if self.is_away:
            return None
        self.ends.append((session_id, is_shutdown))
        return JobReceipt(job_id=agent_id)

    def close(self) -> None:
        self.is_closed = True


def sessions(client: Client) -> OpenSessions:
    return OpenSessions(cast("MemoryClient", client), idle=IDLE, monotonic=client.monotonic)


def test_each_session_with_a_turn_is_ended_once_the_newest_first() -> None:
    client = Client()
    opened = sessions(client)
    for name in (ANN, EVE, ANN):
        opened.turned(name)
    assert opened.end() == 2
    assert opened.end() == 0
    assert client.ends == [("s-1", True), ("s-2", True)]


def test_one_that_was_ended_or_has_idled_is_left_alone() -> None:
    client = Client()
    opened = sessions(client)
    opened.turned(ANN)
    client.seconds += IDLE.total_seconds()
    opened.turned(EVE)
    opened.turned(SessionName("helpdesk", "s-3", None))
    opened.ended(EVE)
    assert opened.end() == 1
    assert client.ends == [("s-3", True)]


def test_its_time_is_bounded_and_a_broker_that_is_away_is_asked_once() -> None:
    client = Client(takes=SHUTDOWN_SECONDS / 2)
    opened = sessions(client)
    for number in range(9):
        opened.turned(SessionName("helpdesk", f"s-{number}", None))
    assert opened.end() == 2
    away = Client(is_away=True, takes=1.0)
    opened = sessions(away)
    for name in (ANN, EVE):
        opened.turned(name)
    assert opened.end() == 0
    assert away.seconds == 1.0


def test_it_remembers_no_more_than_so_many() -> None:
    opened = sessions(client := Client())
    for number in range(MOST_SESSIONS + 1):
        opened.turned(SessionName("helpdesk", f"s-{number}", None))
    assert opened.end() == MOST_SESSIONS
    assert client.ends[-1] == ("s-1", True)


def test_a_child_does_not_end_what_its_parent_goes_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = sessions(client := Client())
    opened.turned(ANN)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert opened.end() == 0
    opened.turned(EVE)
    assert opened.end() == 1
    assert client.ends == [("s-2", True)]


def talk(memory: Memory) -> None:
    memory.extract_turn("helpdesk", session_id="s-1", user_id="ann", user_text="I moved to Lyon.")
    memory.extract_turn("helpdesk", session_id="s-2", user_text="Good morning.")
    memory.end_conversation("helpdesk", session_id="s-2")


@pytest.mark.parametrize("ends", [True, False])
def test_closing_the_memory_ends_them_before_the_client_closes(ends: bool) -> None:
    client = Client()
    memory = Memory(cast("MemoryClient", client), open_backend=_no_backend, policy=Policy(), ends_conversations=ends)
    talk(memory)
    memory.close()
    assert client.ends == [("s-2", False)] + ([("s-1", True)] if ends else [])
    assert client.is_closed


def test_closing_the_memory_of_coroutines_does_so_too() -> None:
    client = Client()

    async def served() -> None:
        beneath = AsyncMemoryClient("redis://127.0.0.1:1/0")
        beneath.blocking = cast("MemoryClient", client)
        memory = AsyncMemory(beneath, open_backend=_no_backend, policy=Policy())
        await memory.extract_turn("helpdesk", session_id="s-1", user_text="I moved to Lyon.")
        await memory.close()

    asyncio.run(served())
    assert client.ends == [("s-1", True)]


def _no_backend() -> Any:
    raise AssertionError


PROGRAM = """\
import sys
from datetime import timedelta
from memcore.memory.open_sessions import OpenSessions, SessionName

class Client:
    def end_conversation(self, agent_id, **given):
        print("ended", given["session_id"], flush=True)
        return agent_id

opened = OpenSessions(Client(), idle=timedelta(minutes=20))
opened.turned(SessionName("helpdesk", "s-1", None))
if "closed" in sys.argv:
    opened.end()
"""


@pytest.mark.parametrize("words", [[], ["closed"]])
def test_a_process_that_ends_without_closing_its_memory_ends_them_once(words: list[str], tmp_path: Path) -> None:
    ended = run(
        [sys.executable, "-c", PROGRAM, *words], cwd=ROOT, capture_output=True, text=True, check=True, timeout=600
    )
    assert ended.stdout == "ended s-1\n"
    assert tmp_path.is_dir()

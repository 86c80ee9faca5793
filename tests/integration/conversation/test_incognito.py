"""Incognito: what people say is extracted and shown in this process, and no file ever holds it."""

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from support.ledger_records import COMPANY, StoppedClock
from support.repository import ROOT
from support.stub_llm_process import stub_llm
from support.table_model import TableModel

from memcore.config.policy import Policy
from memcore.errors import MemoryInputError
from memcore.memory.conversation import checked_mode
from memcore.memory.incognito import AsyncIncognitoMemory, IncognitoMemory
from memcore.models.conversation import LayerCounts, MemoryMode

#: A word that no file may have.
MARK = "quillonberry"

#: An engine that talks incognito, in a process of its own: what it leaves on the disk can be looked at.
ENGINE = f"""
import os, sys
from memcore import Memory
from memcore.config.loader import effective_policy
from memcore.config.settings import Settings

settings = Settings.load(os.environ)
with Memory.from_settings(settings, effective_policy(settings.policy_path)).in_mode("guest") as talk:
    talk.extract_turn("guide", session_id="s-1", user_id="mira", user_text="I live in {MARK} now.")
    talk.extract_turn("guide", session_id="s-1", user_id="mira", user_text="I like {MARK} soup.")
    talk.record_crisis("guide", session_id="s-1", level="concern", path="model", action="{MARK}")
    talk.record_feedback("guide", session_id="s-1", label="helpful", source="person", comment="{MARK}")
    talk.end_conversation("guide", session_id="s-1", user_id="mira")
    shown = talk.load_turn("guide", "soup of {MARK}", user_id="mira", session_id="s-2").text()
    sys.stdout.write(f"{{shown.count('{MARK}') > 0}} {{talk.conversation_status('guide', user_id='mira').semantic}}")
"""


class ClosableTable(TableModel):
    """A model that answers from a table."""

    async def close(self) -> None:
        """It has no connections."""


@pytest.fixture
def model() -> ClosableTable:
    return ClosableTable()


def test_given_an_incognito_session_when_it_is_over_then_no_file_holds_a_word_of_it(tmp_path: Path) -> None:
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    for folder in (home, temporary):
        folder.mkdir()
    policy = home / "policy.yaml"
    policy.write_text("memory:\n  llm:\n    model: stub\n")
    with stub_llm() as stub:
        environ = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "TMPDIR": str(temporary),
            "SQLITE_TMPDIR": str(temporary),
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "MEMTEND_HOME": str(home / "memtend"),
            # Nothing answers there, and nothing has to.
            "MEMTEND_BROKER_URL": "redis://127.0.0.1:1/0",
            "MEMTEND_DATABASE_URL": f"sqlite:///{home}/ledger.db",
            "MEMTEND_QDRANT_URL": "http://127.0.0.1:1",
            "MEMTEND_LLM_URL": stub.url,
            "MEMTEND_POLICY_PATH": str(policy),
        }
        done = subprocess.run(
            [sys.executable, "-P", "-c", ENGINE],
            env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True 2"
    assert MARK not in done.stderr
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if MARK.encode() in path.read_bytes()] == []


def test_what_it_holds_goes_with_it(model: ClosableTable) -> None:
    model.extract["Berlin"] = {
        "semantic": [
            {
                "category": "place", "subject": "User", "predicate": "LIVES_IN", "object": "Berlin",
                "evidence_quote": "I live in Berlin",
            }
        ]
    }  # fmt: skip
    clock = StoppedClock()
    one = IncognitoMemory(Policy(), company=COMPANY, open_model=lambda _ledger: model, clock=clock)
    one.extract_turn("guide", session_id="s-1", user_id="mira", user_text="I live in Berlin")
    assert one.conversation_status("guide", user_id="mira").semantic == 1
    clock.advance(timedelta(minutes=30))
    assert one.conversation_status("guide", user_id="mira").open_sessions == 1
    one.load_turn("guide", "hello", user_id="mira")
    assert one.conversation_status("guide", user_id="mira").open_sessions == 0, "nobody spoke for 20 minutes"
    one.close()
    with IncognitoMemory(Policy(), company=COMPANY) as other:
        assert other.conversation_status("guide", user_id="mira") == LayerCounts()


def test_without_a_model_turns_wait_and_nothing_is_guessed() -> None:
    with IncognitoMemory(Policy(), company=COMPANY) as talk:
        talk.extract_turn("guide", session_id="s-1", user_text="I live in Berlin")
        status = talk.conversation_status("guide", session_id="s-1")
        assert (status.semantic, status.waiting_turns) == (0, 1)


def test_recall_can_be_turned_off() -> None:
    with IncognitoMemory(Policy(), company=COMPANY) as talk:
        talk.set_recall("guide", False, user_id="mira")  # noqa: FBT003  # as Memory has it
        assert [str(each) for each in talk.load_turn("guide", "hello", user_id="mira").reasons] == ["recall_off"]


def test_modes_have_names_and_others_are_refused() -> None:
    assert checked_mode("guest") is checked_mode("incognito") is MemoryMode.INCOGNITO
    assert checked_mode(MemoryMode.SYNCED) is MemoryMode.SYNCED
    with pytest.raises(MemoryInputError, match="mode"):
        checked_mode("private")


async def test_an_engine_with_an_event_loop_awaits_the_same_calls(model: ClosableTable) -> None:
    blocking = IncognitoMemory(Policy(), company=COMPANY, open_model=lambda _ledger: model)
    async with AsyncIncognitoMemory(blocking) as talk:
        await talk.extract_turn("guide", session_id="s-1", user_text="I live in Berlin")
        await talk.end_conversation("guide", session_id="s-1")
        status = await talk.conversation_status("guide", session_id="s-1")
        assert (status.waiting_turns, status.open_sessions) == (0, 0)
        assert (await talk.load_turn("guide", "hello", session_id="s-1")).entries() == ()

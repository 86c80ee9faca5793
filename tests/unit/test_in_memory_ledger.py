"""The ledger in memory: the same tables and transactions, and nothing on a disk."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.conversations import ADA, fact, record_turn, session_key, write
from support.ledger_records import COMPANY

from memcore.ledger.conversation.in_memory import open_in_memory
from memcore.ledger.conversation.memory import Commit, StaleOwnerError


def test_turns_and_facts_are_kept_as_in_any_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = _open_files()
    ledger = open_in_memory()
    with ThreadPoolExecutor(8) as workers:
        new = [each.is_new for each in workers.map(lambda number: record_turn(ledger, f"t-{number % 20}"), range(80))]
    assert sum(new) == 20
    assert len(ledger.turns.of_session(COMPANY, session_key())) == 20
    assert write(ledger, Commit(facts=(fact("f-1"),))) == 1
    assert [each.fact_id for each in ledger.conversation.facts(COMPANY, ADA)] == ["f-1"]
    assert list(tmp_path.iterdir()) == []
    assert _open_files() == before
    ledger.close()


def test_a_transaction_that_fails_leaves_nothing() -> None:
    ledger = open_in_memory()
    with pytest.raises(StaleOwnerError):
        ledger.conversation.write(COMPANY, ADA, Commit(facts=(fact("f-1"),)), expected=7, max_rules=20)
    assert ledger.conversation.state(COMPANY, ADA).version == 0
    assert ledger.conversation.facts(COMPANY, ADA) == ()


def test_two_of_them_know_nothing_of_each_other() -> None:
    one, other = open_in_memory(), open_in_memory()
    write(one, Commit(facts=(fact("f-1"),)))
    assert other.conversation.facts(COMPANY, ADA) == ()


def _open_files() -> set[str]:
    """Return the files that this process has open, but for pipes and sockets."""
    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("this system does not tell which files are open")
    names = set[str]()
    for each in folder.iterdir():
        try:
            names.add(os.readlink(each))  # noqa: PTH115  # a path that is gone has no Path
        except OSError:
            continue
    return {name for name in names if name.startswith("/") and not name.startswith(("/dev", "/proc"))}

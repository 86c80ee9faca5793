"""What an operator can mend is one sentence, whatever the command: situation by command."""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.command_line import CommandLine
from support.ledger_records import copied_urls

from memcore.config.settings import Settings
from memcore.config.urls import sqlite_url
from memcore.ledger.ledger import Ledger
from memcore.ledger.migrate import migrate_history
from memcore.models.memory import ConsolidationInterval
from memcore.operational import sentence_of
from ops.cli import main as entry
from workers.stack.home import create_folders

Arrange = Callable[[Settings], Settings]


def pipe_as_policy(settings: Settings) -> Settings:
    os.mkfifo(settings.home / "policy.yaml")
    return settings


def folder_as_policy(settings: Settings) -> Settings:
    (settings.home / "policy.yaml").mkdir()
    return settings


def damaged_ledger(settings: Settings) -> Settings:
    (settings.home / "data" / "ledger.db").write_bytes(b"rubbish " * 1_000)
    return settings


def folder_as_ledger(settings: Settings) -> Settings:
    (settings.home / "data" / "ledger.db").unlink()
    (settings.home / "data" / "ledger.db").mkdir()
    return settings


def no_folder(settings: Settings) -> Settings:
    # Nobody can make a folder there, root neither.
    missing = sqlite_url(Path("/proc/memtend/ledger.db"))
    return settings.model_copy(update={"database_url": missing, "journal_url": missing, "history_url": missing})


def no_driver(settings: Settings) -> Settings:
    there = "postgresql://memtend@127.0.0.1:1/memtend"
    return settings.model_copy(update={"database_url": there, "journal_url": there, "history_url": there})


def everything_down(settings: Settings) -> Settings:
    return settings


#: What is wrong, and the words of the sentence.
SITUATIONS: dict[str, tuple[Arrange, str]] = {
    "a pipe as policy": (pipe_as_policy, "policy.yaml: is not a regular file"),
    "a folder as policy": (folder_as_policy, "policy.yaml: is not a regular file"),
    "a damaged ledger": (damaged_ledger, "damaged, restore it from a backup"),
    "a folder as ledger": (folder_as_ledger, "unable to open database file"),
    "a folder that cannot be made": (no_folder, "/proc/memtend|unable to open database file"),
    "everything is down": (everything_down, "does not answer"),
    "no driver for PostgreSQL": (no_driver, "psycopg is not installed: pip install 'memtend[postgres]'"),
}

OF_POLICY = ("worker --group store", "search reader word", "maintain reader --dry-run", "config show")
OF_SERVERS = ("search reader word", "export -")
OF_LEDGER = ("migrate", "worker --group store", "status", "runs list", "maintain reader --dry-run")


@pytest.fixture
def settings(ledger_template: Path, tmp_path: Path) -> Settings:
    """An installation with its databases, of which nothing runs."""
    home = tmp_path / "home"
    create_folders(home)
    (home / "policy.yaml").unlink()
    urls = copied_urls(ledger_template, home / "data")
    with closing(Ledger.open(urls)) as ledger:
        ledger.agents.register("default", ["reader"], interval=ConsolidationInterval.NEVER)
    history = sqlite_url(home / "data" / "history.db")
    migrate_history(history)
    return Settings(
        broker_url="redis://127.0.0.1:1/0", database_url=urls.ledger, journal_url=urls.journal, history_url=history,
        qdrant_url="http://127.0.0.1:1", policy_path=home / "policy.yaml", home=home,
    )  # fmt: skip


@pytest.fixture
def quiet_logs() -> Iterator[None]:
    """A worker sets up the logs of its process, which here is that of all tests."""
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    yield
    root.handlers[:], root.level = before[0], before[1]


def cases() -> Iterator[tuple[str, str]]:
    for name in SITUATIONS:
        commands = OF_POLICY if "policy" in name else OF_SERVERS if "down" in name else OF_LEDGER
        yield from ((name, command) for command in commands)


@pytest.mark.usefixtures("quiet_logs")
@pytest.mark.parametrize(("situation", "command"), list(cases()))
def test_each_command_says_it_in_one_sentence(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, situation: str, command: str
) -> None:
    arrange, said = SITUATIONS[situation]
    if arrange is no_driver:
        monkeypatch.setitem(sys.modules, "psycopg", None)
    settings = arrange(settings)
    if "policy" not in situation:
        settings = settings.model_copy(update={"policy_path": None})
    settings.save_stack()
    answer = CommandLine(home=settings.home)(*command.split())
    assert answer.code in {1, 2}, answer
    assert answer.out == ""
    assert any(words in answer.err for words in said.split("|")), answer.err
    assert answer.err.count("\n") == 1, answer.err


@pytest.mark.usefixtures("quiet_logs")
@pytest.mark.parametrize("situation", [name for name in SITUATIONS if "down" not in name])
def test_the_doctor_names_it_among_its_findings(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, situation: str
) -> None:
    arrange, said = SITUATIONS[situation]
    if arrange is no_driver:
        monkeypatch.setitem(sys.modules, "psycopg", None)
    settings = arrange(settings)
    if "policy" not in situation:
        settings = settings.model_copy(update={"policy_path": None})
    settings.save_stack()
    answer = CommandLine(home=settings.home)("doctor", "--json")
    assert (answer.code, answer.err) == (1, "")
    check = "policy" if "policy" in situation else "ledger"
    (found,) = [each for each in answer.value if each["check"] == check]
    words = (*said.split("|"), "is not there", "is not a regular file", "does not answer")
    assert found["ok"] is False
    assert any(each in found["seen"] for each in words), found
    assert "\n" not in found["seen"]


@pytest.mark.parametrize("situation", [name for name in SITUATIONS if "down" not in name and "driver" not in name])
def test_up_says_it_in_one_sentence_and_starts_nothing(settings: Settings, tmp_path: Path, situation: str) -> None:
    arrange, said = SITUATIONS[situation]
    home = settings.home
    if arrange is no_folder:
        home = Path("/proc/memtend")
        said = "/proc/memtend"
    else:
        arrange(settings)
    answer = CommandLine(home=home)("up", "--home", str(home))
    assert answer.code in {1, 2}, answer
    # Migrations that went well before are told in the log.
    last = answer.err.splitlines()[-1]
    assert last.startswith("memtend: ")
    assert said in last
    assert "Traceback" not in answer.err
    assert not (tmp_path / "home" / "run" / "stack.json").exists()


def test_a_data_folder_that_is_a_file_is_told_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    answer = CommandLine(home=file)("up", "--home", str(file))
    assert (answer.code, answer.out, answer.err.count("\n")) == (1, "", 1)
    assert str(file) in answer.err


def test_a_defect_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(_: str | None) -> None:
        raise KeyError("ours")

    monkeypatch.setattr(entry, "build", broken)
    with pytest.raises(KeyError, match="ours"):
        CommandLine(home=tmp_path)("status")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModuleNotFoundError("no", name="alembic.config"), "alembic is not installed: pip install 'memtend[worker]'"),
        (
            ModuleNotFoundError("no", name="docker"),
            "docker is not installed: pip install 'memtend[docker]'",
        ),
        (ModuleNotFoundError("no", name="workers.nowhere"), None),
        (PermissionError(13, "Permission denied", "/data/x"), "/data/x: Permission denied"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (ValueError("a defect"), None),
    ],
)
def test_what_an_operator_can_mend_has_a_sentence_and_a_defect_has_none(error: Exception, said: str | None) -> None:
    found = sentence_of(error)
    assert found is None if said is None else found is not None and found.startswith(said)

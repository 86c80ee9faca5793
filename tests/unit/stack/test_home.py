import json
import os
import socket
import stat
import sys
from pathlib import Path

import pytest
from support.running_stack import wait_until

from memcore.config import home_folder
from memcore.config.settings import Settings
from memcore.errors import MemoryConfigError
from memcore.ledger.ledger import Ledger
from memcore.ledger.migrate import migrate, migrate_history
from workers.stack.home import STARTER_POLICY, ListenAddresses, create_folders, reserve_addresses
from workers.stack.service_process import ServiceProcess
from workers.stack.services import ServiceSpec, broker_binary, flower, infrastructure, worker_parts, write_broker_config


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    create_folders(home)
    return home


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_may_look_into_a_new_folder(home: Path) -> None:
    for name in ("", "data", "logs", "run", "data/broker", "data/vectors"):
        assert mode(home / name) == 0o700


def test_a_policy_that_a_person_wrote_is_kept(home: Path) -> None:
    assert (home / "policy.yaml").read_text() == STARTER_POLICY
    (home / "policy.yaml").write_text("memory: {}\n")
    create_folders(home)
    assert (home / "policy.yaml").read_text() == "memory: {}\n"


def test_doors_are_kept_while_their_ports_are_free(home: Path) -> None:
    first = reserve_addresses(home)
    assert len({first.broker_port, first.store_port, first.flower_port, first.serve_port, first.llm_port}) == 5
    assert len({first.broker_password, first.store_key, first.flower_password, first.llm_key}) == 4
    assert reserve_addresses(home) == first
    assert mode(home / "run" / "doors.json") == 0o600


def test_a_taken_port_means_new_doors(home: Path) -> None:
    first = reserve_addresses(home)
    with socket.create_server(("127.0.0.1", first.store_port)):
        second = reserve_addresses(home)
    assert second.store_port != first.store_port
    assert reserve_addresses(home) == second


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"broker_port": "x"}'])
def test_doors_that_cannot_be_read_are_made_anew(home: Path, content: str) -> None:
    (home / "run" / "doors.json").write_text(content)
    assert reserve_addresses(home).broker_port > 0


def test_no_password_shows_in_the_repr(home: Path) -> None:
    addresses = reserve_addresses(home)
    for secret in (addresses.broker_password, addresses.store_key, addresses.flower_password, addresses.llm_key):
        assert len(secret) >= 32
        assert secret not in repr(addresses)
        assert secret not in repr(addresses.settings(home, tick_seconds=1, sweep_seconds=1))


def test_the_broker_keeps_every_message_and_listens_on_loopback_alone(home: Path) -> None:
    addresses = reserve_addresses(home)
    path = write_broker_config(home, addresses)
    lines = path.read_text().splitlines()
    assert mode(path) == 0o600
    for line in ("bind 127.0.0.1", "appendonly yes", "appendfsync always", "maxmemory-policy noeviction"):
        assert line in lines
    assert f"requirepass {addresses.broker_password}" in lines


def test_this_machine_has_a_broker() -> None:
    assert os.access(broker_binary(), os.X_OK)


def test_no_command_line_of_a_part_shows_a_password(home: Path) -> None:
    addresses = reserve_addresses(home)
    workers = worker_parts(home, addresses, has_model=False, also=["finetune"])
    assert workers[-2].name == "worker-finetune"
    parts = (*infrastructure(home, addresses), *workers, flower(addresses))
    assert [part.name for part in parts][:3] == ["broker", "store-server", "worker-store"]
    visible = json.dumps([[*part.argv, *part.env.values()] for part in parts])
    for secret in (addresses.broker_password, addresses.store_key, addresses.flower_password, addresses.llm_key):
        assert secret not in visible
    assert mode(home / "run" / "store.key") == 0o600


@pytest.mark.parametrize(("has_model", "sleepers"), [(False, {"worker-llm"}), (True, set())])
def test_only_the_models_worker_sleeps_and_only_without_a_model(
    home: Path, has_model: bool, sleepers: set[str]
) -> None:
    workers = worker_parts(home, reserve_addresses(home), has_model=has_model)
    assert {part.name for part in workers if part.is_needed is not None} == sleepers


def test_doors_are_closed_to_unknown_fields() -> None:
    with pytest.raises(ValueError, match="mood"):
        ListenAddresses.model_validate({"mood": 1})


#: A URL, a quoted string, a format, a pattern or a shell would read each part of the first as something else.
ODD_NAMES = ["""a b 50% %41x what?x=1 #1 it's quo"te ünï back\\slash a@b:c;d [1]*""", "back\\slash"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_whatever_the_folder_is_called_its_databases_and_its_broker_lie_inside(tmp_path: Path, name: str) -> None:
    home = tmp_path / name
    create_folders(home)
    addresses = reserve_addresses(home)
    addresses.settings(home, tick_seconds=1, sweep_seconds=1).save_stack()
    settings = Settings.load({}, home)
    migrate(settings.ledger_urls)
    migrate_history(settings.history_url)
    ledger = Ledger.open(settings.ledger_urls)
    ledger.companies.pause(settings.company)
    ledger.close()
    broker, _ = infrastructure(home, addresses)
    process = ServiceProcess(broker, home / "logs" / "broker.log")
    process.start({})
    try:
        wait_until(lambda: process.check_now() or process.died() is not None, what="the broker")
        assert process.is_well, process.log.read_text()
    finally:
        process.clear_away()
    assert {path.name for path in tmp_path.iterdir()} == {name}
    inside = {str(path.relative_to(home / "data")) for path in (home / "data").rglob("*")}
    assert {"ledger.db", "journal.db", "history.db", "broker/appendonlydir"} <= inside
    assert not list((home / "run").glob("*.aof"))


@pytest.mark.parametrize("name", ["two\nlines", "n\0l", "bell\a", "esc\x1b[31m", "\udcff", "c1\x9b"])
def test_a_folder_whose_name_cannot_be_quoted_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(MemoryConfigError, match=r"^--home: .*(control characters|UTF-8)") as caught:
        home_folder({}, tmp_path / name)
    assert str(caught.value).isprintable()
    with pytest.raises(MemoryConfigError, match=r"^--home: "):
        home_folder({"MEMTEND_HOME": str(tmp_path / name)})
    assert list(tmp_path.iterdir()) == []


def test_a_home_of_an_unknown_user_is_refused_in_one_sentence() -> None:
    with pytest.raises(MemoryConfigError, match=r"^--home: "):
        home_folder({}, Path("~nobody-has-this-name/memtend"))


def test_an_existing_folder_is_closed_to_others_with_all_that_memtend_keeps_in_it(home: Path, tmp_path: Path) -> None:
    (home / "data" / "vectors" / "shard").mkdir()
    (tmp_path / "elsewhere").write_text("of somebody else")
    (home / "data" / "link").symlink_to(tmp_path / "elsewhere")
    files = [
        *(home / "data" / name for name in ("ledger.db", "ledger.db-wal", "history.db-shm", "vectors/shard/segment")),
        *(home / "run" / name for name in ("stack.json", "store.key")),
        home / "logs" / "broker.log",
    ]
    for file in files:
        file.write_text("kept")
    for path in (*home.rglob("*"), home, tmp_path / "elsewhere"):
        path.chmod(0o755 if path.is_dir() else 0o644)

    create_folders(home)

    for name in ("", "data", "logs", "run", "data/broker", "data/vectors/shard"):
        assert mode(home / name) == 0o700, name
    for file in files:
        assert (mode(file), file.read_text()) == (0o600, "kept"), file
    assert mode(tmp_path / "elsewhere") == 0o644


def test_a_folder_that_holds_other_things_too_keeps_its_own_mode(home: Path) -> None:
    (home / "of-a-person").mkdir(mode=0o755)
    home.chmod(0o755)
    (home / "data").chmod(0o755)
    create_folders(home)
    assert (mode(home), mode(home / "of-a-person"), mode(home / "data")) == (0o755, 0o755, 0o700)


def test_a_folder_of_another_user_is_refused_in_one_sentence(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: home.stat().st_uid + 1)
    with pytest.raises(MemoryConfigError, match="belongs to another user"):
        create_folders(home)


def test_what_a_part_creates_is_for_the_owner_alone(home: Path) -> None:
    made = home / "data" / "made"
    part = ServiceSpec(name="part", argv=(sys.executable, "-c", f"open({str(made)!r}, 'w')"), is_ready=made.exists)
    before = os.umask(0o022)
    try:
        process = ServiceProcess(part, home / "logs" / "part.log")
        process.start({})
        wait_until(lambda: process.died() is not None, what="the part")
    finally:
        os.umask(before)
    assert (mode(made), mode(home / "logs" / "part.log")) == (0o600, 0o600)

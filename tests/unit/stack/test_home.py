import json
import os
import socket
import stat
from pathlib import Path

import pytest

from workers.stack.broker import broker_binary, write_broker_config
from workers.stack.home import STARTER_POLICY, Doors, Home, open_doors
from workers.stack.parts import crews, flower, infrastructure


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.furnish()
    return home


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_may_look_into_a_new_folder(home: Home) -> None:
    for folder in (home.path, home.data, home.logs, home.run, home.data / "broker", home.data / "vectors"):
        assert mode(folder) == 0o700


def test_a_policy_that_a_person_wrote_is_kept(home: Home) -> None:
    assert home.policy.read_text() == STARTER_POLICY
    home.policy.write_text("memory: {}\n")
    home.furnish()
    assert home.policy.read_text() == "memory: {}\n"


def test_doors_are_kept_while_their_ports_are_free(home: Home) -> None:
    first = open_doors(home)
    assert len({first.broker_port, first.store_port, first.flower_port}) == 3
    assert len({first.broker_password, first.store_key, first.flower_password}) == 3
    assert open_doors(home) == first
    assert mode(home.run / "doors.json") == 0o600


def test_a_taken_port_means_new_doors(home: Home) -> None:
    first = open_doors(home)
    with socket.create_server(("127.0.0.1", first.store_port)):
        second = open_doors(home)
    assert second.store_port != first.store_port
    assert open_doors(home) == second


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"broker_port": "x"}'])
def test_doors_that_cannot_be_read_are_made_anew(home: Home, content: str) -> None:
    (home.run / "doors.json").write_text(content)
    assert open_doors(home).broker_port > 0


def test_no_password_shows_in_the_repr(home: Home) -> None:
    doors = open_doors(home)
    for secret in (doors.broker_password, doors.store_key, doors.flower_password):
        assert len(secret) >= 32
        assert secret not in repr(doors)
        assert secret not in repr(doors.settings(home, tick_seconds=1, sweep_seconds=1))


def test_the_broker_keeps_every_message_and_listens_on_loopback_alone(home: Home) -> None:
    doors = open_doors(home)
    path = write_broker_config(home, doors)
    lines = path.read_text().splitlines()
    assert mode(path) == 0o600
    for line in ("bind 127.0.0.1", "appendonly yes", "appendfsync always", "maxmemory-policy noeviction"):
        assert line in lines
    assert f"requirepass {doors.broker_password}" in lines


def test_this_machine_has_a_broker() -> None:
    assert os.access(broker_binary(), os.X_OK)


def test_no_command_line_of_a_part_shows_a_password(home: Home) -> None:
    doors = open_doors(home)
    assert [part.name for part in crews(home, also=["finetune"])][-2] == "worker-finetune"
    parts = (*infrastructure(home, doors), *crews(home), flower(doors))
    assert [part.name for part in parts][:3] == ["broker", "store-server", "worker-store"]
    told = json.dumps([[*part.argv, *part.env.values()] for part in parts])
    for secret in (doors.broker_password, doors.store_key, doors.flower_password):
        assert secret not in told
    assert mode(home.run / "store.key") == 0o600


def test_doors_are_closed_to_unknown_fields() -> None:
    with pytest.raises(ValueError, match="mood"):
        Doors.model_validate({"mood": 1})

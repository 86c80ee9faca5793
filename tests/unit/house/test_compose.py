import json
import re
import shlex
from collections.abc import Mapping
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from support.repository import ROOT
from typer.testing import CliRunner

from memcore.config.settings import Settings
from memcore.finetune.execution.docker import CHECKPOINTS, DATA
from memcore.finetune.runner import DEFAULT_HOST, DEFAULT_PORT
from memcore.finetune.runner_config import DEFAULT_CONFIG
from memcore.jobs import Queue
from memcore.programs import program_argv
from ops.cli.main import build
from workers.broker import SOFT_SHUTDOWN_SECONDS
from workers.groups import GROUPS, STOP_SECONDS
from workers.health import LAST_LOOK_SECONDS, STALE_SECONDS, Heartbeat

COMPOSE: Mapping[str, Any] = yaml.safe_load((ROOT / "compose.yml").read_text(encoding="utf-8"))
SERVICES: Mapping[str, Any] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("memtend:")}
EXAMPLE = (ROOT / "docker" / "example.env").read_text(encoding="utf-8")

#: Password as a test gives it, where compose.yml asks for one.
GIVEN = "0123456789abcdef"


def seconds(text: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(s|m)", text).groups()  # type: ignore[union-attr]  # fails the test, as it should
    return timedelta(**{"s": {"seconds": int(number)}, "m": {"minutes": int(number)}}[unit]).total_seconds()


def filled(value: str) -> str:
    """Put values where Compose would: the default, or the test's password."""
    return re.sub(r"\$\{(\w+)(?::-([^}]*)|:\?[^}]*)\}", lambda found: GIVEN if found[2] is None else found[2], value)


def test_the_file_keeps_the_compose_specification() -> None:
    # The schema as check-jsonschema carries it, so that nothing is downloaded.
    schema = files("check_jsonschema").joinpath("builtin_schemas", "vendor", "compose-spec.json")
    validator = Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(COMPOSE)] == []
    broken = {**COMPOSE, "services": {"valkey": {**SERVICES["valkey"], "restarts": "no"}}}
    assert not validator.is_valid(broken)


@pytest.mark.parametrize("name", ["worker-store", "worker-night", "worker-llm", "beat"])
def test_the_check_of_each_part_looks_at_the_heartbeat_that_the_part_keeps(name: str) -> None:
    service = SERVICES[name]
    check = ["CMD", *program_argv("workers.health", python="python"), "--end-frozen", name]
    assert service["healthcheck"]["test"] == check
    group = service["command"][-1]
    assert name == ("beat" if group == "beat" else f"worker-{group}")
    # The heartbeats are in memory, in a folder that the user of the image may write.
    folder = str(Heartbeat.of(Path("/var/lib/memtend"), name).path.parent)
    assert any(mount.startswith(f"{folder}:uid=10001,gid=10001") for mount in service["tmpfs"])
    interval, timeout = seconds(service["healthcheck"]["interval"]), seconds(service["healthcheck"]["timeout"])
    assert STALE_SECONDS + service["healthcheck"]["retries"] * (interval + timeout) < 90
    # Compose starts again what exits, and nothing else: the check ends a frozen part, and has the time to.
    assert service["restart"] == "unless-stopped"
    assert timeout >= LAST_LOOK_SECONDS + 5


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_health_check_or_runs_once(name: str) -> None:
    service = SERVICES[name]
    assert ("healthcheck" in service) != (service["restart"] == "no")


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_runs_without_privileges_on_a_read_only_system(name: str) -> None:
    service = SERVICES[name]
    user, _, group = service["user"].partition(":")
    assert int(user) > 0
    assert int(group) > 0
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["init"] is True
    assert not {"privileged", "network_mode", "pid", "devices"} & service.keys()


@pytest.mark.parametrize("name", SERVICES)
def test_nothing_is_published_beyond_loopback(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


@pytest.mark.parametrize("name", SERVICES)
def test_every_image_is_pinned_to_a_version(name: str) -> None:
    tag = SERVICES[name]["image"].partition(":")[2]
    assert re.match(r"v?\d+\.\d+", tag)


def test_no_secret_stands_in_the_files() -> None:
    text = (ROOT / "compose.yml").read_text(encoding="utf-8")
    for variable in re.findall(r"\$\{(\w*(?:PASSWORD|KEY))([^}]*)\}", text):
        # A secret is asked for, or empty where nobody needs one.
        assert variable[1].startswith(":?") or variable == ("MEMTEND_LLM_API_KEY", ":-"), variable
    assert re.findall(r"^\w*(?:PASSWORD|KEY)=(.*)$", EXAMPLE, re.MULTILINE) == [""] * 5


def test_the_example_names_every_variable_that_compose_reads() -> None:
    read = set(re.findall(r"\$\{(\w+)", (ROOT / "compose.yml").read_text(encoding="utf-8")))
    assert read == set(re.findall(r"^(\w+)=", EXAMPLE, re.MULTILINE))


def test_every_group_of_workers_runs_and_takes_every_queue() -> None:
    run = {service["command"][-1] for service in OURS.values() if service.get("command", [""])[0] == "worker"}
    on_demand = {name for name, group in GROUPS.items() if group.on_demand}
    assert run == GROUPS.keys() - on_demand
    assert {queue for name in run | on_demand for queue in GROUPS[name].queues} == set(Queue)


@pytest.mark.parametrize("name", [name for name, service in OURS.items() if "command" in service])
def test_every_command_is_one_that_memtend_has(name: str) -> None:
    command = OURS[name]["command"]
    done = CliRunner().invoke(build(), [command[0], "--help"])
    assert done.exit_code == 0
    assert all(option in done.output for option in command[1:] if option.startswith("--"))


@pytest.mark.parametrize("name", OURS)
def test_the_environment_makes_valid_settings(name: str) -> None:
    environ = {key: filled(value) for key, value in OURS[name]["environment"].items()}
    settings = Settings.load({**environ, "MEMTEND_HOME": "/var/lib/memtend"})
    assert settings.database_url.startswith("postgresql+psycopg://")
    assert settings.send_events


def test_a_worker_may_finish_before_it_ends_itself_and_does_so_before_it_is_killed() -> None:
    for name in ("worker-store", "worker-night", "worker-llm"):
        assert seconds(SERVICES[name]["stop_grace_period"]) > STOP_SECONDS > SOFT_SHUTDOWN_SECONDS


def test_everything_waits_for_the_migration() -> None:
    for name in OURS.keys() - {"migrate"}:
        assert SERVICES[name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
    assert SERVICES["migrate"]["depends_on"]["postgres"] == {"condition": "service_healthy"}


def test_the_broker_keeps_what_it_accepts() -> None:
    script = SERVICES["valkey"]["command"][-1]
    for line in ("appendonly yes", "appendfsync always", "maxmemory-policy noeviction", "requirepass %s"):
        assert line in script
    assert shlex.split(script)[0] == "printf"


def dockerfile_of(service: str) -> str:
    return (ROOT / str(SERVICES[service]["build"]["dockerfile"])).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["worker-store", "fine-tune", "fine-tune-gpu"])
def test_the_image_runs_as_the_user_that_compose_names(name: str) -> None:
    dockerfile = dockerfile_of(name)
    users = re.findall(r"^USER (.+)$", dockerfile, re.MULTILINE)
    assert users == [SERVICES[name]["user"]]
    own = {stage.replace("cpu", "${VARIANT}") for stage in re.findall(r" AS (\S+)$", dockerfile, re.MULTILINE)}
    bases = [base for base in re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE) if base not in own]
    assert all(re.search(r":\d+\.\d+\.\d+", base) for base in bases)
    # What the workers' image installs has hashes; torch for CPUs is in no list that we could take them from.
    assert ("--require-hashes" if name == "worker-store" else "-c constraints.txt") in dockerfile


@pytest.mark.parametrize("variant", ["cpu", "gpu"])
def test_the_fine_tune_image_is_the_runner_with_its_health_check(variant: str) -> None:
    name = "fine-tune" if variant == "cpu" else "fine-tune-gpu"
    dockerfile, service = dockerfile_of(name), SERVICES[name]
    entrypoint = json.dumps(program_argv("memcore.finetune.runner", python="python"))
    assert f"ENTRYPOINT {entrypoint}" in dockerfile
    assert f"http://{DEFAULT_HOST}:{DEFAULT_PORT}/healthz" in dockerfile
    assert f"FROM wanted AS torch-{variant}" in dockerfile
    assert service["build"]["args"] == {"VARIANT": variant}
    assert service["image"].endswith(f"-{variant}")
    assert {filled(volume).split(":")[1] for volume in service["volumes"]} == {str(DEFAULT_CONFIG), DATA, CHECKPOINTS}
    assert all(volume.endswith(":ro") for volume in service["volumes"] if not volume.endswith(CHECKPOINTS))
    assert COMPOSE["networks"][service["networks"][0]] == {"internal": True}


@pytest.mark.parametrize("name", ["worker-store", "fine-tune"])
def test_the_image_copies_every_package(name: str) -> None:
    dockerfile = dockerfile_of(name)
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8")
    for package in ("memcore", "ops", "scheduler", "tasks", "workers"):
        assert f"COPY {package} {package}" in dockerfile
        assert f"!{package}\n" in ignored

"""Stages in containers only: their permissions, and errors of the engine."""

import gc
import os
import sys
from pathlib import Path

import pytest
from support.docker_engine_stub import StubContainer
from support.stage_executors import InStubEngine, Stage, in_containers

from memcore.config.finetune import FineTuneExecutionConfig
from memcore.config.loader import load_policy
from memcore.config.settings import Settings
from memcore.errors import FineTuneStageError, MemoryConfigError
from memcore.finetune.execution.docker import DockerExecutor, end_container
from memcore.finetune.execution.docker_engine import docker_engine
from memcore.finetune.execution.factory import create_executor, execution_of
from memcore.finetune.execution.process import ProcessExecutor
from memcore.finetune.execution.protocol import StageEnd, StageOutcome
from memcore.telemetry.events import Event
from workers.app import create_app
from workers.groups import FINETUNE, STORE


def ran(containers: InStubEngine, folder: Path, image: str = "complete", **more: object) -> StageOutcome:
    executor = DockerExecutor(folder / "scratch", in_containers(image, **more))
    return executor.run(Stage(containers, folder, image).job())


def test_a_container_may_do_nothing_but_compute(containers: InStubEngine, tmp_path: Path) -> None:
    assert ran(containers, tmp_path).end is StageEnd.COMPLETE
    (asked,) = containers.engine.asked
    host = asked["HostConfig"]
    assert asked["Image"] == "complete"
    assert asked["User"] == f"{os.getuid()}:{os.getgid()}"
    assert (host["CapDrop"], host["SecurityOpt"]) == (["ALL"], ["no-new-privileges:true"])
    assert (host["ReadonlyRootfs"], host["NetworkMode"], host["Init"]) == (True, "none", True)
    assert host["Tmpfs"] == {"/tmp": "rw,nosuid,nodev,size=1g,mode=1777"}  # noqa: S108  # the container's own
    assert (host["PidsLimit"], host["Memory"], host["MemorySwap"]) == (256, 8 << 30, 8 << 30)
    assert not {"Binds", "Devices", "Privileged", "CapAdd", "PortBindings"} & {key for key, on in host.items() if on}
    assert not host.get("DeviceRequests")
    assert asked["Env"] == ["HOME=/tmp"]
    assert not asked.get("Cmd")
    assert asked["Labels"] == {
        "memtend.managed": "true",
        "memtend.component": "fine-tune",
        "memtend.run_id": "run-1",
        "memtend.stage": "training",
    }


def test_a_container_sees_its_own_files_alone(containers: InStubEngine, tmp_path: Path) -> None:
    ran(containers, tmp_path)
    mounts = containers.engine.asked[0]["HostConfig"]["Mounts"]
    assert {(each["Target"], each["Source"], each["ReadOnly"]) for each in mounts} == {
        ("/checkpoints/run-1", str(tmp_path / "out"), False),
        ("/inputs/training_data_path/triples.jsonl", str(tmp_path / "triples.jsonl"), True),
        ("/etc/fine-tune/config.json", str(tmp_path / "scratch" / "training.container.json"), True),
    }
    assert {each["Type"] for each in mounts} == {"bind"}


def test_a_gpu_and_memory_are_given_when_they_are_asked_for(containers: InStubEngine, tmp_path: Path) -> None:
    ran(containers, tmp_path, gpu_enabled=True, memory_limit="512m")
    host = containers.engine.asked[0]["HostConfig"]
    (request,) = host["DeviceRequests"]
    assert (request["Count"], request["Capabilities"]) == (-1, [["gpu"]])
    assert host["Memory"] == 512 << 20


def test_a_container_that_takes_too_much_memory_is_told_so(containers: InStubEngine, tmp_path: Path) -> None:
    containers.engine.is_out_of_memory = True
    outcome = ran(containers, tmp_path, "killed")
    assert outcome.reason == "training took more memory than memory_limit allows, 8g"


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("POST /containers/create", "training: the Docker engine refused: no space"),
        ("POST /containers/[0-9a-f]+/start", "training: the Docker engine refused: no space"),
        ("POST /containers/[0-9a-f]+/attach", "training: the Docker engine refused: no space"),
        ("POST /containers/[0-9a-f]+/wait", "training: the Docker engine refused: no space"),
    ],
)
def test_what_an_engine_refuses_is_told_in_its_words_and_nothing_is_left(
    containers: InStubEngine, tmp_path: Path, call: str, reason: str
) -> None:
    containers.engine.refusals[call] = (500, "no\nspace")
    outcome = ran(containers, tmp_path)
    assert (outcome.end, outcome.reason) == (StageEnd.FAILED, reason)
    assert not containers.engine.containers


def test_an_image_that_is_not_there_is_named(containers: InStubEngine, tmp_path: Path) -> None:
    outcome = ran(containers, tmp_path, "registry.example/tuner@sha256:0")
    assert outcome.reason == (
        "training: the engine has no image registry.example/tuner@sha256:0: docker pull it, or build it"
    )


def test_a_limit_that_no_engine_understands_is_told(containers: InStubEngine, tmp_path: Path) -> None:
    outcome = ran(containers, tmp_path, memory_limit="much")
    assert outcome.reason is not None
    assert outcome.reason.startswith("training: the Docker engine refused: ")
    assert "much" in outcome.reason


def test_what_an_executor_left_that_died_is_removed_and_what_is_anothers_is_not(
    containers: InStubEngine, tmp_path: Path
) -> None:
    ours = {"memtend.managed": "true", "memtend.component": "fine-tune", "memtend.stage": "training"}
    left = StubContainer({"Labels": {**ours, "memtend.run_id": "run-1"}}, [])
    other = StubContainer({"Labels": {**ours, "memtend.run_id": "run-2"}}, [])
    containers.engine.containers.update({left.id: left, other.id: other})
    assert ran(containers, tmp_path).end is StageEnd.COMPLETE
    assert list(containers.engine.containers) == [other.id]


def test_a_container_that_cannot_be_removed_changes_nothing_of_what_its_stage_came_to(
    containers: InStubEngine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    containers.engine.refusals["DELETE /containers/[0-9a-f]+"] = (500, "busy")
    assert ran(containers, tmp_path).end is StageEnd.COMPLETE
    assert [record.msg for record in caplog.records] == [Event.FINE_TUNE_CONTAINER_LEFT]
    containers.engine.refusals.clear()
    assert ran(containers, tmp_path).end is StageEnd.COMPLETE
    assert not containers.engine.containers


def test_what_cannot_even_begin_is_a_failed_stage(
    containers: InStubEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").write_text("in the way", "utf-8")
    assert ran(containers, tmp_path).reason == "training: File exists"
    (tmp_path / "out").unlink()
    monkeypatch.setitem(sys.modules, "docker", None)
    assert ran(containers, tmp_path).reason == (
        "training: the Docker library is missing: pip install 'memtend[docker]'"
    )


def test_a_container_that_is_not_ours_is_not_ended(containers: InStubEngine) -> None:
    other = StubContainer({"Labels": {"memtend.managed": "true"}}, [])
    containers.engine.containers[other.id] = other
    assert not end_container(f"container:{other.id}")
    assert list(containers.engine.containers) == [other.id]


# The library leaves its socket to the collector where nobody answers.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_an_engine_that_is_not_there_is_asked_three_times(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'nobody.sock'}")
    with (
        pytest.raises(FineTuneStageError, match="no Docker engine answers, asked 3 times"),
        docker_engine(pause=pauses.append),
    ):
        raise AssertionError
    gc.collect()
    assert pauses == [0.5, 1.0]
    assert [record.msg for record in caplog.records] == [Event.FINE_TUNE_DOCKER_CONNECT_RETRIED] * 2


def test_the_environments_image_wins_over_the_policy(tmp_path: Path) -> None:
    settings = Settings(
        broker_url="redis://127.0.0.1:1/0", database_url="sqlite://", qdrant_url="http://127.0.0.1:2", home=tmp_path
    )
    policy = load_policy("memory: {fine_tune: {memory_limit: 1g, timeout_seconds: 60}}")
    assert execution_of(settings, policy) == policy.memory.fine_tune
    found = execution_of(settings.model_copy(update={"fine_tune_image": "tuner:1"}), policy)
    assert (found.backend, found.image, found.memory_limit, found.timeout_seconds) == ("docker", "tuner:1", "1g", 60.0)


def test_a_worker_that_cannot_speak_to_an_engine_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    settings = Settings(
        broker_url="redis://127.0.0.1:1/0", database_url="sqlite://", qdrant_url="http://127.0.0.1:2", home=tmp_path,
        fine_tune_image="tuner:1",
    )  # fmt: skip
    with pytest.raises(MemoryConfigError, match=r"^memory\.fine_tune\.backend: is docker, and the Docker library is"):
        create_app(settings, group=FINETUNE)
    create_app(settings, group=STORE).close()


def test_what_is_configured_says_where_stages_run(containers: InStubEngine, tmp_path: Path) -> None:
    assert isinstance(create_executor(FineTuneExecutionConfig(), tmp_path), ProcessExecutor)
    config = FineTuneExecutionConfig(backend="docker", image="complete", gpu_enabled=True, memory_limit="1g")
    executor = create_executor(config, tmp_path / "scratch")
    executor.run(Stage(containers, tmp_path, "complete").job())
    host = containers.engine.asked[0]["HostConfig"]
    assert (host["Memory"], len(host["DeviceRequests"])) == (1 << 30, 1)

"""The checks before a run, and their messages."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest

from memcore.config.finetune import FineTuneExecutionConfig
from memcore.errors import FineTuneStageError
from memcore.finetune.preflight import PreflightCheck, PreflightResult, PreflightStatus, preflight
from memcore.finetune.sizing import Sizes
from memcore.models.finetune import FineTunePlan

PASSED = PreflightCheck(name="dependencies", status=PreflightStatus.PASS, message="all is there")


def looked(requested: object, tmp_path: Path, *, memories: int = 0, gib: float | None = 24.0) -> PreflightResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memcore.finetune.preflight.gpu_gib", lambda: gib)
        return preflight(
            requested,  # type: ignore[arg-type]  # somebody's words
            runs=tmp_path / "runs",
            memories=lambda enough: min(memories, enough),
            execution=FineTuneExecutionConfig(),
        )


def status(result: PreflightResult, name: str) -> PreflightStatus:
    return next(check.status for check in result.checks if check.name == name)


def test_seven_things_are_looked_at(tmp_path: Path) -> None:
    result = looked(FineTunePlan(), tmp_path, memories=99)
    assert [check.name for check in result.checks] == [
        "dependencies", "gpu", "documents", "disk", "source_dir_exists", "output_dir_writable", "override_bounds",
    ]  # fmt: skip
    assert status(result, "gpu") == PreflightStatus.PASS


def step(**more: object) -> Sizes:
    found = {"kind": "transformer", "batch_size": 32, "pairs": 1_500, "wanted": 1_500, "seconds": 900.0}
    return Sizes.model_validate({**found, "bytes": 4 * 2**30, "free_bytes": 8 * 2**30, **more})


@pytest.mark.parametrize(
    ("found", "said", "message"),
    [
        (step(), "pass", "every value is within its limits"),
        (step(batch_size=8), "warn", "a batch of 32 is too large for 8.0 GiB: 8 are used"),
        (step(pairs=640), "warn", "in 30 minutes transformer trains on 640 of 1500 pairs"),
        (FineTuneStageError("the least step takes 9.0 GiB"), "fail", "the least step takes 9.0 GiB"),
    ],
)
def test_what_a_measured_step_promises_is_told_before_a_run_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: Sizes | Exception, said: str, message: str
) -> None:
    given: list[int] = []

    def measured(_plan: FineTunePlan, _some: Sequence[str], *, texts: int) -> tuple[Sizes, ...]:
        given.append(texts)
        if isinstance(found, Exception):
            raise found
        return (found,)

    monkeypatch.setattr("memcore.finetune.preflight._dependencies", lambda _execution: PASSED)
    monkeypatch.setattr("memcore.finetune.preflight.estimates", measured)
    result = looked(FineTunePlan(), tmp_path, memories=700)
    check = result.checks[-1]
    assert (given, check.name, check.status) == ([700], "override_bounds", said)
    assert check.message == message
    estimates = () if isinstance(found, Exception) else (found,)
    assert (result.estimates, result.recommended_batch_size) == (
        estimates, estimates[0].batch_size if estimates else None,
    )  # fmt: skip
    assert result.can_proceed is (said != "fail")


def test_no_step_is_measured_where_a_check_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memcore.finetune.preflight._dependencies", lambda _execution: PASSED)
    monkeypatch.setattr("memcore.finetune.preflight.estimates", lambda *_given, **_more: pytest.fail("it was measured"))
    assert looked(FineTunePlan(), tmp_path, memories=3).estimates == ()


def test_a_time_that_no_stage_is_given_is_warned_of(tmp_path: Path) -> None:
    result = looked(FineTunePlan(minutes=121.0), tmp_path, memories=99)
    assert result.checks[-1].message == "minutes is 121, and a stage ends after 120"


@pytest.mark.skipif(os.environ.get("MEMTEND_TEST_TORCH") != "1", reason="MEMTEND_TEST_TORCH is not 1")
def test_a_step_is_measured_on_the_texts_that_will_be_trained_on(tmp_path: Path) -> None:
    def measured(words: int) -> PreflightResult:
        return preflight(
            FineTunePlan(max_pairs=64, batch_size=4),
            runs=tmp_path,
            memories=lambda enough: min(500, enough),
            execution=FineTuneExecutionConfig(),
            sample=lambda most: [f"note {number}: " + "pump valve " * words for number in range(most)],
        )

    short, long = measured(4), measured(60)
    assert short.can_proceed
    assert [each.kind for each in short.estimates] == ["static", "transformer"]
    assert all(each.seconds > 0.0 and each.pairs == each.wanted == 64 for each in (*short.estimates, *long.estimates))
    assert long.estimates[1].bytes > 2 * short.estimates[1].bytes
    assert long.estimates[1].seconds > short.estimates[1].seconds


@pytest.mark.parametrize(
    ("documents", "memories", "said"),
    [(9, 0, "fail"), (10, 0, "warn"), (4, 6, "warn"), (49, 0, "warn"), (0, 50, "pass")],
)
def test_few_texts_are_warned_of_and_fewer_refused(tmp_path: Path, documents: int, memories: int, said: str) -> None:
    source = tmp_path / "docs"
    source.mkdir()
    for number in range(documents):
        (source / f"{number}.md").write_text("text", "utf-8")
    result = looked(FineTunePlan(source_dir=str(source)), tmp_path, memories=memories)
    assert status(result, "documents") == said
    assert status(result, "source_dir_exists") == "pass"
    if said == "fail":
        assert not result.can_proceed


@pytest.mark.parametrize(("free", "said"), [(10**9 - 1, "fail"), (10**9, "warn"), (5 * 10**9, "pass")])
def test_a_disk_that_fills_up_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, said: str) -> None:
    monkeypatch.setattr("memcore.finetune.preflight.shutil.disk_usage", lambda _path: SimpleNamespace(free=free))
    assert status(looked(FineTunePlan(), tmp_path), "disk") == said


def test_a_folder_that_is_missing_fails(tmp_path: Path) -> None:
    result = looked(FineTunePlan(source_dir=str(tmp_path / "nowhere")), tmp_path, memories=99)
    assert status(result, "source_dir_exists") == "fail"


@pytest.mark.parametrize("backend", ["in-process", "docker"])
def test_a_base_model_that_is_missing_fails_by_its_field(
    tmp_path: Path, backend: Literal["in-process", "docker"]
) -> None:
    execution = FineTuneExecutionConfig(backend=backend, image="tuner:1")

    def bounds(base_model: Path) -> str:
        plan = FineTunePlan(base_model=str(base_model))
        result = preflight(plan, runs=tmp_path, memories=lambda enough: enough, execution=execution)
        return f"{result.checks[-1].status}: {result.checks[-1].message}"

    assert bounds(tmp_path / "nowhere") == "fail: base_model: names no model on this machine"
    assert not bounds(tmp_path).startswith("fail")


@pytest.mark.parametrize(
    ("cached", "is_found"), [("org/mine", True), ("sentence-transformers/mine", False), (None, False)]
)
def test_a_base_model_by_name_is_looked_for_in_the_hubs_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: str | None, *, is_found: bool
) -> None:
    hub = SimpleNamespace(try_to_load_from_cache=lambda name, _file: "a/path" if name == cached else None)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    result = looked(FineTunePlan(base_model="org/mine"), tmp_path, memories=99)
    assert (status(result, "override_bounds") != "fail") is is_found


def test_a_place_that_cannot_be_written_to_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memcore.finetune.preflight.os.access", lambda _path, _mode: False)
    assert status(looked(FineTunePlan(), tmp_path), "output_dir_writable") == "fail"


def test_missing_libraries_fail_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memcore.finetune.preflight.importlib.util.find_spec", lambda _name: None)
    result = looked(FineTunePlan(), tmp_path, gib=None)
    check = result.checks[0]
    assert (check.status, check.detail) == ("fail", "pip install 'memtend[finetune]'")


@pytest.mark.parametrize(("is_there", "said"), [(True, "pass"), (False, "fail")])
def test_where_stages_run_in_containers_this_machine_needs_the_docker_library_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_there: bool, said: str
) -> None:
    found = {"docker": is_there, "torch": False, "sentence_transformers": False}
    monkeypatch.setattr("memcore.finetune.preflight.importlib.util.find_spec", lambda name: found[name] or None)
    execution = FineTuneExecutionConfig(backend="docker", image="tuner:1")
    result = preflight(FineTunePlan(), runs=tmp_path, memories=lambda enough: enough, execution=execution)
    assert (result.checks[0].name, result.checks[0].status) == ("dependencies", said)
    assert ("tuner:1" in result.checks[0].message) is is_there


def test_a_plan_that_breaks_a_limit_is_told_by_its_field(tmp_path: Path) -> None:
    result = looked({"epochs": 0}, tmp_path)
    (check,) = result.checks
    assert (check.name, check.status) == ("override_bounds", "fail")
    assert check.message.startswith("epochs: ")
    assert not result.can_proceed

"""What is looked at before a run, and what is said about it."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from memcore.finetune.plan import FineTunePlan
from memcore.finetune.preflight import PreflightResult, PreflightStatus, preflight


def looked(told: object, tmp_path: Path, *, memories: int = 0, gib: float | None = 24.0) -> PreflightResult:
    return preflight(
        told,  # type: ignore[arg-type]  # somebody's words
        runs=tmp_path / "runs",
        memories=lambda enough: min(memories, enough),
        gpu_gib=lambda: gib,
    )


def status(result: PreflightResult, name: str) -> PreflightStatus:
    return next(check.status for check in result.checks if check.name == name)


def test_seven_things_are_looked_at(tmp_path: Path) -> None:
    result = looked(FineTunePlan(batch_size=64), tmp_path, memories=99)
    assert [check.name for check in result.checks] == [
        "dependencies", "gpu", "documents", "disk", "source_dir_exists", "output_dir_writable", "override_bounds",
    ]  # fmt: skip
    assert (result.recommended_batch_size, status(result, "gpu")) == (64, PreflightStatus.PASS)


@pytest.mark.parametrize(
    ("gib", "batch", "gpu"),
    [(80.0, 128, "pass"), (16.0, 64, "pass"), (8.0, 32, "pass"), (4.0, 16, "pass"),
     (0.0, 16, "warn"), (None, None, "warn")],
)  # fmt: skip
def test_the_batch_is_what_the_machine_holds(tmp_path: Path, gib: float | None, batch: int | None, gpu: str) -> None:
    result = looked(FineTunePlan(), tmp_path, gib=gib)
    assert (result.recommended_batch_size, status(result, "gpu")) == (batch, gpu)
    assert status(result, "override_bounds") == ("pass" if batch in {None, 128} else "warn")


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


def test_a_place_that_cannot_be_written_to_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memcore.finetune.preflight.os.access", lambda _path, _mode: False)
    assert status(looked(FineTunePlan(), tmp_path), "output_dir_writable") == "fail"


def test_missing_libraries_fail_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memcore.finetune.preflight.importlib.util.find_spec", lambda _name: None)
    result = looked(FineTunePlan(), tmp_path, gib=None)
    check = result.checks[0]
    assert (check.status, check.detail) == ("fail", "pip install 'memtend[finetune]'")


def test_a_plan_that_breaks_a_limit_is_told_by_its_field(tmp_path: Path) -> None:
    result = looked({"epochs": 0}, tmp_path)
    (check,) = result.checks
    assert (check.name, check.status) == ("override_bounds", "fail")
    assert check.message.startswith("epochs: ")
    assert not result.can_proceed

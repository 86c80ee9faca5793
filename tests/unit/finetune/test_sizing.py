"""The sizes of a training: a batch that memory holds, pairs that time allows, and the memory that is free."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.errors import FineTuneStageError
from memcore.finetune.sizing import Sizes, StepCost, free_bytes, sized

GIB = 2**30
MIB = 2**20


def sizes(
    *, free: int = 16 * GIB, minutes: float = 30.0, seconds: float = 0.1, batch: int = 32, pairs: int = 1_500
) -> Sizes:
    cost = StepCost(seconds_per_pair=seconds, bytes_per_pair=100 * MIB, fixed_bytes=300 * MIB)
    return sized(cost, kind="transformer", free_bytes=free, minutes=minutes, batch_size=batch, pairs=pairs, epochs=3)


def test_what_fits_is_left_as_it_was_asked_for() -> None:
    found = sizes()
    assert (found.batch_size, found.pairs, found.wanted) == (32, 1_500, 1_500)
    assert found.seconds == pytest.approx(450.0)
    assert found.bytes == 3_500 * MIB


@pytest.mark.parametrize(("free", "batch"), [(6 * GIB, 32), (4 * GIB, 16), (2 * GIB, 8), (1 * GIB, 4)])
def test_a_batch_that_is_too_large_is_halved_until_memory_holds_it(free: int, batch: int) -> None:
    found = sizes(free=free)
    assert (found.batch_size, found.pairs) == (batch, 1_500)
    assert found.bytes < free


def test_a_batch_of_the_old_default_never_takes_what_is_not_there() -> None:
    assert sizes(free=8 * GIB, batch=128).bytes < 8 * GIB


def test_where_the_least_step_does_not_fit_the_stage_says_so_before_it_begins() -> None:
    with pytest.raises(FineTuneStageError, match=r"takes 0\.5 GiB, and 0\.5 GiB are free: .*--chunk-words"):
        sizes(free=500 * MIB)


@pytest.mark.parametrize(("minutes", "pairs"), [(30.0, 1_500), (7.6, 1_500), (3.0, 576), (0.1, 32)])
def test_pairs_beyond_the_time_are_left_out_by_whole_batches(minutes: float, pairs: int) -> None:
    assert sizes(minutes=minutes).pairs == pairs


@given(st.integers(1, 64), st.floats(0.01, 600.0), st.floats(1e-6, 100.0), st.integers(2, 100_000))
def test_sizes_keep_within_memory_and_what_was_asked_for(free: int, minutes: float, seconds: float, pairs: int) -> None:
    found = sizes(free=free * GIB, minutes=minutes, seconds=seconds, batch=128, pairs=pairs)
    assert found.bytes <= free * GIB
    assert 1 <= found.batch_size <= 128
    assert 1 <= found.pairs <= pairs
    is_cut = found.pairs < pairs
    assert not is_cut or found.seconds <= max(minutes * 60.0, found.batch_size * seconds * 3) * 1.001


def machine(tmp_path: Path, own: str, groups: dict[str, str]) -> int:
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 99 kB\nMemAvailable:   8388608 kB\n", "ascii")
    (proc / "self" / "cgroup").write_text(own, "ascii")
    for name, text in groups.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "ascii")
    return free_bytes(root, proc)


def test_without_a_limit_the_machine_counts(tmp_path: Path) -> None:
    assert machine(tmp_path, "0::/\n", {"memory.max": "max\n", "memory.current": "5"}) == 8 * GIB


def test_a_containers_limit_counts_and_what_it_caches_is_free(tmp_path: Path) -> None:
    groups = {
        "memory.max": f"{2 * GIB}\n",
        "memory.current": f"{GIB}\n",
        "memory.stat": f"anon 7\ninactive_file {GIB // 2}\n",
    }
    assert machine(tmp_path, "0::/\n", groups) == GIB + GIB // 2


def test_the_limit_of_a_group_around_it_counts_too(tmp_path: Path) -> None:
    groups = {
        "a/memory.max": f"{3 * GIB}", "a/memory.current": f"{GIB}",
        "a/b/memory.max": "max", "a/b/memory.current": "1",
    }  # fmt: skip
    assert machine(tmp_path, "0::/a/b\n", groups) == 2 * GIB


def test_the_first_version_of_control_groups_is_read(tmp_path: Path) -> None:
    groups = {
        "memory/docker/x/memory.limit_in_bytes": f"{GIB}", "memory/docker/x/memory.usage_in_bytes": f"{GIB // 4}",
        "memory/docker/x/memory.stat": f"total_inactive_file {GIB // 4}",
    }  # fmt: skip
    assert machine(tmp_path, "7:cpu:/docker/x\n8:memory:/docker/x\n", groups) == GIB


def test_where_nothing_is_known_nothing_is_refused(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "no", tmp_path / "no") > 100 * GIB

import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
from support.repository import PRODUCT_FOLDERS, ROOT, source_files

#: Lines of a source file: what the middle one may have, nine in ten, and the longest.
MEDIAN, NINE_IN_TEN, LONGEST = 200, 400, 700


def lines_of(*folders: str) -> dict[Path, int]:
    sizes = {
        path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines()) for path in source_files(*folders)
    }
    assert sizes
    return {path: size for path, size in sizes.items() if size}


def described(sizes: dict[Path, int]) -> str:
    values = sorted(sizes.values())
    return (
        f"{len(values)} files, {sum(values)} lines: median {statistics.median(values):.0f}, "
        f"90th percentile {percentile(values):.0f}, longest {values[-1]}"
    )


def percentile(values: list[int]) -> float:
    return statistics.quantiles(values, n=10, method="inclusive")[-1]


def test_source_files_stay_small(record_property: Callable[[str, object], None]) -> None:
    sizes = lines_of(*PRODUCT_FOLDERS)
    record_property("source", described(sizes))
    values = sorted(sizes.values())
    assert [str(path) for path, size in sizes.items() if size > LONGEST] == []
    assert statistics.median(values) <= MEDIAN
    assert percentile(values) <= NINE_IN_TEN


def test_no_test_file_is_too_long_to_read(record_property: Callable[[str, object], None]) -> None:
    sizes = lines_of("tests")
    record_property("tests", described(sizes))
    assert [str(path) for path, size in sizes.items() if size > LONGEST] == []


@pytest.mark.parametrize("name", ["utils", "helpers", "common", "misc", "util", "helper"])
def test_no_file_is_named_for_what_it_is_not(name: str) -> None:
    assert [
        str(path) for path in source_files(*PRODUCT_FOLDERS, "tests") if name in {path.stem, path.parent.name}
    ] == []

import statistics
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from measure.tree import FACE, cycles, imports, packages, product
from support.repository import PRODUCT_FOLDERS, ROOT, source_files

#: Lines of a source file: what nine in ten may have at most, and the longest.
NINE_IN_TEN, LONGEST = 400, 700

#: A file below so many lines, but for a folder's door, is a paragraph of its neighbour; this is the share that may be.
SMALL, SMALL_SHARE = 40, 0.02

#: Modules that one folder may hold, beside its __init__.
IN_A_FOLDER = 20

#: What ships and is no code to be read: history, and data.
APART = ("memcore/ledger/migrations/",)


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
    assert [str(path) for path, size in sizes.items() if size > LONGEST] == []
    assert percentile(sorted(sizes.values())) <= NINE_IN_TEN


def test_few_source_files_are_paragraphs_of_their_neighbour() -> None:
    sizes = {path: size for path, size in lines_of(*PRODUCT_FOLDERS).items() if not str(path).startswith(APART)}
    sizes = {path: size for path, size in sizes.items() if path.name != "__init__.py"}
    small = sorted(str(path) for path, size in sizes.items() if size < SMALL)
    assert len(small) <= SMALL_SHARE * len(sizes), small


def test_a_folder_can_be_taken_in_at_a_glance() -> None:
    modules = Counter(path.parent for path in lines_of(*PRODUCT_FOLDERS) if path.name != "__init__.py")
    assert {str(folder): count for folder, count in modules.items() if count > IN_A_FOLDER} == {}


def test_no_file_and_no_package_imports_itself_in_the_end_for_types_either() -> None:
    graph = imports({name: path for name, path in product().items() if name != FACE}, for_types=True)
    assert cycles(graph) == []
    assert cycles(packages(imports(product()))) == []


def test_no_test_file_is_too_long_to_read(record_property: Callable[[str, object], None]) -> None:
    sizes = lines_of("tests")
    record_property("tests", described(sizes))
    assert [str(path) for path, size in sizes.items() if size > LONGEST] == []


@pytest.mark.parametrize("name", ["utils", "helpers", "common", "misc", "util", "helper"])
def test_no_file_is_named_for_what_it_is_not(name: str) -> None:
    assert [
        str(path) for path in source_files(*PRODUCT_FOLDERS, "tests") if name in {path.stem, path.parent.name}
    ] == []

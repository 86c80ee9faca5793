import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tally import ALLOWED_SKIP, main, tally

TESTS = Path(__file__).parents[2]


def write(folder: Path, name: str, cases: str) -> None:
    folder.joinpath(name).write_text(f'<testsuites><testsuite time="1.5">{cases}</testsuite></testsuites>')


def case(inner: str = "") -> str:
    return f'<testcase classname="a" name="b">{inner}</testcase>'


def test_the_reports_are_summed_into_one_closing_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "1.xml", case() + case('<skipped message="MEMTEND_TEST_POSTGRES_URL names no server"/>'))
    write(tmp_path, "2.xml", case())
    assert main(tmp_path) == 0
    assert capsys.readouterr().out == "== 2 passed, 1 skipped in 3.00s: 2 tests ran ==\n"


def test_figures_that_tests_recorded_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "1.xml", case('<properties><property name="source" value="3 files"/></properties>'))
    assert main(tmp_path) == 0
    assert capsys.readouterr().out.startswith("source: 3 files\n")


@pytest.mark.parametrize("inner", ["<failure/>", "<error/>"])
def test_a_failure_in_any_report_fails_the_whole(tmp_path: Path, inner: str) -> None:
    write(tmp_path, "1.xml", case())
    write(tmp_path, "2.xml", case(inner))
    assert tally(tmp_path).failed == 1
    assert main(tmp_path) == 1


def test_a_skip_must_name_what_the_machine_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "1.xml", case() + case('<skipped message="flaky today"/>'))
    assert main(tmp_path) == 1
    assert "a.b: flaky today" in capsys.readouterr().out


@pytest.mark.parametrize(
    "reason", ["needs a GPU", "Docker is not here", "MEMTEND_TEST_QDRANT_URL is not set", "no node on this machine"]
)
def test_a_missing_gpu_docker_or_named_service_excuses_a_skip(tmp_path: Path, reason: str) -> None:
    write(tmp_path, "1.xml", case() + case(f'<skipped message="{reason}"/>'))
    assert main(tmp_path) == 0


def reasons(path: Path) -> Iterator[str]:
    """Yield why the tests of a file may be skipped; a constant that a reason quotes stands for what it names."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"pytest.skip", "pytest.mark.skipif"}:
            given = [each.value for each in node.keywords if each.arg == "reason"] or node.args[-1:]
            yield ast.unparse(given[0])


def test_every_reason_of_a_skip_in_the_tree_is_allowed() -> None:
    found = {reason for path in TESTS.rglob("*.py") for reason in reasons(path)}
    variables = {"QDRANT_URL", "FINE_TUNE_IMAGE", "RABBITMQ"}
    refused = {each for each in found if not ALLOWED_SKIP.search(each) and not any(name in each for name in variables)}
    assert len(found) > 20
    assert refused == set()


def test_no_test_at_all_is_no_success(tmp_path: Path) -> None:
    assert main(tmp_path) == 1

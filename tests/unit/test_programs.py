import subprocess
import sys
from pathlib import Path

import pytest
from support.repository import ROOT

from memcore.programs import FOLDER, import_path, program_argv

LIBRARIES = ["/python/lib", "/python/lib/site-packages"]


def test_a_checkout_keeps_its_programs_beside_memcore() -> None:
    assert FOLDER == ROOT


def test_our_folders_come_first_and_pythonpath_last() -> None:
    environ = {"PYTHONPATH": "/their/project:/their/lib"}
    entries = ["/their/project", "/their/lib", *LIBRARIES, str(ROOT)]
    assert import_path(entries, environ) == [str(ROOT), *LIBRARIES, "/their/project", "/their/lib"]


@pytest.mark.parametrize("written", [".", "", ":/elsewhere"])
def test_a_relative_entry_is_the_folder_that_python_takes_it_for(written: str, tmp_path: Path) -> None:
    code = "import memcore.programs as p, os, sys; print(*p.import_path(sys.path, os.environ), sep='\\n')"
    shown = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": written},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert shown[0] == str(ROOT)
    assert str(tmp_path) not in shown[: shown.index(next(path for path in shown if "site-packages" in path))]


def test_where_memtend_itself_stands_in_pythonpath_its_libraries_keep_their_place() -> None:
    entries = [str(ROOT), "/their/project", *LIBRARIES]
    assert import_path(entries, {"PYTHONPATH": f"{ROOT}:/their/project"}) == [str(ROOT), *LIBRARIES, "/their/project"]


def test_a_program_gets_its_arguments_and_its_exit_code_comes_back(tmp_path: Path) -> None:
    (tmp_path / "workers.py").write_text("raise SystemExit('theirs')\n", encoding="utf-8")
    asked = [*program_argv("workers.health"), "nobody"]
    done = subprocess.run(
        asked, cwd=tmp_path, env={"MEMTEND_HOME": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.partition(":")[0]) == (1, "nobody has not taken a job yet")
    reported = subprocess.run(asked[:-2], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (reported.returncode, reported.stderr.partition(":")[0]) == (2, "usage")

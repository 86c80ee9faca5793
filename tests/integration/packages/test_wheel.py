import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.repository import PRODUCT_FOLDERS, ROOT, tree_files


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(folder.glob("memtend-*.whl"))) as opened:
        yield opened


def test_the_wheel_carries_every_file_of_the_capacities_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    resources = [path.relative_to(ROOT) for path in tree_files() if path.relative_to(ROOT).parts[0] in PRODUCT_FOLDERS]
    # One importable name; the folders of the programs are data to whoever does not start through memcore.programs.
    ours = {str(path if path.parts[0] == "memcore" else Path("memcore", "_programs", path)) for path in resources}
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert {Path(name).suffix for name in ours} >= {".py", ".typed"}
    assert any("migrations" in name for name in shipped)
    assert shipped == ours


def test_the_wheel_carries_the_licence_and_the_command(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    scripts = wheel.read(next(name for name in names if name.endswith("/entry_points.txt"))).decode()
    assert "memtend = memcore.programs:memtend" in scripts


def test_the_command_runs_from_the_wheel_alone(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "installed")
    code = (
        "import sys; from memcore.programs import FOLDER, memtend; print(FOLDER); sys.argv[1:] = ['--help']; memtend()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith(str(tmp_path))
    assert "Usage" in done.stdout


def test_every_package_folder_has_a_docstring_that_says_what_it_holds() -> None:
    for path in tree_files():
        parts = path.relative_to(ROOT).parts
        if parts[0] in PRODUCT_FOLDERS and path.name == "__init__.py" and "migrations" not in parts:
            assert path.read_text(encoding="utf-8").startswith('"""'), path

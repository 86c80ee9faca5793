"""The wheel, installed beside a project of an outsider whose own names are the names of our folders and libraries."""

import subprocess
import sys
import sysconfig
import venv
from collections.abc import Generator
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from support.installed_extras import library_folder
from support.repository import PRODUCT_FOLDERS, ROOT
from support.running_stack import clean_environ, running_stack

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(240)]

#: What the project calls its own files: our folders, what a Celery and Flower project has, libraries that we import.
MODULES = ("celery", "celeryconfig", "flowerconfig", "redis", "scheduler", "settings", "tasks", "typer")
PACKAGES = ("alembic", "kombu", "ops", "workers")

#: Each of the project's modules writes down that it was imported.
IMPORT_MARKER = "import os, sys\nwith open({path!r}, 'a') as out:\n    print(__name__, sys.argv, file=out)\n"


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project, the interpreter that memtend's wheel was installed for, and what both share."""

    folder: Path
    python: Path
    import_marker: Path
    environ: dict[str, str]

    @property
    def site(self) -> Path:
        """Where the wheel was installed to."""
        return next((self.python.parent.parent / "lib").glob("python*/site-packages"))

    def run(self, *words: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment's bin folder in the project's folder."""
        return subprocess.run(
            [self.python.parent / words[0], *words[1:]],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    wheel = next(folder.glob("memtend-*.whl"))
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", str(wheel)], check=True, capture_output=True)
    # The third-party wheels of this environment, without its own path files: our checkout is not seen there.
    libraries = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    environ = {
        **clean_environ(),
        "PYTHONPATH": "lib",
        "MEMTEND_HOME": str(folder / "home"),
        # What the shell of somebody who develops with Celery and Django has set.
        "CELERY_BROKER_URL": "redis://127.0.0.1:1/0",
        "CELERY_RESULT_BACKEND": "redis://127.0.0.1:1/0",
        "CELERY_CONFIG_MODULE": "celeryconfig",
        "DJANGO_SETTINGS_MODULE": "settings",
        "APP": "tasks",
        "BROKER_URL": "redis://127.0.0.1:1/0",
        "FLOWER_PORT": "1",
    }
    made = Project(folder=folder / "project", python=python, import_marker=folder / "imported.txt", environ=environ)
    (made.site / "third_party.pth").write_text("\n".join(libraries), encoding="utf-8")
    # The folder that memtend is started in, and one of PYTHONPATH.
    for place in (made.folder, made.folder / "lib"):
        place.mkdir()
        for name in MODULES:
            (place / f"{name}.py").write_text(IMPORT_MARKER.format(path=str(made.import_marker)), encoding="utf-8")
        for name in PACKAGES:
            (place / name).mkdir()
            (place / name / "__init__.py").write_text(
                IMPORT_MARKER.format(path=str(made.import_marker)), encoding="utf-8"
            )
    return made


@pytest.fixture(scope="module")
def stack(project: Project) -> Generator[Project]:
    home = Path(project.environ["MEMTEND_HOME"])
    command = project.python.with_name("memtend")
    with running_stack(home, command, project.folder, **project.environ):
        yield project


def test_the_wheel_adds_memcore_alone_to_what_can_be_imported(project: Project) -> None:
    installed = Distribution.at(next(project.site.glob("memtend-*.dist-info")))
    names = {path.parts[0] for path in installed.files or () if path.parts[0] not in {"..", installed.name}}
    assert {name for name in names if not name.endswith(".dist-info")} == {"memcore"}
    code = f"import importlib.util as util; print([name for name in {PRODUCT_FOLDERS!r} if util.find_spec(name)])"
    found = subprocess.run([project.python, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['memcore']"


def test_the_stack_works_and_imports_nothing_of_the_project(stack: Project) -> None:
    text = "The payment queue pages at 500 messages."
    stored = stack.run("memtend", "store", "oncall", text)
    assert stored.returncode == 0, stored.stderr
    found = stack.run("memtend", "search", "oncall", "when does payments page?")
    assert text in found.stdout, found.stderr
    maintained = stack.run("memtend", "maintain", "oncall")
    assert maintained.returncode == 0, maintained.stderr
    assert not stack.import_marker.exists(), stack.import_marker.read_text()


def test_an_engine_of_the_project_stores_and_reads_with_what_its_extra_installs(stack: Project, tmp_path: Path) -> None:
    libraries = library_folder(tmp_path / "lib", "engine", ours=stack.site)
    engine = subprocess.run(
        [stack.python, "-S", ROOT / "examples" / "quickstart.py"],
        cwd=stack.folder,
        env={**stack.environ, "PYTHONPATH": str(libraries)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "The payment queue pages at 500 messages." in engine.stdout, engine.stderr
    assert not stack.import_marker.exists(), stack.import_marker.read_text()


def test_a_plug_in_that_only_pythonpath_knows_is_still_found(project: Project) -> None:
    (project.folder / "lib" / "their_plug_in.py").write_text("print('found')\n", encoding="utf-8")
    asked = project.run("python", "-P", "-m", "memcore.programs", "their_plug_in")
    assert asked.stdout.strip() == "found", asked.stderr

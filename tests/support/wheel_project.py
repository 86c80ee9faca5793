"""The wheel, installed beside a project of an outsider whose own names are the names of our folders and libraries."""

import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

from support.repository import ROOT
from support.running_stack import clean_environ

#: What the project calls its own files: our folders, what a Celery and Flower project has, libraries that we import.
MODULES = ("celery", "celeryconfig", "flowerconfig", "redis", "scheduler", "settings", "tasks", "typer")
PACKAGES = ("alembic", "kombu", "ops", "workers")

#: Each of the project's modules writes down that it was imported.
IMPORT_MARKER = "import os, sys\nwith open({path!r}, 'a') as out:\n    print(__name__, sys.argv, file=out)\n"


@dataclass(frozen=True, kw_only=True)
class Project:
    """A project, the interpreter that memtend's wheel was installed for, and what both share.

    Attributes:
        import_marker: names each of the project's modules that was imported.
        environ: what the shell of the project's people has set.
    """

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


def wheel_project(folder: Path, home: Path) -> Project:
    """Build the wheel, install it for an interpreter of its own, and write the project, all in a folder.

    Args:
        folder: all of that.
        home: the data folder that the project's people have named.
    """
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
        "MEMTEND_HOME": str(home),
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

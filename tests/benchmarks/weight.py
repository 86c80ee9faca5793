"""``python tests/benchmarks/weight.py``: what each extra installs, in packages and MB, by installing it afresh.

It builds the wheel and installs it three times into environments of their own, from the package index that pip knows.
With the last, everything that runs is started beside a project that has our names.
"""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.figure import Figure, Target  # noqa: E402  # a script must find the tree first
from support.running_stack import clean_environ, running_stack  # noqa: E402

#: What is installed, as the report calls it and as pip is asked for it.
KINDS = {"an engine that stores": "", "an engine that reads": "[engine]", "everything that runs": "[worker]"}

#: The most that an engine which only stores may install.
MOST_PACKAGES, MOST_MB = 30, 60

#: What every environment has before anything is installed into it.
_PIP = ("pip", "setuptools")


def weights() -> tuple[list[Figure], list[Target]]:
    """Install each kind into an environment of its own; return packages and MB, and the targets beside them."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="memtend-weight-") as name:
        folder = Path(name)
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", name]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        wheel = next(folder.glob("memtend-*.whl"))
        for number, (kind, extra) in enumerate(KINDS.items()):
            packages, size = _installed(folder / str(number), f"memtend{extra} @ {wheel.as_uri()}")
            figures += [
                Figure(group="weight", name=f"{kind}: packages", unit="packages", samples=[packages]),
                Figure(group="weight", name=f"{kind}: size", unit="MB", samples=[size]),
            ]
        _tried(folder / str(len(KINDS) - 1), folder / "project")
    return figures, [
        Target(name="packages of an engine that stores", values=figures[0].samples, wanted=MOST_PACKAGES, at_most=True),
        Target(name="MB of an engine that stores", values=figures[1].samples, wanted=MOST_MB, at_most=True),
    ]


def _installed(folder: Path, wanted: str) -> tuple[int, float]:
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    constraints = str(ROOT / "constraints.txt")
    subprocess.run([*pip, "install", "--quiet", "-c", constraints, wanted], check=True, stdout=subprocess.DEVNULL)
    listed = json.loads(subprocess.check_output([*pip, "list", "--format=json"], text=True))
    site = next((folder / "lib").glob("python*/site-packages"))
    ours = (path for path in site.rglob("*") if path.is_file() and not _is_pip(path.relative_to(site)))
    return len([each for each in listed if each["name"] not in _PIP]), sum(path.stat().st_size for path in ours) / 1e6


def _is_pip(path: Path) -> bool:
    return path.parts[0].partition("-")[0] in {*_PIP, "pkg_resources", "_distutils_hack"}


def _tried(environment: Path, project: Path) -> None:
    """Store and find a memory with what was installed, in a folder that has modules of our names."""
    for name in ("ops", "scheduler", "tasks", "workers"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text("raise SystemExit('theirs')\n", encoding="utf-8")
    command, home = environment / "bin" / "memtend", project / "home"
    environ = {**clean_environ(), "PYTHONPATH": str(project), "MEMTEND_HOME": str(home)}
    with running_stack(home, command, project, PYTHONPATH=str(project)):
        for words in (("store", "oncall", "Deploys wait for the night."), ("search", "oncall", "When do we deploy?")):
            argv = [str(command), *words]
            done = subprocess.run(argv, cwd=project, env=environ, check=True, capture_output=True, text=True)
        if "Deploys wait" not in done.stdout:
            raise SystemExit(f"what was stored is not found: {done.stdout}{done.stderr}")


def main() -> int:
    """Print every figure and whether the targets are met; return the exit code."""
    figures, targets = weights()
    for figure in figures:
        sys.stdout.write(f"{figure.name:<40} {figure.median:8.1f} {figure.unit}\n")
    for target in targets:
        word = "met" if target.is_met else "MISSED"
        sys.stdout.write(f"{target.name:<40} {target.value:8.1f}, at most {target.wanted:g}: {word}\n")
    return 0 if all(target.is_met for target in targets) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Start a program of memtend: ``python -P -m memcore.programs MODULE ARGUMENTS``, and the command ``memtend``.

The folders of the programs have common names (``ops``, ``scheduler``, ``tasks``, ``workers``), which a project may have
too. The wheel keeps them below this package, where no import finds them by accident; a checkout keeps them beside it.
What starts here finds them first, and nothing of the working directory or of ``PYTHONPATH`` in their place.
"""

import gc
import os
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from memcore.errors import MissingExtraError
from memcore.extras import naming_extras

_PACKAGE = Path(__file__).parent

#: Where the wheel keeps the programs; in a checkout there is no such folder.
_IN_WHEEL = _PACKAGE / "_programs"

#: What holds the folders of the programs.
FOLDER = _IN_WHEEL if _IN_WHEEL.is_dir() else _PACKAGE.parent

#: New objects after which Python looks for garbage. Its own 700 makes it look through what a program imports again and
#: again, a tenth of the time of a start.
_GC_OBJECTS = 50_000

#: Exit code for a wrong call.
EXIT_USAGE = 2

#: Exit code where a library is missing: as for configuration that is wrong, so that no supervisor tries again.
EXIT_MISSING = 2


def program_argv(module: str, *, python: str = sys.executable) -> tuple[str, ...]:
    """Return the command line that starts a program, such as ``workers.run``, as a process; its arguments follow."""
    return (python, "-P", "-m", "memcore.programs", module)


def import_path(entries: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return where programs look for modules: our own folders, then what is installed, then ``PYTHONPATH``.

    Plug-ins that only ``PYTHONPATH`` names are still found; a ``celery.py`` or ``redis.py`` there replaces nothing.
    Where memtend itself stands in a folder of ``PYTHONPATH`` (``pip install --target``), so do its libraries: that
    folder keeps its place. ``entries`` are ``sys.path`` without the folder of the script or the working directory.
    """
    named = {str(Path(entry).absolute()) for entry in environ.get("PYTHONPATH", "").split(os.pathsep)}
    behind = [entry for entry in entries if entry in named and entry != str(_PACKAGE.parent)]
    return [str(FOLDER), *(entry for entry in entries if entry not in behind and entry != str(FOLDER)), *behind]


def main(argv: Sequence[str]) -> int:
    """Run one program in this process; return its exit code, unless it ends the process itself."""
    if not argv:
        sys.stderr.write("usage: python -P -m memcore.programs MODULE [ARGUMENTS], such as workers.health beat\n")
        return EXIT_USAGE
    _prepare()
    sys.argv = list(argv)
    with _progress_of():
        runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
    return 0


def memtend() -> None:
    """Run the command line; the entry point of the ``memtend`` script."""
    _prepare()
    with _progress_of():
        import_module("ops.cli.main").run()


@contextmanager
def _progress_of() -> Iterator[None]:
    try:
        with naming_extras():
            yield
    except MissingExtraError as error:
        # What reads alone is not enough for a program.
        missing = MissingExtraError("worker" if error.extra == "engine" else error.extra, error.module)
        sys.stderr.write(f"memtend: {missing}\n")
        sys.exit(EXIT_MISSING)


def _prepare() -> None:
    gc.set_threshold(_GC_OBJECTS)
    # Without -P the first entry is the folder of the script, or the working directory.
    sys.path[:] = import_path(sys.path[0 if sys.flags.safe_path else 1 :], os.environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

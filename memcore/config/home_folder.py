"""The data folder of this machine; the smallest programs import this, so it needs the standard library alone."""

from collections.abc import Mapping
from pathlib import Path


def home_folder(environ: Mapping[str, str], home: Path | None = None) -> Path:
    """Return the data folder: the one given, else MEMTEND_HOME, else ``~/.memtend``; always absolute."""
    if home is None:
        named = environ.get("MEMTEND_HOME")
        home = Path(named) if named else Path(environ.get("HOME") or Path.home()) / ".memtend"
    # Every process of a stack must mean the same folder, wherever it was started.
    return home.expanduser().absolute()

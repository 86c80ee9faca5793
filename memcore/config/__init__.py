"""The memory policy and the settings; here the data folder of this machine.

Import each name from the file of its concern (``memcore.config.retrieval.MemoryRetrievalConfig``). This package imports
the standard library alone, so that the smallest programs and a client that only needs ``settings`` stay cheap.
"""

import unicodedata
from collections.abc import Mapping
from pathlib import Path

from memcore.errors import MemoryConfigError


def home_folder(environ: Mapping[str, str], home: Path | None = None) -> Path:
    """Return the data folder: the one given, else MEMTEND_HOME, else ``~/.memtend``; always absolute.

    Raises:
        MemoryConfigError: its path holds what cannot be written into a configuration file, or names an unknown user.
    """
    if home is None:
        named = environ.get("MEMTEND_HOME")
        home = Path(named) if named else Path(environ.get("HOME") or Path.home()) / ".memtend"
    # The path goes into the broker's configuration, the stack's file and people's terminals.
    if any(unicodedata.category(character) == "Cc" for character in str(home)):
        raise MemoryConfigError("--home: must not contain control characters such as a line break (nor MEMTEND_HOME)")
    if any(unicodedata.category(character) == "Cs" for character in str(home)):
        raise MemoryConfigError("--home: must be valid UTF-8 (and so must MEMTEND_HOME)")
    try:
        home = home.expanduser()
    except RuntimeError:
        raise MemoryConfigError(f"--home: {home} begins with ~ and names no user of this machine") from None
    # Every process of a stack must mean the same folder, wherever it was started.
    return home.absolute()

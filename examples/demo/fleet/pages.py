"""Where the handwritten pages of the data set lie, and how one is read."""

from pathlib import Path
from typing import Any

import yaml

#: Folder of the data files; they ship beside this module.
FOLDER = Path(__file__).parent


def page(name: str) -> Any:
    """Return one YAML page of the data set, by its path below the data folder."""
    # libyaml reads the set in a tenth of a second; the pure Python loader, all that some builds have, needs seconds.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with (FOLDER / name).open(encoding="utf-8") as file:
        return yaml.load(file, Loader=loader)  # noqa: S506 - both loaders named above are safe ones

"""The export of experiences as a folder of Markdown files."""

from typing import Literal

from pydantic import Field

from memcore.config.data_path import DataPath
from memcore.frozen import Frozen


class WikiExportConfig(Frozen):
    """Write experiences to ``raw/``, ``wiki/`` and ``index.md``.

    Attributes:
        enabled: whether anything is written.
        export_root: the folder; a path without "..".
        trigger: after each consolidation, or by hand.
        include_raw_tier: whether ``raw/`` is written.
        include_compressed_tier: whether ``wiki/`` is written.
        max_entries_per_view: most files in a folder, 1 to 1000; None writes all there are.
    """

    enabled: bool = False
    export_root: DataPath = "/data/wiki"
    trigger: Literal["on_consolidation", "manual"] = "manual"
    include_raw_tier: bool = True
    include_compressed_tier: bool = True
    max_entries_per_view: int | None = Field(default=None, ge=1, le=1000)

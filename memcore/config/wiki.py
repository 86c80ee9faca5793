"""The export of experiences as a folder of Markdown files."""

from typing import Literal

from pydantic import Field

from memcore.config.data_path import DataPath
from memcore.frozen import Frozen


class WikiExportConfig(Frozen):
    """Export experience as Markdown files.

    Attributes:
        enabled: whether files are written.
        export_root: the folder of the files; a relative path begins at the data folder.
        trigger: when files are written: after each consolidation, or by hand.
        include_raw_tier: whether ``raw/`` is written.
        include_compressed_tier: whether ``wiki/`` is written.
        max_entries_per_view: the most files in a folder; None writes all.
    """

    enabled: bool = False
    export_root: DataPath = "/data/wiki"
    trigger: Literal["on_consolidation", "manual"] = "manual"
    include_raw_tier: bool = True
    include_compressed_tier: bool = True
    max_entries_per_view: int | None = Field(default=None, ge=1, le=1000)

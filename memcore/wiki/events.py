"""The names under which the wiki export logs; ids and counts stand beside them in ``extra``."""

from enum import StrEnum


class WikiEvent(StrEnum):
    """A log event of the wiki export."""

    EXPORTED = "wiki.export.complete"
    #: A file could not be written: the export before stays.
    FILE_FAILED = "wiki.export.file_failed"
    FAILED = "wiki.export.failed"
    #: What a crashed export had left behind was removed.
    CLEANED = "wiki.export.cleaned"

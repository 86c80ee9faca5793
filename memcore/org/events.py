"""The names under which organisation memory logs; the text of a fact is never logged."""

from enum import StrEnum


class OrgEvent(StrEnum):
    """A log event of organisation memory."""

    #: A write or a retraction was done; author, category and id stand beside.
    WRITE_COMPLETE = "org_memory.write.complete"
    #: The author may not write facts of this category; nothing was written.
    WRITE_DENIED = "org_memory.write.denied"
    #: The database refused or did not answer.
    WRITE_FAILED = "org_memory.write.failed"
    QUERY_FAILED = "org_memory.query.failed"
    CONNECT_FAILED = "org_memory.store.connect_failed"

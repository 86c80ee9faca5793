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
    #: The vector store did not answer; what words find was returned.
    QUERY_DEGRADED = "org_memory.query.degraded"
    #: The vector store does not show a line of the log yet; the sweep tries again.
    SHOW_DEFERRED = "org_memory.show.deferred"
    #: The vector store refuses a version of a fact: words find it, meaning does not.
    SHOW_FAILED = "org_memory.show.failed"
    #: A refusal could not be noted in the audit; it stands all the same.
    AUDIT_FAILED = "org_memory.audit.failed"
    CONNECT_FAILED = "org_memory.store.connect_failed"

"""What an export did."""

from pydantic import Field

from memcore.frozen import Frozen


class WikiExport(Frozen):
    """What became of one agent's part of the wiki.

    Attributes:
        agent_id: whose.
        raw_count: raw experiences written, or to be written.
        compressed_count: compressed experiences written, or to be written.
        failed_count: files that could not be written.
        is_published: people see it; otherwise they see the one before, whole.
        reason: why it is not published, without a word of any memory; None when it is.
    """

    agent_id: str
    raw_count: int = Field(default=0, ge=0)
    compressed_count: int = Field(default=0, ge=0)
    failed_count: int = Field(default=0, ge=0)
    is_published: bool = False
    reason: str | None = None

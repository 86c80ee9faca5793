"""The mirror of an installation."""

from typing import TYPE_CHECKING

from memcore.backends.factory import followed_row, mem0_place
from memcore.errors import MemoryBackendUnsupportedError

if TYPE_CHECKING:
    from memcore.backends.mem0.mirror import Mirror
    from memcore.config.policy import Policy
    from memcore.config.settings import Settings


def create_mirror(settings: "Settings", policy: "Policy") -> "Mirror":
    """Return the mirror of the company's collections; MemoryBackendUnsupportedError where none has vectors."""
    if "mem0" not in policy.memory.backends.values():
        raise MemoryBackendUnsupportedError("reindex: no backend of this policy embeds anything")
    # The store's client takes a third of a second to import.
    from memcore.backends.mem0.mirror import Mirror  # noqa: PLC0415  # see above

    return Mirror(mem0_place(settings), followed=followed_row(settings, policy))

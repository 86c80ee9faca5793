"""What a level asks of a memory: whether it is kept at all, and by which id it will end.

Working memories end with their task whatever the level, so they need no other id.
"""

from memcore.models import MemoryCategory, MemoryLevel


def missing_id(
    level: MemoryLevel, *, category: MemoryCategory, session_id: str | None, project_id: str | None
) -> str | None:
    """Return the name of the id without which the memory would never end, or None when nothing is missing."""
    if category is MemoryCategory.WORKING:
        return None
    if level is MemoryLevel.SESSION and session_id is None:
        return "session_id"
    if level is MemoryLevel.PROJECT and project_id is None:
        return "project_id"
    return None


def refusal(field: str) -> str:
    """Return why a memory without this id is refused, and what to do."""
    scope = field.removesuffix("_id")
    return (
        f"is missing, and memories of an agent of level {scope} end with their {scope}; "
        f"send Scope({field}=...), or give the agent another level with `memtend agents set --level`"
    )


def experience_refusal(level: MemoryLevel) -> str | None:
    """Return why an agent of this level has its experience refused, and what to do; None when it is kept.

    What is learned from an experience is there to outlive its session and its project.
    """
    if level in {MemoryLevel.SESSION, MemoryLevel.PROJECT}:
        return (
            f"agent_id: is of level {level}, and experience outlives its {level}; "
            "give the agent the level persistent with `memtend agents set --level`"
        )
    return None

"""Which memories a batch call means: always one agent's, then narrowed by the store itself."""

from typing import Literal, Self

from pydantic import model_validator

from memcore.clock import BoundedTime
from memcore.frozen import Frozen, NotBlankStr
from memcore.models import MemoryCategory

#: What a memory may have been stored in: a field of its lineage, and of a filter.
Scope = Literal["session_id", "project_id", "task_id"]


class Where(Frozen):
    """A filter over one agent's memories; every condition given must hold.

    Attributes:
        agent_id: the owner; there is no way to leave it out.
        categories: any of them; None for all.
        namespaces: any of them; None for all.
        tags: all of them present.
        without_tags: none of them present.
        created_since: created at or after.
        created_before: created before.
        expires_by: has an expiry, and it is at or before this time.
        ids: any of them; None for all.
        without_ids: none of them.
        session_id: stored in this session.
        project_id: stored in this project.
        task_id: stored in this task.
        lessons: only lessons that memtend drew (memcore.procedural), or none of them; None for all.
        outside: stored in no session, in no project or in no task, whichever is named.
        token: carries exactly this claim mark.
    """

    agent_id: NotBlankStr
    categories: frozenset[MemoryCategory] | None = None
    namespaces: frozenset[NotBlankStr] | None = None
    tags: tuple[NotBlankStr, ...] = ()
    without_tags: tuple[NotBlankStr, ...] = ()
    created_since: BoundedTime | None = None
    created_before: BoundedTime | None = None
    expires_by: BoundedTime | None = None
    ids: frozenset[NotBlankStr] | None = None
    without_ids: frozenset[NotBlankStr] = frozenset()
    session_id: NotBlankStr | None = None
    project_id: NotBlankStr | None = None
    task_id: NotBlankStr | None = None
    lessons: bool | None = None
    outside: Scope | None = None
    token: NotBlankStr | None = None

    @model_validator(mode="after")
    def _ordered_range(self) -> Self:
        if self.created_since and self.created_before and self.created_since >= self.created_before:
            msg = "created_since must lie before created_before"
            raise ValueError(msg)
        return self

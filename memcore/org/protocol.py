"""The contract of an organisation memory (the reference's OrgMemoryBackend), its log events, and write access."""

import logging
from typing import Any, Protocol, runtime_checkable

from memcore.backends.protocol import Connectable
from memcore.config.organization import WriteAccessConfig
from memcore.errors import OrgMemoryAccessDeniedError
from memcore.models.organization import OrgFact, OrgFactAuthor, OrgFactCategory, OrgFactWriteRequest, OrgMemoryQuery
from memcore.telemetry.events import Event


@runtime_checkable
class OrgMemoryBackend(Connectable, Protocol):
    """Writes and finds what a whole organisation knows; its connection errors are OrgMemoryConnectionErrors."""

    async def query(self, query: OrgMemoryQuery) -> tuple[OrgFact, ...]:
        """Return the facts that match, best first. Raises OrgMemoryQueryError."""
        ...

    async def write(self, request: OrgFactWriteRequest, *, author: OrgFactAuthor) -> str:
        """Write a fact and return its id. Raises OrgMemoryAccessDeniedError, OrgMemoryWriteError."""
        ...

    async def list_policies(self, *, limit: int | None = None, offset: int = 0) -> tuple[OrgFact, ...]:
        """Return core policies: those of the configuration, then those written, oldest first; a limit is 1 or more."""
        ...

    async def count_policies(self) -> int:
        """Return how many core policies there are."""
        ...


_log = logging.getLogger(__name__)


def check_write_access(config: WriteAccessConfig, category: OrgFactCategory, author: OrgFactAuthor) -> bool:
    """Return whether the author may write, revise and retract facts of this category."""
    rule = config.rules.get(category)
    if rule is None:
        return False
    if author.is_human:
        return rule.human_allowed
    least, standing = rule.allowed_seniority, author.seniority
    return least is not None and standing is not None and standing.at_least(least)


def require_write_access(config: WriteAccessConfig, category: OrgFactCategory, author: OrgFactAuthor) -> None:
    """Return when the author may write; else log the attempt and raise OrgMemoryAccessDeniedError."""
    if check_write_access(config, category, author):
        return
    _log.warning(Event.ORG_MEMORY_WRITE_DENIED, extra={"category": category.value, **author_facts(author)})
    rule = config.rules.get(category)
    may = ["people"] if rule is not None and rule.human_allowed else []
    if rule is not None and rule.allowed_seniority is not None:
        may.append(f"agents of seniority {rule.allowed_seniority} or above")
    who = f"only {' and '.join(may)}" if may else "nobody"
    raise OrgMemoryAccessDeniedError(category, f"{category}: by the policy {who} may write")


def author_facts(author: OrgFactAuthor) -> dict[str, Any]:
    """Return the fields of a log event that name an author."""
    return {
        "agent_id": author.agent_id,
        "seniority": author.seniority,
        "is_human": author.is_human,
        "author_name": author.name,
    }

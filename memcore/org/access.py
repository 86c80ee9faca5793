"""Who may write facts of the organisation: people and agents by the rules of the policy, and without a rule nobody."""

import logging
from typing import Any

from memcore.config.write_access import CategoryWriteRule, OrgFactCategory, WriteAccessConfig
from memcore.errors import OrgMemoryAccessDeniedError
from memcore.org.events import OrgEvent
from memcore.org_models import OrgFactAuthor

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
    """Pass when the author may write; else log who tried and raise OrgMemoryAccessDeniedError."""
    if check_write_access(config, category, author):
        return
    _log.warning(OrgEvent.WRITE_DENIED, extra={"category": category.value, **author_facts(author)})
    raise OrgMemoryAccessDeniedError(category, f"{category}: {_who_may(config.rules.get(category))}")


def author_facts(author: OrgFactAuthor) -> dict[str, Any]:
    """Return what a log event says of an author."""
    return {
        "agent_id": author.agent_id,
        "seniority": author.seniority,
        "is_human": author.is_human,
        "author_name": author.name,
    }


def _who_may(rule: CategoryWriteRule | None) -> str:
    people = ["people"] if rule is not None and rule.human_allowed else []
    least = None if rule is None else rule.allowed_seniority
    agents = [] if least is None else [f"agents of seniority {least} or above"]
    return (
        f"by the policy only {' and '.join([*people, *agents])} may write"
        if people or agents
        else ("by the policy nobody may write")
    )

"""How many skills may stand, exactly, whoever approves at the same moment."""

from collections.abc import Collection

from sqlalchemy import Connection, and_, exists, func, not_, select

from memcore.approval_models import ApprovalNeed
from memcore.errors import SkillLimitError
from memcore.ledger.insert import insert_for
from memcore.ledger.learning_tables import skills
from memcore.ledger.ledger_tables import approvals, shared_heads
from memcore.ledger.skill import SkillState


class SkillRoom:
    """Refuse a skill beyond the limit; those that stand count, and those that are approved and still on their way.

    Args:
        limit: most skills that may stand.
        action: the action of the approvals that make skills.
        frees: the skills whose place the new one takes.
    """

    def __init__(self, *, limit: int, action: str, frees: Collection[str]) -> None:
        self._limit = limit
        self._action = action
        self._frees = sorted(frees)

    def require(self, connection: Connection, company: str) -> None:
        """Raise SkillLimitError when one more would be too many."""
        _take_turns(connection, company)
        stand = and_(skills.c.company == company, skills.c.state == str(SkillState.ACTIVE))
        stays = not_(skills.c.skill_id.in_(self._frees))
        has_row = exists().where(skills.c.company == company, skills.c.approval_id == approvals.c.approval_id)
        coming = and_(
            approvals.c.company == company,
            approvals.c.action == self._action,
            approvals.c.needs == str(ApprovalNeed.EFFECT),
            not_(has_row),
        )
        count = select(func.count())
        standing = connection.execute(count.select_from(skills).where(stand, stays)).scalar_one()
        on_their_way = connection.execute(count.select_from(approvals).where(coming)).scalar_one()
        if standing + on_their_way >= self._limit:
            raise SkillLimitError(standing + on_their_way, limit=self._limit)


def _take_turns(connection: Connection, company: str) -> None:
    # The row by which publications take turns: what this decision leads to is one.
    first = insert_for(connection, shared_heads).values(company=company, last=0, head=0)
    connection.execute(first.on_conflict_do_nothing())
    connection.execute(select(shared_heads.c.last).where(shared_heads.c.company == company).with_for_update())

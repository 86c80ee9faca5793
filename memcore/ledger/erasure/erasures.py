"""The rows of erasures: each is a work item, with what was found in each place and the receipt."""

from collections.abc import Mapping
from datetime import datetime

from pydantic import Field
from sqlalchemy import select

from memcore import ids
from memcore.errors import MemoryInputError
from memcore.jobs import ErasePayload
from memcore.ledger.database import Row, checked_key, equals, insert_one
from memcore.ledger.organization import audit
from memcore.ledger.organization.audit import Confirmation
from memcore.ledger.tables import OPEN_WORK, erasures, work_items
from memcore.ledger.work_items import Work, WorkRecord, WorkState, add_items, new_item
from memcore.models.memory import BoundedTime, require_agent_id

#: Most erasures of a page.
MAX_PAGE = 256


class Erasure(WorkRecord):
    """An erasure.

    Attributes:
        subject: the person of the agent's conversations whose memory goes; None for all of the agent.
        requested_by: who asked for it.
        found: rows, points, files or messages that were found in each place; what it finds is removed.
        receipt: the signed receipt, as JSON; None until nothing is left.
        reason: why it waits, or failed.
    """

    erasure_id: str
    company: str
    agent_id: str
    subject: str | None = None
    requested_by: str
    requested_at: BoundedTime
    found: dict[str, int] = Field(default_factory=dict)
    receipt: str | None = Field(default=None, repr=False)
    state: WorkState = WorkState.AVAILABLE
    reason: str | None = None
    finished_at: BoundedTime | None = None


class Erasures(Work[Erasure]):
    """The erasures table and its work items."""

    _kind = ErasePayload.task
    _table = erasures
    _model = Erasure

    def request(
        self,
        company: str,
        agent_id: str,
        *,
        confirmation: Confirmation,
        subject: str | None = None,
        retire_checkpoints: bool = False,
    ) -> Erasure:
        """Queue an erasure, with its line of the audit, and return it; one that has not ended is returned as it is.

        Raises MemoryInputError, also for an owner that is no agent, such as that of shared knowledge, and where one
        that has not ended was asked for without ``retire_checkpoints``.
        """
        now, key = self._clock(), ids.new_id()
        name = checked_key("agent_id", require_agent_id(agent_id))
        lock = f"erase/{len(name)}/{name}/{'' if subject is None else checked_key('subject', subject)}"
        own: Row = {
            "company": checked_key("company", company),
            "erasure_id": key,
            "agent_id": name,
            "subject": subject,
            "requested_by": confirmation.actor,
            "requested_at": now,
            "found": {},
        }
        payload = ErasePayload(company=company, agent_id=name, erasure_id=key, retire_checkpoints=retire_checkpoints)
        item = new_item(self._name(company, key), payload, now=now, agent_id=name, lock=lock)
        with self._database.write() as connection:
            if add_items(connection, [item]):
                insert_one(connection, erasures, own)
                action = "erase.agent" if subject is None else "erase.subject"
                audit.append(connection, company, confirmation.note(action, name), at=now)
                return self._in(connection, company, key)
            mine = equals(work_items, company=company, kind=self._kind, lock=lock)
            going_on = connection.execute(select(work_items.c.key, work_items.c.payload).where(mine, OPEN_WORK)).one()
            if retire_checkpoints and not ErasePayload.model_validate_json(going_on.payload).retire_checkpoints:
                raise MemoryInputError("retire_checkpoints", "one without it goes on: ask again when it is done")
            return self._in(connection, company, going_on.key)

    def note(self, company: str, erasure_id: str, token: str, found: Mapping[str, int]) -> Erasure:
        """Save what was found in places; raises LeaseLostError.

        Of two counts of a place the larger one counts: the second is of what a crash left behind.
        """
        with self._database.write() as connection:
            mine = equals(erasures, company=company, erasure_id=erasure_id)
            before = connection.execute(select(erasures.c.found).where(mine)).scalar_one_or_none() or {}
            merged = before | {place: max(count, before.get(place, 0)) for place, count in found.items()}
            return self._leased_in(connection, company, erasure_id, token, "renew", own={"found": merged})

    def finish(self, company: str, erasure_id: str, token: str, *, receipt: str, at: datetime) -> Erasure:
        """End an erasure with its receipt, and add it to the audit. Raises LeaseLostError."""
        with self._database.write() as connection:
            done = self._leased_in(connection, company, erasure_id, token, "finish", own={"receipt": receipt})
            note = Confirmation(actor=done.requested_by, confirm=True, reason=f"receipt {erasure_id}").note(
                "erase.done", done.agent_id
            )
            audit.append(connection, company, note, at=at)
            return done

    def page(self, company: str, *, agent_id: str | None = None, limit: int = MAX_PAGE) -> tuple[Erasure, ...]:
        """Return at most 256 erasures of a company or of one agent, newest first."""
        which = (
            equals(erasures, company=company)
            if agent_id is None
            else equals(erasures, company=company, agent_id=agent_id)
        )
        query = self._rows().where(which).order_by(erasures.c.requested_at.desc(), erasures.c.erasure_id)
        return self._all(query.limit(min(limit, MAX_PAGE)))

    def barred(self, company: str) -> frozenset[str]:
        """Return the agents that are being erased as a whole: nothing is written for them meanwhile."""
        return self._database.remembered(("barred", company), lambda: self._barred(company))

    def _barred(self, company: str) -> frozenset[str]:
        its = (erasures.c.company == work_items.c.company) & (erasures.c.erasure_id == work_items.c.key)
        query = (
            select(erasures.c.agent_id)
            .join(work_items, its & (work_items.c.kind == self._kind))
            .where(erasures.c.company == company, erasures.c.subject.is_(None), OPEN_WORK)
        )
        return frozenset(row["agent_id"] for row in self._database.rows(query))

"""The rows of erasures, each a work item with what was found and the receipt, and the key that signs receipts."""

import hashlib
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pydantic import Field
from sqlalchemy import exists, or_, select, update

from memcore import ids
from memcore.errors import MemoryInputError
from memcore.jobs import ErasePayload
from memcore.ledger.database import Repository, Row, checked_key, equals, insert_one, record_of
from memcore.ledger.erasure.decisions import ErasureTarget
from memcore.ledger.organization import audit
from memcore.ledger.organization.audit import Confirmation
from memcore.ledger.tables import ERASE_WORK, OPEN_WORK, erasures, signing_keys, work_items
from memcore.ledger.work_items import OPEN_STATES, Work, WorkRecord, WorkState, add_items, is_item, move, new_item
from memcore.models.memory import BoundedTime, require_agent_id

#: Most erasures of a page.
MAX_PAGE = 256

#: The name of the key that signs, and its length in bytes.
_SIGNING, _KEY_BYTES = "erasure", 32

#: How long writers are told of an erasure that has ended: longer than clocks of two machines differ.
_LATELY = timedelta(hours=1)


class AgentErasure(ErasureTarget):
    """What a writer is told of an erasure of its agent that is open, or ended lately."""

    erasure_id: str
    requested_at: BoundedTime
    state: WorkState
    finished_at: BoundedTime | None

    @property
    def is_open(self) -> bool:
        """Whether it goes on."""
        return self.state in OPEN_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedWrite:
    """A write that has begun, and the erasures of its agents that were open, or had ended lately, by their ids."""

    company: str
    agents: frozenset[str]
    since: datetime
    known: Mapping[str, AgentErasure] = field(default_factory=dict)

    @property
    def barred(self) -> frozenset[str]:
        """The agents that are being erased as a whole: nothing is written for them meanwhile."""
        return frozenset(each.agent_id for each in self.known.values() if each.subject is None and each.is_open)

    @property
    def erased_people(self) -> frozenset[str]:
        """The people of these agents who are being erased."""
        return frozenset(each.subject for each in self.known.values() if each.subject is not None and each.is_open)

    def whole(self, agent_id: str) -> frozenset[str]:
        """Return the erasures of all of an agent."""
        return frozenset(key for key, each in self.known.items() if each.agent_id == agent_id and each.subject is None)

    def is_outlived(self, agent_id: str, sent_at: datetime) -> bool:
        """Whether the agent was erased as a whole since something was sent: a late redelivery of it stays away."""
        return any(sent_at <= self.known[key].requested_at for key in self.whole(agent_id))


class Erasure(WorkRecord):
    """An erasure.

    Attributes:
        subject: the person of the agent's conversations whose memory goes; None for all of the agent.
        requested_by: who asked for it.
        found: rows, points, files or messages that were found in each place; what it finds is removed.
        receipt: the signed receipt, as JSON; None until nothing is left.
        late_writes: writes that have ended since another look was due.
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
    late_writes: int = 0
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
            if (
                retire_checkpoints
                and not ErasePayload.model_validate_json(going_on.payload, extra="ignore").retire_checkpoints
            ):
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

    def finish(
        self, company: str, erasure_id: str, token: str, *, receipt: str, at: datetime, late_writes: int
    ) -> Erasure | None:
        """End an erasure with its receipt, and add it to the audit; None where a write has ended since the last look.

        ``late_writes`` is the count of before that look. Raises LeaseLostError.
        """
        its = equals(erasures, company=company, erasure_id=erasure_id)
        with self._database.write() as connection:
            # First, as a late writer does: of both, the one that comes second sees what the first one did.
            unchanged = update(erasures).where(its, erasures.c.late_writes == late_writes)
            if not connection.execute(unchanged.values(receipt=receipt)).rowcount:
                return None
            done = self._leased_in(connection, company, erasure_id, token, "finish", own=None)
            note = Confirmation(actor=done.requested_by, confirm=True, reason=f"receipt {erasure_id}").note(
                "erase.done", done.agent_id
            )
            audit.append(connection, company, note, at=at)
            return done

    def overdue(self, *, before: datetime) -> tuple[Erasure, ...]:
        """Return the erasures of all companies that are open since before a time, or have failed, oldest first.

        One that looks again because of a late write is open since then. One that failed is done with once a later one
        of the same agent, and of the same person or of everything, has its receipt.
        """
        later = erasures.alias()
        done_later = exists().where(
            later.c.company == erasures.c.company,
            later.c.agent_id == erasures.c.agent_id,
            later.c.requested_at > erasures.c.requested_at,
            later.c.receipt.is_not(None),
            or_(later.c.subject.is_(None), later.c.subject == erasures.c.subject),
        )
        has_failed = (work_items.c.state == WorkState.FAILED.value) & ~done_later
        is_overdue = (OPEN_WORK & (work_items.c.created_at < before)) | has_failed
        query = self._rows().where(ERASE_WORK, is_overdue).order_by(erasures.c.requested_at, erasures.c.erasure_id)
        return self._all(query.limit(MAX_PAGE))

    def watch(self, company: str, agent_ids: Collection[str]) -> WatchedWrite:
        """Return what a write for these agents must know when it begins; :meth:`end_write` takes it behind its end."""
        agents, since = frozenset(agent_ids), self._clock() - _LATELY
        return WatchedWrite(
            company=company, agents=agents, since=since, known=self._of_agents(company, agents, since=since)
        )

    def late(self, write: WatchedWrite) -> tuple[AgentErasure, ...]:
        """Return the erasures that did not end before a write began, and may have looked before it ended."""
        found = self._of_agents(write.company, write.agents, since=write.since)
        return tuple(
            each
            for key, each in found.items()
            # One that waits looks at everything when it goes on.
            if each.state is WorkState.LEASED or (each.finished_at is not None and each != write.known.get(key))
        )

    def end_write(self, write: WatchedWrite, concerns: Callable[[AgentErasure], bool] = lambda _: True) -> None:
        """Let erasures look once more that may not have seen what was written; call it behind an error, too."""
        late = [each.erasure_id for each in self.late(write) if concerns(each)]
        if late:
            self.ask_again(write.company, late)

    def ask_again(self, company: str, erasure_ids: Iterable[str]) -> tuple[str, ...]:
        """Let erasures look once more, because of a write that ended behind them; return those that had ended.

        Their receipts are void. One that has ended, and whose agent or person is being erased anew, stays as it is.
        """
        now, again = self._clock(), list[str]()
        with self._database.write() as connection:
            for erasure_id in sorted(erasure_ids):
                its, name = equals(erasures, company=company, erasure_id=erasure_id), self._name(company, erasure_id)
                connection.execute(update(erasures).where(its).values(late_writes=erasures.c.late_writes + 1))
                lock = select(work_items.c.lock).where(is_item(name)).scalar_subquery()
                is_held = select(work_items.c.key).where(work_items.c.company == company, OPEN_WORK)
                if connection.execute(is_held.where(work_items.c.lock == lock)).first() is not None:
                    continue
                values = {"attempt": 0, "reason": "a write ended behind it", "created_at": now, "dispatch_after": now}
                if move(connection, "replay", is_item(name), now=now, **values):
                    connection.execute(update(erasures).where(its).values(receipt=None))
                    again.append(erasure_id)
        return tuple(again)

    def _of_agents(self, company: str, agents: frozenset[str], *, since: datetime) -> dict[str, AgentErasure]:
        def read() -> tuple[AgentErasure, ...]:
            items = work_items.c
            shown = [erasures.c[name] for name in ("company", "erasure_id", "agent_id", "subject", "requested_at")]
            its = (erasures.c.company == items.company) & (erasures.c.erasure_id == items.key)
            query = (
                select(*shown, items.state, items.finished_at)
                .join(erasures, its)
                .where(ERASE_WORK, items.company == company, items.agent_id.in_(sorted(agents)))
                .where(or_(items.finished_at.is_(None), items.finished_at >= since))
            )
            return tuple(record_of(AgentErasure, row) for row in self._database.rows(query))

        # What is remembered of an earlier write has more of what ended before.
        found = self._database.remembered(("erasures", company, agents), read)
        return {each.erasure_id: each for each in found}

    def page(self, company: str, *, agent_id: str | None = None, limit: int = MAX_PAGE) -> tuple[Erasure, ...]:
        """Return at most 256 erasures of a company or of one agent, newest first."""
        which = (
            equals(erasures, company=company)
            if agent_id is None
            else equals(erasures, company=company, agent_id=agent_id)
        )
        query = self._rows().where(which).order_by(erasures.c.requested_at.desc(), erasures.c.erasure_id)
        return self._all(query.limit(min(limit, MAX_PAGE)))


class SigningKeys(Repository):
    """The signing_keys table: one key signs receipts; those that earlier releases kept in files verify theirs."""

    def signing(self, *, older: bytes | None = None) -> bytes:
        """Return the key that signs, made when first needed; ``older``, of an earlier release's file, is taken over."""
        with self._database.write() as connection:
            for name, secret in ((_SIGNING, older or secrets.token_bytes(_KEY_BYTES)), (_older(older), older)):
                if name is not None and secret is not None:
                    row: Row = {"name": name, "secret": secret.hex(), "made_at": self._clock()}
                    insert_one(connection, signing_keys, row)
            query = select(signing_keys.c.secret).where(signing_keys.c.name == _SIGNING)
            return bytes.fromhex(connection.execute(query).scalar_one())

    def all(self) -> tuple[bytes, ...]:
        """Return all keys with which receipts were signed."""
        rows = self._database.rows(select(signing_keys.c.secret).distinct())
        return tuple(bytes.fromhex(row["secret"]) for row in rows)


def _older(key: bytes | None) -> str | None:
    # Of several machines, each may have had a file of its own.
    return None if key is None else f"{_SIGNING}-{hashlib.sha256(key).hexdigest()[:16]}"

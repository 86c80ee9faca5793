"""The companies that an installation serves: their state, which is the kill switch of all their agents, and policy."""

import logging
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import Field, field_serializer
from sqlalchemy import case, select, update

from memcore.config.llm import without_header_values
from memcore.config.loader import build_policy, read_document
from memcore.config.policy import Policy
from memcore.config.settings import Settings, checked_company
from memcore.errors import MemoryConfigError, MemoryInputError, MemoryNotFoundError
from memcore.ledger.database import Records, Row, checked_key, insert_one, record_of
from memcore.ledger.tables import companies
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime, ConsolidationInterval
from memcore.telemetry.events import Event

_log = logging.getLogger("memtend.jobs")


class CompanyState(StrEnum):
    """Whether a company's maintenance runs."""

    #: Its jobs and its maintenance run.
    ACTIVE = "active"
    #: Its memories are stored and found; no maintenance runs.
    PAUSED = "paused"
    #: It is served no more, and everything of it stays where it is.
    REMOVED = "removed"


class Company(Frozen):
    """A company's row.

    Attributes:
        policy: what its policy says otherwise than the installation's; None where that is in force.
        interval: its own policy's interval as the last tick read it; None follows the installation's.
    """

    company: str
    state: CompanyState
    policy: dict[str, Any] | None = Field(default=None, repr=False)
    interval: ConsolidationInterval | None = None
    created_at: BoundedTime
    changed_at: BoundedTime

    @property
    def shown_policy(self) -> dict[str, Any] | None:
        """Its policy without the values of headers, which may be secrets."""
        return None if self.policy is None else without_header_values(self.policy)

    @field_serializer("policy")
    def _without_secrets(self, _policy: dict[str, Any] | None) -> dict[str, Any] | None:
        return self.shown_policy


class Companies(Records[Company]):
    """The companies table; the state is read anew on every call."""

    _table = companies
    _model = Company

    def register(self, company: str) -> None:
        """Insert the company if it has no row; one that is paused or removed stays so."""
        with self._database.write() as connection:
            insert_one(connection, companies, self._row(company, CompanyState.ACTIVE))

    def add(self, company: str, *, policy: dict[str, Any] | None = None) -> Company:
        """Register the company, or bring back a removed one; a policy that is given takes the place of its own.

        Raises:
            MemoryInputError: the name cannot be part of a collection's name.
        """
        row = self._row(checked_company(company), CompanyState.ACTIVE)
        removed = companies.c.state == CompanyState.REMOVED
        changes: Row = {
            "state": case((removed, str(CompanyState.ACTIVE)), else_=companies.c.state),
            "changed_at": row["changed_at"],
            **({} if policy is None else {"policy": policy}),
        }
        with self._database.write() as connection:
            insert_one(connection, companies, row)
            query = update(companies).where(companies.c.company == company).values(changes)
            return record_of(Company, connection.execute(query.returning(companies)).mappings().one())

    def get(self, company: str) -> Company | None:
        """Return the company's row; None when it is not registered."""
        return self._one(select(companies).where(companies.c.company == company))

    def known(self, company: str) -> Company:
        """Return the row of a registered company; else MemoryNotFoundError."""
        if (row := self.get(company)) is None:
            raise MemoryNotFoundError(f"company: {company!r} is not registered; see `memtend companies list`")
        return row

    def served(self, company: str) -> Company:
        """Return the row of a company that is registered and not removed; else MemoryNotFoundError."""
        row = self.known(company)
        if row.state is CompanyState.REMOVED:
            raise MemoryNotFoundError(f"company: {company!r} is removed; `memtend companies add` brings it back")
        return row

    def list(
        self, *, after: str | None = None, limit: int = 1000, state: CompanyState | None = None
    ) -> tuple[Company, ...]:
        """Return the companies in the order of their names; ``after`` is the last name of the page before."""
        query = select(companies).order_by(companies.c.company).limit(limit)
        if after is not None:
            query = query.where(companies.c.company > after)
        if state is not None:
            query = query.where(companies.c.state == state)
        return self._all(query)

    def all(self) -> tuple[Company, ...]:
        """Return every company, in the order of their names."""
        return self._all(select(companies).order_by(companies.c.company))

    def note_intervals(self, intervals: Mapping[str, ConsolidationInterval | None]) -> None:
        """Save the intervals of companies' own policies, so that one query finds whose agents are due."""
        with self._database.write() as connection:
            for company, interval in sorted(intervals.items()):
                connection.execute(update(companies).where(companies.c.company == company).values(interval=interval))

    def paused(self, company: str) -> bool:
        """Return whether the company's maintenance must not run; an unreadable row raises, and then nothing may."""
        state = self._database.value(select(companies.c.state).where(companies.c.company == company))
        return state not in {None, CompanyState.ACTIVE}

    def pause(self, company: str) -> None:
        """Pause the maintenance of a company; runs under way stop before their next removal.

        A company without a row gets one: a pause must not fail for lack of it. MemoryNotFoundError when it is removed.
        """
        self._set(company, CompanyState.PAUSED)

    def resume(self, company: str) -> None:
        """Resume the maintenance of a company; MemoryNotFoundError when it is removed."""
        self._set(company, CompanyState.ACTIVE)

    def remove(self, company: str) -> None:
        """Mark the company as removed: nothing serves it any more, and nothing of it is deleted.

        Raises MemoryNotFoundError when it is not registered.
        """
        if not self._update(companies.c.company == company, self._state(CompanyState.REMOVED)):
            raise MemoryNotFoundError(f"company: {company!r} is not registered; see `memtend companies list`")

    def _set(self, company: str, state: CompanyState) -> None:
        row = self._row(company, state)
        kept = (companies.c.company == company) & (companies.c.state != CompanyState.REMOVED)
        with self._database.write() as connection:
            if insert_one(connection, companies, row):
                return
            if connection.execute(update(companies).where(kept).values(self._state(state))).rowcount:
                return
        raise MemoryNotFoundError(f"company: {company!r} is removed; `memtend companies add` brings it back")

    def _row(self, company: str, state: CompanyState) -> Row:
        values = self._state(state)
        return {"company": checked_key("company", company), "created_at": values["changed_at"], **values}

    def _state(self, state: CompanyState) -> Row:
        return {"state": str(state), "changed_at": self._clock()}


class CompanyPolicies:
    """The settings and the policy of each company, read again when its file or its row has changed.

    A company's own policy is the file ``policies/NAME.yaml`` beside the installation's policy file, or else the policy
    of its row. What that leaves out is as in the installation's policy.
    """

    def __init__(self, settings: Settings, policy: Policy) -> None:
        #: The installation's.
        self.policy = policy
        self._settings = settings
        self._folder = (settings.home if settings.policy_path is None else settings.policy_path.parent) / "policies"
        # What each was made from, and what it became. Two threads that miss at once both read: that harms nothing.
        self._known: dict[str, tuple[_Source, Settings, Policy]] = {}

    def of(self, company: Company) -> tuple[Settings, Policy]:
        """Return the company's settings and policy; MemoryConfigError names the company whose policy is wrong."""
        source = self._source(company)
        known = self._known.get(company.company)
        if known is None or known[0] != source:
            settings = self._settings.model_copy(update={"company": company.company})
            known = self._known[company.company] = source, settings, self._read(company, source)
        return known[1:]

    def served(self, rows: Companies) -> list[tuple[Company, Policy]]:
        """Return the companies that are not removed, with their policies; one whose policy is wrong is left out.

        The interval of a company's own policy is saved in its row, where :meth:`Agents.due` finds it.
        """
        found, changed = list[tuple[Company, Policy]](), {}
        for company in _unremoved(rows, self._settings.company):
            try:
                _, policy = self.of(company)
            except MemoryConfigError as error:
                about = {"company": company.company, "reason": str(error)}
                _log.error(Event.SCHEDULER_COMPANY_LEFT_OUT, extra=about)  # its sentence says what to change
                continue
            found.append((company, policy))
            interval = None if policy is self.policy else policy.memory.consolidation.interval
            if interval is not company.interval:
                changed[company.company] = interval
        if changed:  # most calls find none, and take no lock
            rows.note_intervals(changed)
        return found

    def _source(self, company: Company) -> "_Source":
        try:
            # Only a name that is safe in a path reaches the file system, whatever a row or a message says.
            found = os.stat(self._file(checked_company(company.company)))  # noqa: PTH116  # a tick asks for every one
        except (FileNotFoundError, NotADirectoryError, MemoryInputError):
            return None, company.policy
        except OSError as error:
            # Not known is not absent: under another policy memories could leave that must stay.
            raise MemoryConfigError(
                f"company {company.company}: its policy cannot be read ({error.strerror})"
            ) from None
        return (found.st_mtime_ns, found.st_size, found.st_ino), company.policy

    def _read(self, company: Company, source: "_Source") -> Policy:
        file, document = source
        if file is None and document is None:
            return self.policy
        try:
            given = (document or {}) if file is None else read_document(Path(self._file(company.company)))
            return build_policy(given, base=self.policy)
        except MemoryConfigError as error:
            raise MemoryConfigError(f"company {company.company}: {error}") from None

    def _file(self, company: str) -> str:
        return f"{self._folder}/{company}.yaml"


def _unremoved(rows: Companies, own: str) -> list[Company]:
    found = rows.all()
    if all(company.company != own for company in found):
        # The installation's own, where nobody has migrated since it was named.
        rows.register(own)
        return _unremoved(rows, own)
    return [company for company in found if company.state is not CompanyState.REMOVED]


#: What a policy was read from: the state of the file, None where there is none, and the row's document.
_Source = tuple[tuple[int, int, int] | None, dict[str, Any] | None]

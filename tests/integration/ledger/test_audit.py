"""What was refused and what people did is on record, on each database."""

import logging
from datetime import timedelta

import pytest
from sqlalchemy import create_engine, text
from support.ledger_records import COMPANY, StoppedClock
from support.organization_facts import GRACE, agent, request
from support.proposals import ADA, proposal

from memcore.config.organization import OrgMemoryConfig
from memcore.config.urls import LedgerUrls
from memcore.errors import ApprovalClosedError, MemoryInputError, OrgMemoryAccessDeniedError
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import AuditLine, AuditNote, AuditVerdict, person
from memcore.ledger.organization.audit import agent as named_agent
from memcore.models.approval import ApprovalNeed, ApprovalState
from memcore.models.organization import OrgFactCategory, SeniorityLevel
from memcore.org.service import LedgerOrgMemory

POLICY = OrgFactCategory.CORE_POLICY
SECOND = timedelta(seconds=1)


async def connected(ledger: Ledger) -> LedgerOrgMemory:
    memory = LedgerOrgMemory(ledger.org, OrgMemoryConfig(), company=COMPANY)
    await memory.connect()
    return memory


def columns(line: AuditLine) -> tuple[str, str, str | None, str]:
    return line.actor, line.action, line.subject, str(line.verdict)


async def test_denied_writes_raise_a_typed_error_write_nothing_and_are_audited(
    ledger: Ledger, clock: StoppedClock
) -> None:
    memory = await connected(ledger)
    policy_id = await memory.write(request("tea at four", category=POLICY), author=GRACE)
    log, facts = ledger.org.newest(COMPANY), ledger.org.facts(COMPANY)
    waiting = ledger.org.pending(COMPANY)
    boss, junior = agent(SeniorityLevel.C_SUITE, agent_id="boss"), agent(SeniorityLevel.JUNIOR, agent_id="kid")
    for attempt in (
        lambda: memory.write(request("a secret text", category=POLICY), author=boss),
        lambda: memory.write(request("a secret text", category=POLICY), author=boss, fact_id=policy_id),
        lambda: memory.retract(policy_id, author=boss),
        lambda: memory.write(request("a secret text"), author=junior),
    ):
        clock.advance(SECOND)
        with pytest.raises(OrgMemoryAccessDeniedError):
            await attempt()

    assert (ledger.org.newest(COMPANY), ledger.org.facts(COMPANY)) == (log, facts)
    assert ledger.org.pending(COMPANY) == waiting
    denied = [line for line in ledger.audit.page(COMPANY) if line.verdict is AuditVerdict.DENIED]
    assert [columns(line) for line in denied] == [
        ("agent:kid", "org.write", None, "denied"),
        ("agent:boss", "org.retract", policy_id, "denied"),
        ("agent:boss", "org.write", policy_id, "denied"),
        ("agent:boss", "org.write", None, "denied"),
    ]
    assert denied[0].reason == "convention: by the policy only people and agents of seniority senior or above may write"
    assert denied[1].reason == "core_policy: by the policy only people may write"
    assert denied[0].at == clock()
    assert "secret" not in str(denied)


async def test_a_refusal_stands_when_it_cannot_be_audited(
    ledger: Ledger, urls: LedgerUrls, caplog: pytest.LogCaptureFixture
) -> None:
    memory = await connected(ledger)
    engine = create_engine(urls.ledger)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE audit RENAME TO audit_away"))
    try:
        with pytest.raises(OrgMemoryAccessDeniedError):
            await memory.write(request("a secret text", category=POLICY), author=agent())
    finally:
        with engine.begin() as connection:
            connection.execute(text("ALTER TABLE audit_away RENAME TO audit"))
        engine.dispose()
    assert ledger.org.newest(COMPANY) == ()
    events = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert events == ["org_memory.write.denied", "org_memory.audit.failed"]


def test_what_people_write_and_decide_is_noted_with_it_and_agents_work_is_not(
    ledger: Ledger, clock: StoppedClock
) -> None:
    ledger.org.publish(COMPANY, "tea", request("tea at four"), author=GRACE)
    ledger.org.publish(COMPANY, "tea", request("tea at five"), author=agent())
    clock.advance(SECOND)
    ledger.org.retract(COMPANY, "tea", author=GRACE)
    for name in ("one", "two"):
        ledger.approvals.file(COMPANY, name, proposal("text"), lasts=timedelta(days=1))
    clock.advance(SECOND)
    ledger.approvals.decide(COMPANY, "one", ApprovalState.APPROVED, ADA)
    clock.advance(SECOND)
    ledger.approvals.decide(COMPANY, "two", ApprovalState.REJECTED, ADA)
    for name in ("one", "two"):
        with pytest.raises(ApprovalClosedError):
            ledger.approvals.decide(COMPANY, name, ApprovalState.APPROVED, ADA)
    ledger.approvals.settle(COMPANY, "one", ApprovalNeed.EFFECT, effect="x")
    clock.advance(SECOND)
    ledger.approvals.undo(COMPANY, "one", ADA)
    assert [columns(line) for line in ledger.audit.page(COMPANY)] == [
        (person(ADA.by), "approval.undone", "one", "done"),
        (person(ADA.by), "approval.rejected", "two", "done"),
        (person(ADA.by), "approval.approved", "one", "done"),
        ("person:Grace", "org.retract", "tea", "done"),
        ("person:Grace", "org.write", "tea", "done"),
    ]
    assert ledger.audit.page(COMPANY)[0].reason == ADA.reason


def test_lines_come_in_pages_and_by_actor_and_action(ledger: Ledger, clock: StoppedClock) -> None:
    for number in range(7):
        actor = person("ada") if number % 2 else named_agent("ada")
        note = AuditNote(actor=actor, action=f"act.{number % 3}", subject=str(number), verdict=AuditVerdict.DONE)
        ledger.audit.note(COMPANY, note)
        clock.advance(SECOND * (number % 2))
    every = ledger.audit.page(COMPANY)
    assert sorted(line.subject or "" for line in every) == [str(number) for number in range(7)]
    assert list(every) == sorted(every, key=lambda line: (line.at, line.audit_id), reverse=True)
    paged: list[AuditLine] = []
    while page := ledger.audit.page(COMPANY, before=paged[-1] if paged else None, limit=2):
        paged += page
    assert tuple(paged) == every
    assert len(ledger.audit.page(COMPANY, actor="ada")) == 7
    assert {line.subject for line in ledger.audit.page(COMPANY, actor="agent:ada")} == {"0", "2", "4", "6"}
    assert {line.subject for line in ledger.audit.page(COMPANY, actor="person:ada", action="act.0")} == {"3"}
    assert ledger.audit.page(COMPANY, actor="eve") == ()
    with pytest.raises(MemoryInputError, match="company"):
        ledger.audit.note(" ", AuditNote(actor="x", action="y", verdict=AuditVerdict.DONE))

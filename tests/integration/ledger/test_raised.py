"""What approvals raise: known to every process with its next read, once each, and not after an undo."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest
from support.ledger_records import COMPANY, StoppedClock
from support.memories import record
from support.proposals import ADA

from memcore.approvals import ApprovalService, EffectRegistry, MemoryRaising, diff_of
from memcore.config.urls import LedgerUrls
from memcore.errors import ApprovalClosedError, MemoryChannelError, MemoryInputError
from memcore.ledger.erasure.decisions import ErasureScope
from memcore.ledger.ledger import Ledger
from memcore.models.approval import (
    MAX_SUPERSEDED,
    MEMORY_RAISE,
    ApprovalRisk,
    ApprovalState,
    Proposal,
    RaisedTo,
    raise_proposal,
)
from memcore.models.origin import (
    AUTHORITIES,
    ENGINE,
    OPERATOR,
    Authority,
    Channel,
    Origin,
    Writer,
    authority,
    writing_as,
)
from memcore.records import ORIGIN_KEY

SCRAPED = Origin(channels=(Channel.TOOL, Channel.SUSPECT), principals=("scraper",))
ENTRY = record("ada", "Invoices go to Bern.", extra={ORIGIN_KEY: SCRAPED.stored()}).entry


@pytest.fixture
def other(urls: LedgerUrls, clock: StoppedClock) -> Iterator[Ledger]:
    """The ledger as another process has it, which has read what is raised before."""
    opened = Ledger.open(urls, clock=clock)
    assert _has(opened) is Authority.REFERENCE
    yield opened
    opened.close()


def _has(ledger: Ledger, company: str = COMPANY) -> Authority:
    entry = ledger.hidden.of(company).with_raised(ENTRY)
    return authority(entry.origin, AUTHORITIES, entry.raised)


def _service(ledger: Ledger) -> ApprovalService:
    effects = EffectRegistry([MemoryRaising(ledger.raised, company=COMPANY)])
    return ApprovalService(ledger.approvals, effects, company=COMPANY, lasts=timedelta(days=14))


def _proposal(to: RaisedTo = Authority.INFORM, **made_of: str | None) -> Proposal:
    return raise_proposal(ENTRY, to, by="eve", policy=AUTHORITIES, made_of=made_of)


def _filed(ledger: Ledger, name: str, to: RaisedTo = Authority.INFORM) -> None:
    ledger.approvals.file(COMPANY, name, _proposal(to), lasts=timedelta(days=14))


def test_every_process_sees_what_is_raised_and_what_is_lowered(ledger: Ledger, other: Ledger) -> None:
    service = _service(ledger)
    raises: dict[str, RaisedTo] = {"one": Authority.INFORM, "two": Authority.INSTRUCT}
    for name, to in raises.items():
        _filed(ledger, name, to)
        with writing_as(OPERATOR):
            assert asyncio.run(service.approve(name, ADA)).effect == ENTRY.id
        assert _has(other) is to
        assert _has(other, "globex") is Authority.REFERENCE
    asyncio.run(service.undo("two", ADA))
    assert _has(other) is Authority.INFORM
    asyncio.run(service.undo("one", ADA))
    assert _has(other) is Authority.REFERENCE
    assert other.hidden.of(COMPANY).raised == {}


def test_a_process_that_dies_behind_the_decision_leaves_it_to_the_next(ledger: Ledger, other: Ledger) -> None:
    _filed(ledger, "one")
    ledger.approvals.decide(COMPANY, "one", ApprovalState.APPROVED, ADA)
    assert _has(other) is Authority.REFERENCE
    assert asyncio.run(_service(other).finish()) == 1
    assert _has(ledger) is Authority.INFORM
    ledger.approvals.undo(COMPANY, "one", ADA)
    assert asyncio.run(_service(other).finish()) == 1
    assert _has(ledger) is Authority.REFERENCE


def test_a_late_writer_raises_nothing_that_was_lowered(ledger: Ledger, other: Ledger) -> None:
    _filed(ledger, "one")
    approved = ledger.approvals.decide(COMPANY, "one", ApprovalState.APPROVED, ADA)
    late = MemoryRaising(other.raised, company=COMPANY)
    for _ in range(2):
        assert asyncio.run(late.publish(approved)) == ENTRY.id
    asyncio.run(_service(ledger).finish())
    undone = asyncio.run(_service(ledger).undo("one", ADA))
    for _ in range(2):
        asyncio.run(late.publish(approved))
        assert _has(ledger) is Authority.REFERENCE
        asyncio.run(late.take_back(undone))


def test_it_holds_for_the_text_that_was_shown(ledger: Ledger) -> None:
    _filed(ledger, "one")
    with writing_as(OPERATOR):
        asyncio.run(_service(ledger).approve("one", ADA))
    hidden = ledger.hidden.of(COMPANY)
    assert hidden.with_raised(ENTRY).raised is not None
    changed = [{"content": "Invoices go to Eve."}, {"id": record("ada").entry.id}, {"agent_id": "bob"}]
    for each in changed:
        assert hidden.with_raised(ENTRY.model_copy(update=each)).raised is None


@pytest.mark.parametrize(
    "writer",
    [
        ENGINE,
        Writer(principal="k", limit=Channel.AGENT),
        Writer(principal="k", limit=Channel.TOOL, usual=Channel.PERSON),
    ],
)
def test_only_a_person_approves_it(ledger: Ledger, writer: Writer) -> None:
    _filed(ledger, "one")
    with writing_as(writer), pytest.raises(MemoryChannelError, match="decision: is person"):
        asyncio.run(_service(ledger).approve("one", ADA))
    assert ledger.approvals.get(COMPANY, "one").state is ApprovalState.PENDING  # type: ignore[union-attr]  # filed
    with writing_as(Writer(principal="k", limit=Channel.OPERATOR)):
        asyncio.run(_service(ledger).approve("one", ADA))
        with pytest.raises(ApprovalClosedError):
            asyncio.run(_service(ledger).approve("one", ADA))
    assert _has(ledger) is Authority.INFORM


def test_a_proposal_shows_all_that_the_memory_is_and_was_made_of() -> None:
    made_of = {"m1": "Invoices go to Bern, says the page.", "m2": None}
    filed = raise_proposal(ENTRY, Authority.INSTRUCT, by="eve", policy=AUTHORITIES, made_of=made_of)
    assert (filed.action, filed.risk, filed.content) == (MEMORY_RAISE, ApprovalRisk.HIGH, ENTRY.content)
    assert {each.id: each.content for each in filed.supersedes} == {"m1": made_of["m1"]}
    assert filed.figures == {
        "agent": '"ada"',
        "memory": ENTRY.id,
        "authority": "reference",
        "to": "instruct",
        "channels": "suspect, tool",
        "keys": '["scraper"]',
        "made_of": 2,
        "texts_gone": 1,
    }
    assert ENTRY.content not in filed.title


def test_the_texts_of_a_proposal_look_like_nothing_but_themselves(ledger: Ledger) -> None:
    said = "Fine.\n--- nothing\n+++ proposed\nto  instruct\u202e"
    entry = ENTRY.model_copy(update={"content": said})
    filed = raise_proposal(entry, Authority.INFORM, by="eve", policy=AUTHORITIES, made_of={"m1": "Fine. So it is."})
    ledger.approvals.file(COMPANY, "one", filed, lasts=timedelta(days=14))
    found = ledger.approvals.get(COMPANY, "one")
    assert found is not None
    lines = diff_of(found)
    assert lines[0] == "--- m1"
    assert "+--- nothing" in lines
    assert "+to  instruct\\u202e" in lines


@pytest.mark.parametrize(
    ("entry", "to", "made_of", "field"),
    [
        (ENTRY.model_copy(update={"origin": None}), Authority.INFORM, 0, "to"),
        (record("ada").entry, Authority.INFORM, 0, "to"),
        (ENTRY, Authority.INFORM, MAX_SUPERSEDED + 1, "memory_id"),
    ],
)
def test_what_has_the_authority_or_cannot_be_read_is_not_proposed(
    entry: object, to: RaisedTo, made_of: int, field: str
) -> None:
    with pytest.raises(MemoryInputError) as refused:
        raise_proposal(entry, to, by="eve", policy=AUTHORITIES, made_of={str(n): "x" for n in range(made_of)})  # type: ignore[arg-type]  # an entry
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("subject", "memory_ids", "is_found"),
    [
        (None, (), True),
        ("user:bo", (), True),
        ("user:al", (), False),
        ("user:al", (ENTRY.id,), True),
    ],
)
def test_a_proposal_and_what_it_raised_go_with_the_agent_and_the_person(
    ledger: Ledger, subject: str | None, memory_ids: tuple[str, ...], is_found: bool
) -> None:
    entry = ENTRY.model_copy(update={"namespace": "user:bo"})
    filed = raise_proposal(entry, Authority.INFORM, by="eve", policy=AUTHORITIES, made_of={})
    ledger.approvals.file(COMPANY, "one", filed, lasts=timedelta(days=14))
    ledger.approvals.decide(COMPANY, "one", ApprovalState.APPROVED, ADA)
    asyncio.run(_service(ledger).finish())
    scope = ErasureScope(company=COMPANY, agent_id="ada", subject=subject, tag="t")
    proposals = ledger.erasable.proposals
    assert (proposals.find(scope, memory_ids) == ("one",)) is is_found
    assert proposals.find(scope.model_copy(update={"agent_id": "bob"})) == ()
    proposals.erase(COMPANY, proposals.find(scope, memory_ids))
    assert (ledger.approvals.get(COMPANY, "one") is None) is is_found
    assert _has(ledger) is (Authority.REFERENCE if is_found else Authority.INFORM)

"""No reader but people is shown the organisation's facts that are distrusted; people are, marked."""

from collections.abc import Mapping
from datetime import timedelta

import pytest
from support.erasure_world import WORD
from support.ledger_records import COMPANY, StoppedClock
from support.organization_facts import GRACE, agent, request

from memcore.config.organization import CategoryWriteRule, OrgMemoryConfig, WriteAccessConfig
from memcore.errors import MemoryNotFoundError
from memcore.ledger.ledger import Ledger
from memcore.models.distrust import DistrustRule
from memcore.models.organization import OrgFactCategory, OrgMemoryQuery, SeniorityLevel
from memcore.models.origin import OPERATOR, Channel, Writer, writing_as
from memcore.org.service import LedgerOrgMemory
from memcore.service import MemoryService

#: What each writes: two agents' keys, and a person.
SAID = {"clean": "Parcels leave at nine", "bought": "Parcels leave at noon", "grace": "Parcels leave by lorry"}

HOUR = timedelta(hours=1)

#: Agents may write policies, too.
_RULE = CategoryWriteRule(allowed_seniority=SeniorityLevel.JUNIOR)
OPEN = OrgMemoryConfig(write_access=WriteAccessConfig(rules=dict.fromkeys(OrgFactCategory, _RULE)))


@pytest.fixture
async def ids(ledger: Ledger, clock: StoppedClock) -> Mapping[str, str]:
    """A policy and a convention of each, an hour apart: their ids by their writers."""
    memory = LedgerOrgMemory(ledger.org, OPEN, company=COMPANY)
    await memory.connect()
    made: dict[str, str] = {}
    for who, text in SAID.items():
        author = GRACE if who == "grace" else agent()
        for category in (OrgFactCategory.CONVENTION, OrgFactCategory.CORE_POLICY):
            with writing_as(OPERATOR if who == "grace" else Writer(principal=who, limit=Channel.AGENT)):
                name = f"{who}-{category}"
                ledger_id = await memory.write(request(text, category=category), author=author, fact_id=name)
            made[who] = f"{who}-{OrgFactCategory.CONVENTION}"
            assert ledger_id == name
        clock.advance(HOUR)
    return made


async def _shown(ledger: Ledger, service: MemoryService, clock: StoppedClock) -> dict[str, set[str]]:
    """Return whose text each way of reading shows."""
    memory = LedgerOrgMemory(ledger.org, OPEN, company=COMPANY)
    await memory.connect()
    org, every = service.org, 100
    texts: dict[str, list[str | None]] = {
        "list": [each.content for each in await org.list(limit=every)],
        "list at": [each.content for each in await org.list_at(clock(), limit=every)],
        "search": [each.content for each in (await org.search(OrgMemoryQuery(context="parcels", limit=every))).facts],
        "log": [each.content for each in await org.log(limit=every)],
        "policies": [each.content for each in await memory.list_policies()],
        "query": [each.content for each in await memory.query(OrgMemoryQuery(limit=every))],
        "pages": [each.content for at in range(6) for each in await org.list(limit=1, offset=at)],
    }
    counted = await memory.count_policies()
    assert counted == len(texts["policies"])
    return {name: {who for who, text in SAID.items() if text in found} for name, found in texts.items()}


RULES: list[tuple[DistrustRule, set[str]]] = [
    (DistrustRule(principal="bought"), {"bought"}),
    (DistrustRule(channel=Channel.AGENT), {"clean", "bought"}),
    (DistrustRule(channel=Channel.OPERATOR), {"grace"}),
    (DistrustRule(channel=Channel.TOOL), set()),
    (DistrustRule(principal="bought", channel=Channel.OPERATOR), set()),
]


@pytest.mark.parametrize(("rule", "gone"), RULES)
async def test_readers_are_not_shown_them_and_people_are_marked(
    rule: DistrustRule,
    gone: set[str],
    ids: Mapping[str, str],
    ledger: Ledger,
    service: MemoryService,
    clock: StoppedClock,
) -> None:
    before = await _shown(ledger, service, clock)
    assert all(each == {*SAID} for each in before.values())
    made = ledger.distrusts.add(COMPANY, rule, WORD)
    assert all(each == {*SAID} - gone for each in (await _shown(ledger, service, clock)).values())
    for who in gone:
        with pytest.raises(MemoryNotFoundError):
            await service.org.get(ids[who])
    with writing_as(OPERATOR):
        assert await _shown(ledger, service, clock) == before
        listed = await service.org.list(limit=100)
        then = await service.org.list_at(clock(), limit=100)
        lines = await service.org.log(limit=100)
        for found in (listed, then, lines):
            assert {each.content for each in found if each.distrusted} == {SAID[who] for who in gone}
        for who in SAID:
            detail = await service.org.get(ids[who])
            assert detail.state.distrusted is detail.log[0].distrusted is (who in gone)
    ledger.distrusts.lift(COMPANY, made.distrust_id, WORD)
    assert await _shown(ledger, service, clock) == before


async def test_a_time_is_that_of_the_text_that_stands(
    ids: Mapping[str, str], ledger: Ledger, service: MemoryService, clock: StoppedClock
) -> None:
    start = clock()
    ledger.org.publish(COMPANY, ids["clean"], request("Parcels leave at ten"), author=agent())
    ledger.distrusts.add(COMPANY, DistrustRule(channel=Channel.AGENT, until=start), WORD)
    assert [each.content for each in await service.org.list(limit=100)] == [
        SAID["grace"],
        SAID["grace"],
        "Parcels leave at ten",
    ]
    # Retracted since, it was still said then.
    clock.advance(HOUR)
    ledger.org.retract(COMPANY, ids["clean"], author=agent())
    assert (await service.org.get(ids["clean"])).state.content == "Parcels leave at ten"
    ledger.distrusts.add(COMPANY, DistrustRule(source=ids["grace"], since=start - HOUR), WORD)
    shown = await service.org.list(limit=100)
    assert [(each.id, each.content) for each in shown] == [("grace-core_policy", SAID["grace"])]


async def test_rules_of_one_agent_reach_no_fact(
    ids: Mapping[str, str], ledger: Ledger, service: MemoryService, clock: StoppedClock
) -> None:
    assert ids
    for rule in (
        DistrustRule(agent_id="ada", channel=Channel.AGENT),
        DistrustRule(agent_id="ada", session_id="s"),
        DistrustRule(agent_id="ada", memory_id="11111111-1111-4111-8111-111111111111"),
    ):
        ledger.distrusts.add(COMPANY, rule, WORD)
    assert all(each == {*SAID} for each in (await _shown(ledger, service, clock)).values())

"""Organisation memory over the ledger, on each database."""

import logging
from datetime import timedelta

import pytest
from support.ledger_records import COMPANY, StoppedClock
from support.organization_facts import GRACE, agent, request

from memcore.config.organization import ExtendedStoreConfig, OrgMemoryConfig
from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryConnectionError, MemoryInputError, OrgMemoryAccessDeniedError, OrgMemoryConnectionError
from memcore.ledger.ledger import Ledger
from memcore.models.answers import Shown
from memcore.models.organization import OrgFactCategory, OrgMemoryQuery, SeniorityLevel
from memcore.org.protocol import OrgMemoryBackend
from memcore.org.service import LedgerOrgMemory

POLICIES = ("All code must pass review before merging.", "Customer data is never logged.")
SECOND = timedelta(seconds=1)
POLICY = OrgFactCategory.CORE_POLICY


@pytest.fixture
async def memory(ledger: Ledger) -> LedgerOrgMemory:
    made = LedgerOrgMemory(ledger.org, OrgMemoryConfig(core_policies=POLICIES), company=COMPANY)
    await made.connect()
    return made


async def found(memory: LedgerOrgMemory, context: str | None = None, **more: object) -> list[str]:
    query = OrgMemoryQuery.model_validate({"context": context, **more})
    return [fact.content for fact in await memory.query(query)]


async def test_it_keeps_the_protocol_and_answers_only_while_connected(ledger: Ledger) -> None:
    memory = LedgerOrgMemory(ledger.org, OrgMemoryConfig(), company=COMPANY)
    assert isinstance(memory, OrgMemoryBackend)
    assert (memory.is_connected, await memory.health_check(), memory.backend_name) == (
        False,
        False,
        "hybrid_prompt_retrieval",
    )
    for call in (
        memory.query(OrgMemoryQuery()),
        memory.write(request("x"), author=GRACE),
        memory.retract("x", author=GRACE),
        memory.list_policies(),
        memory.count_policies(),
    ):
        with pytest.raises(OrgMemoryConnectionError, match="connect"):
            await call
    await memory.connect()
    await memory.connect()
    assert (memory.is_connected, await memory.health_check()) == (True, True)
    await memory.disconnect()
    assert not memory.is_connected
    assert ledger.org.newest(COMPANY) == ()


async def test_a_ledger_that_does_not_answer_is_a_connection_error(urls: LedgerUrls) -> None:
    ledger = Ledger.open(LedgerUrls(ledger="sqlite:////nowhere/at/all.db", journal=urls.journal))
    memory = LedgerOrgMemory(ledger.org, OrgMemoryConfig(), company=COMPANY)
    with pytest.raises(OrgMemoryConnectionError) as raised:
        await memory.connect()
    assert isinstance(raised.value, MemoryConnectionError)
    assert raised.value.is_retryable
    assert not memory.is_connected


async def test_what_is_written_is_found_by_words_in_any_script(memory: LedgerOrgMemory) -> None:
    await memory.write(request("Deployments happen on Tuesdays"), author=agent())
    await memory.write(request("本番環境への展開は火曜日に行う"), author=GRACE)
    await memory.write(request("Das Büro schließt um sechs"), author=GRACE)
    assert await found(memory, "when do we deploy? which tuesday?") == ["Deployments happen on Tuesdays"]
    assert await found(memory, "火曜日") == ["本番環境への展開は火曜日に行う"]
    assert await found(memory, "BÜRO") == ["Das Büro schließt um sechs"]
    assert await found(memory, "submarine") == []
    assert await found(memory, "the of and") == []


async def test_rare_words_count_more_than_common_ones(memory: LedgerOrgMemory) -> None:
    for number in range(9):
        await memory.write(request(f"service {number} has an owner"), author=GRACE)
    await memory.write(request("zephyr is the desk"), author=GRACE)
    hits = await found(memory, "service owner zephyr", standing=Shown.ANY)
    assert (hits[0], len(hits)) == ("zephyr is the desk", 5)


async def test_policies_of_the_file_are_found_among_the_facts(memory: LedgerOrgMemory) -> None:
    await memory.write(request("A review takes one day"), author=GRACE)
    hits = await memory.query(OrgMemoryQuery(context="review before merging", standing=Shown.ANY))
    assert [fact.id for fact in hits][:1] == ["core-policy-0"]
    assert [fact.content for fact in hits] == [POLICIES[0], "A review takes one day"]
    assert await found(memory, "review", categories={OrgFactCategory.CONVENTION}) == ["A review takes one day"]
    assert await found(memory, "review", categories={POLICY}) == [POLICIES[0]]
    assert await found(memory, "review", categories=frozenset()) == []


async def test_without_words_the_newest_come_first_and_the_file_last(
    memory: LedgerOrgMemory, clock: StoppedClock
) -> None:
    for text in ("one", "two"):
        await memory.write(request(text), author=GRACE)
        clock.advance(SECOND)
    assert await found(memory) == ["two", "one", *POLICIES]
    assert await found(memory, limit=3) == ["two", "one", POLICIES[0]]
    pages = [fact.content for offset in range(5) for fact in await memory.newest(limit=1, offset=offset)]
    assert pages == ["two", "one", *POLICIES]


async def test_no_query_returns_more_than_the_policy_allows(ledger: Ledger) -> None:
    config = OrgMemoryConfig(extended_store=ExtendedStoreConfig(max_retrieved_per_query=2))
    memory = LedgerOrgMemory(ledger.org, config, company=COMPANY)
    await memory.connect()
    for number in range(4):
        await memory.write(request(f"tea {number}"), author=GRACE)
    assert len(await found(memory, "tea", limit=100)) == 2
    assert len(await found(memory, limit=100)) == 2
    assert len(await found(memory, "tea", limit=1)) == 1


async def test_a_policy_of_the_file_is_always_the_same_fact(memory: LedgerOrgMemory, clock: StoppedClock) -> None:
    before = await memory.list_policies()
    clock.advance(SECOND)
    assert await memory.list_policies() == before
    assert [fact.id for fact in before] == ["core-policy-0", "core-policy-1"]


async def test_policies_are_those_of_the_file_and_then_those_written(
    memory: LedgerOrgMemory, clock: StoppedClock
) -> None:
    for text in ("three", "four", "five"):
        await memory.write(request(text, category=POLICY), author=GRACE)
        clock.advance(SECOND)
    await memory.write(request("no policy"), author=GRACE)
    everything = [fact.content for fact in await memory.list_policies()]
    assert everything == [*POLICIES, "three", "four", "five"]
    assert await memory.count_policies() == 5
    for offset in range(7):
        for limit in range(1, 7):
            page = await memory.list_policies(limit=limit, offset=offset)
            assert [fact.content for fact in page] == everything[offset:][:limit]
        assert [fact.content for fact in await memory.list_policies(offset=offset)] == everything[offset:]
    for wrong in ({"limit": 0}, {"offset": -1}):
        with pytest.raises(MemoryInputError, match=next(iter(wrong))):
            await memory.list_policies(**wrong)


async def test_who_may_not_write_changes_nothing_and_is_logged(
    memory: LedgerOrgMemory, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    policy_id = await memory.write(request("tea at four", category=POLICY), author=GRACE)
    before = ledger.org.newest(COMPANY)
    caplog.set_level(logging.INFO)
    boss, junior = agent(SeniorityLevel.C_SUITE), agent(SeniorityLevel.JUNIOR)
    for attempt in (
        lambda: memory.write(request("no tea", category=POLICY), author=boss),
        lambda: memory.write(request("no tea", category=POLICY), author=boss, fact_id=policy_id),
        lambda: memory.retract(policy_id, author=boss),
        lambda: memory.write(request("no tea"), author=junior),
    ):
        with pytest.raises(OrgMemoryAccessDeniedError):
            await attempt()
    with pytest.raises(MemoryInputError, match="category"):
        await memory.write(request("no tea"), author=boss, fact_id=policy_id)
    assert ledger.org.newest(COMPANY) == before
    assert [record.getMessage() for record in caplog.records] == ["org_memory.write.denied"] * 4
    assert "tea" not in caplog.text


async def test_a_fact_has_versions_and_ends(memory: LedgerOrgMemory, ledger: Ledger, clock: StoppedClock) -> None:
    fact_id = await memory.write(request("tea at four"), author=GRACE)
    then = clock()
    clock.advance(SECOND)
    assert await memory.write(request("cake at five"), author=agent(), fact_id=fact_id) == fact_id
    assert await found(memory, "tea") == []
    assert await found(memory, "cake") == ["cake at five"]
    clock.advance(SECOND)
    assert await memory.retract(fact_id, author=agent())
    assert not await memory.retract(fact_id, author=agent())
    assert not await memory.retract("unheard of", author=agent())
    assert await found(memory, "cake") == []
    assert [line.version for line in await memory.operation_log(fact_id)] == [1, 2, 3]
    (state,) = await memory.snapshot_at(then)
    assert (state.content, state.retracted_at) == ("tea at four", None)
    (state,) = await memory.snapshot_at(clock())
    assert (state.content, state.retracted_at) == ("cake at five", clock())
    assert ledger.org.spread(COMPANY, range(10)) == {}


async def test_a_policy_of_the_file_is_not_written_over(memory: LedgerOrgMemory, ledger: Ledger) -> None:
    for fact_id in ("core-policy-0", "core-policy-9"):
        with pytest.raises(MemoryInputError, match="fact_id"):
            await memory.write(request("x", category=POLICY), author=GRACE, fact_id=fact_id)
    assert not await memory.retract("core-policy-0", author=GRACE)
    assert ledger.org.newest(COMPANY) == ()


async def test_companies_know_nothing_of_each_other(memory: LedgerOrgMemory, ledger: Ledger) -> None:
    other = LedgerOrgMemory(ledger.org, OrgMemoryConfig(), company="globex")
    await other.connect()
    fact_id = await memory.write(request("tea at four"), author=GRACE)
    await other.write(request("tea at nine"), author=GRACE, fact_id=fact_id)
    assert await found(memory, "tea") == ["tea at four"]
    assert await found(other, "tea") == ["tea at nine"]
    await other.retract(fact_id, author=GRACE)
    assert await found(memory, "tea") == ["tea at four"]

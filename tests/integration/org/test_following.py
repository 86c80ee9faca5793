"""Org sync: after many writers, and after a death at any step, the store shows exactly the current facts."""

import asyncio
import random
from collections.abc import Callable
from itertools import count

import pytest
from support.fault_injection import Crash, Faults
from support.organization_facts import GRACE, request
from support.thorough import sized

from memcore.approvals import superseded_by_id
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.protocol import ORGANISATION, FactStore, facts_of
from memcore.config.organization import OrgMemoryConfig
from memcore.config.urls import LedgerUrls
from memcore.errors import MemoryInputError, MemoryStoreError
from memcore.ledger.ledger import Ledger
from memcore.models.memory import MemoryEntry, MemoryQuery
from memcore.org.search import IndexedFact, shown_by
from memcore.org.service import LedgerOrgMemory
from memcore.org.sync import OrgSync

MakeBackend = Callable[[], Mem0Backend]

WRITERS = sized(5, thorough=8)
#: Of four turns the last one retracts.
TURNS = 8
FACTS = ("tea", "cake", "soup")


async def shown(backend: Mem0Backend) -> dict[IndexedFact, str]:
    """Return the facts that the store shows, with their texts."""
    entries = [each for each in await backend.search_shared(MemoryQuery(limit=1_000)) if each.agent_id == ORGANISATION]
    return {fact: entry.content for entry in entries if (fact := shown_by(entry)) is not None}


def latest_versions(ledger: Ledger, company: str) -> dict[IndexedFact, str]:
    """Return the current facts of the log."""
    return {
        IndexedFact(key, version): fact.content for key, (version, fact) in ledger.org.standing(company, FACTS).items()
    }


def store_of(backend: Mem0Backend) -> FactStore:
    found = facts_of(backend)
    assert found is not None
    return found


# On SQLite the writers of the log itself wait for each other in tests/integration/ledger.
@pytest.mark.parametrize("urls", [pytest.param("postgresql", marks=pytest.mark.service)], indirect=True)
async def test_writers_at_once_leave_no_gap_an_empty_outbox_and_a_store_that_equals_the_log(
    urls: LedgerUrls, ledger: Ledger, make_backend: MakeBackend, company: str
) -> None:
    async def write(number: int, backend: Mem0Backend, own: Ledger) -> int:
        memory = LedgerOrgMemory(own.org, OrgMemoryConfig(), company=company, backend=backend)
        await memory.connect()
        choice, lines = random.Random(number), 0
        for turn in range(TURNS):
            fact_id = choice.choice(FACTS)
            if turn % 4 == 3:
                lines += await memory.retract(fact_id, author=GRACE)
            else:
                await memory.write(request(f"{fact_id} by {number} at {turn}"), author=GRACE, fact_id=fact_id)
                lines += 1
        return lines

    backends, ledgers = [make_backend() for _ in range(WRITERS)], [Ledger.open(urls) for _ in range(WRITERS)]
    try:
        for each in backends:
            await each.connect()
        written = sum(await asyncio.gather(*map(write, range(WRITERS), backends, ledgers)))
        await OrgSync(ledger.org, store_of(backends[0]), company=company).follow()

        logs = {fact_id: ledger.org.operations(company, fact_id) for fact_id in FACTS}
        for lines in logs.values():
            assert [line.version for line in lines] == list(range(1, len(lines) + 1))
        assert sum(map(len, logs.values())) == written >= WRITERS * TURNS * 3 // 4
        assert len(ledger.org.pending(company)) == 0
        assert await shown(backends[0]) == latest_versions(ledger, company)
    finally:
        for opened in ledgers:
            opened.close()
        for each in backends:
            await each.disconnect()


async def test_a_death_at_any_step_only_delays(
    ledger: Ledger, backend: Mem0Backend, make_backend: MakeBackend, company: str
) -> None:
    deaths = 0
    for point in count():
        for memory_history in ("write", "revise", "retract"):
            fact_id, other = f"{memory_history} {point}", make_backend()
            await other.connect()
            before = LedgerOrgMemory(ledger.org, OrgMemoryConfig(), company=company, backend=backend)
            await before.connect()
            if memory_history != "write":
                await before.write(request("the old text"), author=GRACE, fact_id=fact_id)
            if memory_history == "retract":
                ledger.org.retract(company, fact_id, author=GRACE)
            else:
                ledger.org.publish(company, fact_id, request("the new text"), author=GRACE)
            faults = Faults(point)
            outbox = faults.watched(ledger.org, "outbox")
            dying = OrgSync(outbox, faults.watched(store_of(other), "store"), company=company)
            try:
                await dying.follow(fact_id=fact_id)
            except Crash:
                deaths += 1
            # What the dead one has done is no obstacle, and a second time changes nothing.
            follower = OrgSync(ledger.org, store_of(backend), company=company)
            for _ in range(2):
                await follower.follow()
            texts = [text for fact, text in (await shown(backend)).items() if fact.fact_id == fact_id]
            assert texts == ([] if memory_history == "retract" else ["the new text"]), (
                memory_history,
                point,
                faults.calls,
            )
            assert len(ledger.org.pending(company)) == 0
            await other.disconnect()
        if point >= len(faults.calls):
            break
    assert deaths >= 10


async def test_a_slow_process_brings_nothing_back(
    ledger: Ledger, backend: Mem0Backend, make_backend: MakeBackend, company: str
) -> None:
    ledger.org.publish(company, "tea", request("tea at four"), author=GRACE)
    slow = make_backend()
    await slow.connect()
    late = ledger.org.pending(company)
    ledger.org.publish(company, "tea", request("tea at five"), author=GRACE)
    ledger.org.publish(company, "cake", request("cake at six"), author=GRACE)
    follower = OrgSync(ledger.org, store_of(backend), company=company)
    await follower.follow()
    ledger.org.retract(company, "cake", author=GRACE)
    await follower.follow()
    straggler = OrgSync(ledger.org, store_of(slow), company=company)
    for line in late:
        assert await straggler._shows(line, store_of(slow))
    assert list((await shown(backend)).values()) == ["tea at five"]
    await slow.disconnect()


class Refusing:
    """A store that refuses texts with a word in them."""

    def __init__(self, store: FactStore, error: Exception) -> None:
        self._store = store
        self._error = error

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def show(self, record: object) -> None:
        entry: MemoryEntry = record.entry  # type: ignore[attr-defined]  # a record
        if "poison" in entry.content:
            raise self._error
        await self._store.show(record)  # type: ignore[arg-type]  # a record


@pytest.mark.parametrize(
    ("error", "is_kept"), [(MemoryStoreError("no"), True), (MemoryInputError("content", "no"), False)]
)
async def test_a_text_that_the_store_refuses_stops_its_own_fact_alone(
    ledger: Ledger, backend: Mem0Backend, company: str, error: Exception, is_kept: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    org = ledger.org
    org.publish(company, "tea", request("tea at four"), author=GRACE)
    follower = OrgSync(ledger.org, store_of(backend), company=company)
    await follower.follow()
    org.publish(company, "tea", request("poison"), author=GRACE)
    org.publish(company, "tea", request("tea at five"), author=GRACE)
    org.publish(company, "soup", request("soup at noon"), author=GRACE)
    refusing: FactStore = Refusing(store_of(backend), error)  # type: ignore[assignment]  # it stands for the store
    await OrgSync(ledger.org, refusing, company=company).follow()
    teas = {"tea at four"} if is_kept else {"tea at five"}
    assert set((await shown(backend)).values()) == {"soup at noon", *teas}
    assert len(ledger.org.pending(company)) == (2 if is_kept else 0)
    (event,) = [each for each in caplog.records if each.getMessage() == "org_memory.show.failed"]
    assert (vars(event)["fact_id"], vars(event)["version"]) == ("tea", 2)
    await follower.follow()
    assert set((await shown(backend)).values()) == {"soup at noon", "tea at five"}


async def test_nobody_but_the_organisation_speaks_in_its_name(
    backend: Mem0Backend, memory: LedgerOrgMemory, ledger: Ledger, company: str
) -> None:
    await memory.write(request("tea at four"), author=GRACE)
    (entry,) = await backend.search_shared(MemoryQuery(text="tea"))
    assert (entry.agent_id, entry.namespace) == (ORGANISATION, "org:convention")
    with pytest.raises(MemoryInputError, match="reserved"):
        await backend.retract(ORGANISATION, entry.id)
    assert not await backend.retract("ada", entry.id)
    with pytest.raises(MemoryInputError, match="memtend org"):
        superseded_by_id(ledger.shared_log, company, entry.id)

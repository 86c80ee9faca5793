"""The service's subjects on a real ledger: one backend, opened when needed; what is dispatched, noted, and refused."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from support.job_contexts import RecordingDispatcher
from support.ledger_records import COMPANY, StoppedClock
from support.maintenance_fixture import AGENT, memory, uid
from support.memory_services import WORD, noted
from support.present import present

from memcore import ids
from memcore.backends.factory import WorkerBackend
from memcore.backends.inmemory import InMemoryBackend
from memcore.config.loader import load_policy
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.errors import MemoryConfigError, MemoryConnectionError, MemoryInputError, MemoryNotFoundError
from memcore.jobs import MaintenancePayload, StorePayload
from memcore.ledger.agents import AgentSpec
from memcore.ledger.dead_letters import UNREADABLE, NewDeadLetter
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_usage import Caps, NewCall, Spent
from memcore.ledger.runs import NewRun
from memcore.ledger.work_items import WorkState
from memcore.llm.protocol import NOTES_PURPOSE
from memcore.models.memory import MemoryQuery
from memcore.records import SearchNotes
from memcore.service import MemoryService
from memcore.service.dead_letters import DeadLetterInfo
from memcore.service.resources import ServiceResources
from memcore.service.runs import RunInfo
from memcore.service.usage import PendingNotes

OTHER = "globex"

_LEASE = timedelta(seconds=45)


def settings_of(folder: Path) -> Settings:
    return Settings(
        company=COMPANY,
        home=folder,
        broker_url="redis://127.0.0.1:1/0",
        database_url="sqlite:///never-opened.db",
        qdrant_url="http://127.0.0.1:1",
    )


async def test_one_backend_is_opened_with_the_first_call_that_needs_it_and_closed_at_the_end(
    ledger: Ledger, dispatcher: RecordingDispatcher, clock: StoppedClock, tmp_path: Path, backend: InMemoryBackend
) -> None:
    events: list[str] = []

    @asynccontextmanager
    async def opened() -> AsyncIterator[WorkerBackend]:
        events.append("open")
        if len(events) == 1:
            raise MemoryConnectionError("the store is away")
        yield backend
        events.append("close")

    resources = ServiceResources(settings_of(tmp_path), Policy(), ledger, dispatcher, open_backend=opened, clock=clock)
    async with MemoryService(resources) as service:
        assert await service.agents.list() == ()
        assert events == []
        with pytest.raises(MemoryConnectionError):
            await service.memories.search(AGENT, MemoryQuery())
        searches = (service.memories.search(AGENT, MemoryQuery()) for _ in range(5))
        assert await asyncio.gather(*searches) == [()] * 5
        assert events == ["open", "open"], "a failed connection is tried again, and one serves all"
        assert service.resources.connected is backend
    assert events == ["open", "open", "close"]


async def test_opening_takes_no_time_of_the_deadline(
    ledger: Ledger, dispatcher: RecordingDispatcher, clock: StoppedClock, tmp_path: Path, backend: InMemoryBackend
) -> None:
    policy = Policy.model_validate({"memory": {"retrieval": {"deadline_seconds": 0.5}}})

    @asynccontextmanager
    async def opened() -> AsyncIterator[WorkerBackend]:
        await asyncio.sleep(0.7)
        yield backend

    resources = ServiceResources(settings_of(tmp_path), policy, ledger, dispatcher, open_backend=opened, clock=clock)
    async with MemoryService(resources) as service:
        # The second waits for the first to open it.
        searches = (service.memories.search(AGENT, MemoryQuery()) for _ in range(2))
        assert await asyncio.gather(*searches) == [(), ()]


async def test_a_broken_policy_keeps_nobody_from_pausing(
    ledger: Ledger, dispatcher: RecordingDispatcher, clock: StoppedClock, tmp_path: Path
) -> None:
    def broken() -> Policy:
        raise MemoryConfigError("policy.yaml: is no mapping")

    resources = ServiceResources(settings_of(tmp_path), broken, ledger, dispatcher, clock=clock)
    async with MemoryService(resources) as service:
        await service.runs.pause_all(by="grace", reason="it deletes too much")
        assert await service.runs.is_paused()
        assert noted(ledger) == [("person:grace", "maintenance.pause", COMPANY, "it deletes too much")]
        with pytest.raises(MemoryConfigError):
            await service.memories.search(AGENT, MemoryQuery())


async def test_what_waits_is_dispatched_when_an_agent_or_all_go_on(
    service: MemoryService, ledger: Ledger, dispatcher: RecordingDispatcher, clock: StoppedClock
) -> None:
    await service.agents.add(AGENT, {"interval": "never"})
    run = present(ledger.runs.create(NewRun(company=COMPANY, agent_id=AGENT, planned_at=clock())))
    await service.agents.pause(AGENT)
    assert (await service.agents.get(AGENT)).paused
    assert await service.agents.is_paused(AGENT)
    assert noted(ledger) == [], "the command line says no name"
    await service.agents.resume(AGENT, by="grace")
    assert not await service.agents.is_paused(AGENT)
    assert dispatcher.dispatched_for(MaintenancePayload) == [(COMPANY, run.run_id)]
    await service.runs.pause_all()
    assert await service.agents.is_paused(AGENT), "the company's pause counts too"
    await service.runs.resume_all()
    assert dispatcher.dispatched_for(MaintenancePayload) == [(COMPANY, run.run_id)] * 2
    for ask in (service.agents.pause, service.agents.resume):
        with pytest.raises(MemoryNotFoundError):
            await ask("nobody")


async def test_settings_of_agents_are_checked_and_pages_bounded(service: MemoryService, ledger: Ledger) -> None:
    for name in ("cy", "ada", "bob"):
        await service.agents.add(name, {})
    ledger.agents.put(AgentSpec(company=OTHER, agent_id="zoe"))
    assert [each.agent_id for each in await service.agents.list(limit=2)] == ["ada", "bob"]
    assert [each.agent_id for each in await service.agents.list(after="bob")] == ["cy"]
    assert [each.agent_id for each in await service.agents.every()] == ["ada", "bob", "cy"]
    assert [each.agent_id for each in await service.agents.known(["zoe", "cy", "ada"])] == ["cy", "ada"]
    with pytest.raises(MemoryNotFoundError):
        await service.agents.set("zoe", {"role": "night"})
    for given, field in (({"max_memories": 0}, "max_memories"), ({"colour": "red"}, "colour")):
        with pytest.raises(MemoryInputError, match=f"^{field}: "):
            await service.agents.set("ada", given)
    for limit in (0, 1_001):
        with pytest.raises(MemoryInputError, match=r"^limit: "):
            await service.agents.list(limit=limit)


async def test_a_held_run_is_released_or_dismissed_and_noted_with_its_reason(
    service: MemoryService, ledger: Ledger, dispatcher: RecordingDispatcher, clock: StoppedClock
) -> None:
    run = present(ledger.runs.create(NewRun(company=COMPANY, agent_id=AGENT, planned_at=clock())))
    with pytest.raises(MemoryInputError, match="only a held run"):
        await service.runs.release(run.run_id, by="grace")
    assert noted(ledger) == []
    with pytest.raises(MemoryNotFoundError, match=r"^run_id: "):
        await service.runs.dismiss("another")
    held = present(ledger.runs.claim(COMPANY, run.run_id, lease=_LEASE))
    assert held.token is not None
    ledger.runs.finish(
        COMPANY, run.run_id, held.token, state=WorkState.HELD, counts={"planned_consolidated": 4}, reason="large"
    )
    assert [each.run_id for each in await service.runs.held()] == [run.run_id]
    (released,) = await service.runs.release_all(by="grace", reason="it is as it should be")
    assert (released.released, released.consolidated, released.enforced) == (True, 4, None)
    assert dispatcher.dispatched_for(MaintenancePayload) == [(COMPANY, run.run_id)]
    assert noted(ledger) == [("person:grace", "runs.release", run.run_id, "it is as it should be")]
    shown = RunInfo.of(await service.runs.get(run.run_id)).model_dump()
    assert not {"token", "lease_until", "attempt", "company"} & shown.keys()


async def test_letters_of_another_company_are_not_found_and_nothing_unreadable_is_sent(
    service: MemoryService, ledger: Ledger
) -> None:
    def letter(job_id: str, company: str, job: str, payload: str) -> None:
        ledger.dead_letters.put(
            NewDeadLetter(
                job_id=job_id, company=company, job=job, queue="q", payload=payload, reason="it died", attempts=1
            )
        )

    letter("mine", COMPANY, StorePayload.task, "{oops")
    letter("broken", COMPANY, UNREADABLE, '{"bytes": 4, "sha256": "00", "text": "secret"}')
    letter("foreign", OTHER, StorePayload.task, "{oops")
    infos = {each.job_id: DeadLetterInfo.of(each) for each in await service.dead_letters.list()}
    assert infos.keys() == {"mine", "broken"}
    assert (infos["mine"].can_be_replayed, infos["broken"].can_be_replayed) == (True, False)
    assert "secret" not in str(infos)
    with pytest.raises(MemoryInputError, match="cannot be sent again"):
        await service.dead_letters.replay(["broken"])
    for ask in (service.dead_letters.replay, service.dead_letters.delete, service.dead_letters.count_named):
        with pytest.raises(MemoryNotFoundError):
            await ask(["mine", "foreign"])
    assert await service.dead_letters.count() == 2
    for days in (-1, 36_501):
        with pytest.raises(MemoryInputError, match=r"^older_than: "):
            await service.dead_letters.delete_older(days)
    assert await service.dead_letters.delete(["mine", "mine"], by="grace", reason="told") == 1
    assert noted(ledger) == [("person:grace", "dead_letters.delete", "mine", "told")]
    assert ledger.dead_letters.get("foreign") is not None


async def test_an_agent_is_removed_with_its_memories_which_an_undo_can_bring_back(
    service: MemoryService, ledger: Ledger, backend: InMemoryBackend
) -> None:
    await service.agents.add(AGENT, {"interval": "daily"})
    await backend.store_many([memory(1), memory(2)])
    receipt = await service.agents.remove(AGENT, WORD)
    assert sorted(receipt.forgotten) == [uid(1), uid(2)]
    assert receipt.run_id is not None
    assert await service.agents.list() == ()
    assert await service.memories.count(AGENT) == 0
    assert len((await service.runs.plan_undo(receipt.run_id)).restored) == 2
    assert ("person:grace", "agents.remove", AGENT, WORD.reason) in noted(ledger)
    with pytest.raises(MemoryNotFoundError):
        await service.agents.remove(AGENT, WORD)


@pytest.mark.parametrize(
    "forget",
    [
        lambda service: service.memories.forget(AGENT, [uid(1)], by="grace"),
        lambda service: service.agents.remove(AGENT, WORD),
    ],
)
async def test_a_connection_lost_behind_a_forget_names_its_run(
    ledger: Ledger,
    service: MemoryService,
    backend: InMemoryBackend,
    monkeypatch: pytest.MonkeyPatch,
    forget: Callable[[MemoryService], Awaitable[object]],
) -> None:
    await service.agents.add(AGENT, {})
    await backend.store_many([memory(1)])

    def lost(*_args: object) -> None:
        raise MemoryConnectionError("the ledger cannot be reached", part="ledger")

    monkeypatch.setattr(ledger.audit, "note", lost)
    with pytest.raises(MemoryConnectionError, match=r"cannot be reached; run \S+ took 1 before$") as caught:
        await forget(service)
    (run,) = ledger.runs.list(COMPANY, agent_id=AGENT)
    assert run.run_id in str(caught.value)


async def test_memories_are_counted_by_filter_forgotten_and_noted(
    service: MemoryService, ledger: Ledger, backend: InMemoryBackend
) -> None:
    await backend.store_many([memory(number) for number in range(300)])
    assert await service.memories.count_matching(AGENT) == 300, "more than one page"
    assert await service.memories.count_matching(AGENT, tags=["none"]) == 0
    gone = await service.memories.forget(AGENT, [uid(1)], by="grace", reason="wrong")
    assert gone.forgotten == (uid(1),)
    none = await service.memories.forget(AGENT, [uid(1)], by="grace")
    assert (none.run_id, none.forgotten) == (None, ())
    assert noted(ledger) == [("person:grace", "memory.forget", gone.run_id, "wrong")]


async def test_reports_are_bounded_and_of_one_company(service: MemoryService, ledger: Ledger) -> None:
    await service.agents.add(AGENT, {})
    await service.agents.pause(AGENT, by="grace", reason="once")
    theirs = MemoryService(
        ServiceResources(service.resources.settings, Policy(), ledger, RecordingDispatcher(), company=OTHER)
    )
    assert len(await service.usage.audit()) == 1
    assert await theirs.usage.audit() == ()
    assert await theirs.agents.list() == ()
    assert await service.usage.usage("day", days=30) == ()
    for by, days, field in (("colour", 7, "by"), ("day", 0, "days"), ("day", 3_661, "days")):
        with pytest.raises(MemoryInputError, match=f"^{field}: "):
            await service.usage.usage(by, days=days)
    with pytest.raises(MemoryInputError, match=r"^limit: "):
        await service.usage.audit(limit=257)


async def test_a_forecast_counts_memories_without_notes_by_what_one_took(
    service: MemoryService,
    ledger: Ledger,
    backend: InMemoryBackend,
    dispatcher: RecordingDispatcher,
    clock: StoppedClock,
) -> None:
    policy = load_policy("memory: {consolidation: {search_notes: {enabled: true}}, llm: {model: m}}")
    settings = service.resources.settings.moved({"llm_url": "http://127.0.0.1:9/v1"})

    @asynccontextmanager
    async def opened() -> AsyncIterator[WorkerBackend]:
        yield backend

    asking = MemoryService(ServiceResources(settings, policy, ledger, dispatcher, open_backend=opened, clock=clock))
    await asking.agents.add(AGENT, {})
    await backend.store_many([memory(number) for number in range(4)])
    await backend.set_search_notes(AGENT, {uid(0): SearchNotes(by="m/notes-1", texts=("other words",))})
    unmeasured = (await asking.usage.forecast()).pending
    assert unmeasured == PendingNotes(memories=3, tokens_per_memory=None, tokens=None, cost=None)
    for question in ("one", f"one{ids.ASKED_AGAIN}x", "two"):
        call = NewCall(
            company=COMPANY, agent_id=AGENT, run_id=None, question_id=question, purpose=NOTES_PURPOSE, model="m",
            most=Spent(prompt_tokens=90, completion_tokens=10, cost=0.5),
        )  # fmt: skip
        ledger.spending.reserve(call, caps=Caps())
    # Three questions, of which one is asked again, about two memories.
    measured = (await asking.usage.forecast()).pending
    assert measured == PendingNotes(memories=3, tokens_per_memory=150.0, tokens=450, cost=2.25)
    assert (await service.usage.forecast()).pending is None

"""Propagation of lessons to peers, once, whatever crashes; on SQLite and PostgreSQL, in memory and on a store."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from pydantic import SecretStr
from support.execution_traces import of_key, trajectory
from support.fault_injection import AT_CALLS, Crash, Faults
from support.hashing_embedder import HashingEmbedder
from support.ledger_records import finish_lesson, open_lesson
from support.lesson_memories import lesson_memory
from support.maintenance_fixture import COMPANY, MaintenanceFixture, MakeMaintenanceFixture, memory, uid
from support.store_servers import store_server

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.config.learning import PropagationConfig
from memcore.config.urls import LedgerUrls
from memcore.embedding.bm25 import Bm25Encoder
from memcore.errors import MemoryStoreError
from memcore.ledger.agents import AgentSpec
from memcore.ledger.migrate import migrate_history
from memcore.ledger.organization.audit import Confirmation
from memcore.models.distrust import DistrustRule
from memcore.models.memory import MemoryCategory, MemoryLevel, MemoryQuery
from memcore.procedural.propagation import LESSONS_PER_RUN, Propagation
from memcore.procedural.records import ProceduralMemoryScope, proposal_of
from memcore.records import ORIGIN_KEY, MemoryRecord, Where

if TYPE_CHECKING:
    from memcore.backends.inmemory import InMemoryBackend

WORD = Confirmation(actor="grace", confirm=True, reason="its host was taken over")

#: Whoever is not named otherwise is a clerk of the sales department.
CLERKS = ("ada", "bob", "cy", "dan")


def config(*, most: int = 10) -> PropagationConfig:
    return PropagationConfig(max_propagation_targets=most)


def propagation(world: MaintenanceFixture, policy: PropagationConfig, faults: Faults | None = None) -> Propagation:
    backend = faults.backend(world.backend) if faults else world.backend
    ledger = faults.ledger(world.ledger) if faults else world.ledger
    return Propagation(backend, ledger, policy, company=COMPANY, level=world.level)


def open_context(world: MaintenanceFixture, *agent_ids: str, **given: Any) -> None:
    for agent_id in agent_ids:
        spec = {"role": "clerk", "department": "sales", **given}
        world.ledger.agents.put(AgentSpec(company=COMPANY, agent_id=agent_id, **spec))


async def learn(world: MaintenanceFixture, *lessons: MemoryRecord) -> None:
    """Do what the job that draws lessons does: first the memory, then the row."""
    await world.store(lessons)
    for lesson in lessons:
        record_lesson(world, lesson)


def record_lesson(world: MaintenanceFixture, lesson: MemoryRecord) -> None:
    entry = lesson.entry
    open_lesson(world.ledger, COMPANY, entry.agent_id, f"row of {entry.id}")
    finish_lesson(world.ledger, COMPANY, f"row of {entry.id}", "stored", memory_id=entry.id, confidence=0.9)


async def held(world: MaintenanceFixture, agent_id: str) -> list[MemoryRecord]:
    return list((await world.backend.scan(Where(agent_id=agent_id))).records)


async def holders(world: MaintenanceFixture, *agent_ids: str) -> dict[str, int]:
    return {agent_id: len(await held(world, agent_id)) for agent_id in agent_ids}


@pytest.fixture
def both(urls: LedgerUrls) -> Iterator[MaintenanceFixture]:
    world = MaintenanceFixture(urls)
    yield world
    world.ledger.close()


@pytest.fixture(params=["inmemory", "mem0"])
async def stored(
    request: pytest.FixtureRequest, make_maintenance_fixture: MakeMaintenanceFixture, tmp_path: Path
) -> AsyncIterator[MaintenanceFixture]:
    """A world in memory, and one on a store of its own."""
    world = make_maintenance_fixture()
    if request.param == "inmemory":
        yield world
        return
    history_url = f"sqlite:///{tmp_path / 'history.db'}"
    migrate_history(history_url)
    with store_server(tmp_path / "shards") as address:
        place = Mem0Config(
            url=address.url,
            api_key=SecretStr(address.api_key),
            history_url=history_url,
            collection=Mem0Config.collection_of("passed-on"),
        )
        backend = Mem0Backend(
            place, company=COMPANY, embedder=HashingEmbedder(), encoder=Bm25Encoder(), clock=world.clock
        )
        world.backend = cast("InMemoryBackend", backend)
        yield world
        await backend.disconnect()


async def test_a_lesson_reaches_the_agents_peers_with_all_that_it_says(stored: MaintenanceFixture) -> None:
    world = stored
    open_context(world, *CLERKS)
    open_context(world, "eve", role="pilot", department="air")
    mine = lesson_memory(1, is_success=True, more_tags=["pinned"], application_count=7, supersedes=("older",))
    await learn(world, mine)

    assert await propagation(world, config()).run("ada", by="role") == 3

    assert await holders(world, *CLERKS, "eve") == {"ada": 1, "bob": 1, "cy": 1, "dan": 1, "eve": 0}
    (copy,) = await held(world, "bob")
    lesson, original = proposal_of(copy), proposal_of(mine)
    assert lesson is not None
    assert original is not None
    assert lesson == original.model_copy(update={"scope": ProceduralMemoryScope.ROLE, "application_count": 0})
    assert copy.entry.metadata.tags == ("non-inferable", "success-derived", "import", "disk", "propagated:ada")
    assert copy.entry.metadata.source == mine.entry.metadata.source
    assert (copy.entry.created_at, copy.entry.id == mine.entry.id) == (mine.entry.created_at, False)
    hits = await world.backend.retrieve("bob", MemoryQuery(text=original.discovery))
    assert [hit.id for hit in hits] == [copy.entry.id]


async def test_it_is_passed_on_once_and_never_by_those_who_have_it_from_another(both: MaintenanceFixture) -> None:
    world = both
    open_context(world, *CLERKS)
    await learn(world, lesson_memory(1), lesson_memory(2))
    assert await propagation(world, config()).run("ada", by="role") == 6
    assert world.ledger.lessons.unpropagated(COMPANY, "ada", limit=9) == ()
    assert all(world.ledger.lessons.unpropagated(COMPANY, each, limit=9) == () for each in CLERKS)
    # One deletes what it was given, and one comes later: what was passed on once is not passed on again.
    await world.backend.delete_where(Where(agent_id="bob"))
    open_context(world, "flo")
    for agent_id in CLERKS:
        assert await propagation(world, config()).run(agent_id, by="role") == 0
    # Were a copy taken for a lesson of its owner's own, it would still stay where it is.
    (copy, _) = await held(world, "cy")
    record_lesson(world, copy)
    assert await propagation(world, config()).run("cy", by="role") == 0
    assert await holders(world, *CLERKS, "flo") == {"ada": 2, "bob": 0, "cy": 2, "dan": 2, "flo": 0}


async def test_it_goes_to_the_first_ones_that_are_not_paused_and_keep_what_they_learn(both: MaintenanceFixture) -> None:
    world = both
    open_context(world, *CLERKS, "eve")
    open_context(world, "abe", level=MemoryLevel.SESSION)
    open_context(world, "amy", level=MemoryLevel.NONE)
    world.ledger.agents.pause(COMPANY, "bob")
    await learn(world, lesson_memory(1))
    assert await propagation(world, config(most=2)).run("ada", by="department") == 2
    got = {"abe": 0, "amy": 0, "bob": 0, "cy": 1, "dan": 1, "eve": 0}
    assert await holders(world, *got) == got
    (copy,) = await held(world, "cy")
    lesson = proposal_of(copy)
    assert lesson is not None
    assert lesson.scope is ProceduralMemoryScope.DEPARTMENT


async def test_an_agent_with_nothing_new_costs_one_look_at_the_ledger(world: MaintenanceFixture) -> None:
    open_context(world, *CLERKS)
    faults = Faults()
    assert await propagation(world, config(), faults).run("ada", by="role") == 0
    assert faults.calls == ["lessons.unpropagated"]


async def test_while_all_is_paused_nothing_is_passed_on_and_nothing_lost(world: MaintenanceFixture) -> None:
    open_context(world, *CLERKS)
    await learn(world, lesson_memory(1))
    world.ledger.companies.pause(COMPANY)
    assert await propagation(world, config()).run("ada", by="role") == 0
    world.ledger.companies.resume(COMPANY)
    assert await propagation(world, config()).run("ada", by="role") == 3


async def test_an_agent_without_peers_keeps_its_lessons_to_itself_for_good(world: MaintenanceFixture) -> None:
    world.ledger.agents.put(AgentSpec(company=COMPANY, agent_id="ada"))
    open_context(world, "bob")
    await learn(world, lesson_memory(1))
    assert await propagation(world, config()).run("ada", by="role") == 0
    assert world.ledger.lessons.unpropagated(COMPANY, "ada", limit=9) == ()


async def test_an_agent_gets_no_second_copy_of_what_it_knows(world: MaintenanceFixture) -> None:
    open_context(world, *CLERKS)
    mine = lesson_memory(1)
    own = replace(mine, entry=mine.entry.model_copy(update={"id": lesson_memory(99).entry.id, "agent_id": "bob"}))
    # A memory of the same words that is no lesson tells nobody that it is one.
    words = memory(5, category=MemoryCategory.PROCEDURAL, content=mine.entry.content, agent_id="cy")
    await world.store([own, words])
    # Two tasks taught the same.
    copied_lesson = replace(mine, entry=mine.entry.model_copy(update={"id": lesson_memory(98).entry.id}))
    await learn(world, mine, copied_lesson)
    assert await propagation(world, config()).run("ada", by="role") == 2
    assert await holders(world, *CLERKS) == {"ada": 2, "bob": 1, "cy": 2, "dan": 1}


def by_key(record: MemoryRecord, principal: str) -> MemoryRecord:
    return replace(record, extra={**record.extra, ORIGIN_KEY: of_key(principal).stored()})


async def test_what_is_distrusted_is_passed_on_once_it_is_trusted_again(world: MaintenanceFixture) -> None:
    open_context(world, "ada", "bob")
    await learn(world, by_key(lesson_memory(1), "k1"), lesson_memory(2))
    distrust = world.ledger.distrusts.add(COMPANY, DistrustRule(principal="k1"), WORD)
    assert await propagation(world, config()).run("ada", by="role") == 1
    world.ledger.distrusts.lift(COMPANY, distrust.distrust_id, WORD)
    assert await propagation(world, config()).run("ada", by="role") == 1
    origins = [each.entry.origin for each in await held(world, "bob")]
    assert sorted(each.principals for each in origins if each is not None) == [(), ("k1",)]
    assert await propagation(world, config()).run("ada", by="role") == 0


async def test_distrusted_lessons_keep_no_others_back(world: MaintenanceFixture) -> None:
    open_context(world, "ada", "bob")
    for number in range(LESSONS_PER_RUN + 1):
        world.ledger.trajectories.append(
            COMPANY, trajectory(f"t-{number}", origin=of_key("k1")), lesson_at=world.clock()
        )
        claimed = world.ledger.lessons.claim(COMPANY, f"t-{number}", lease=timedelta(minutes=1))
        assert claimed is not None
        drawn: dict[str, Any] = {"memory_id": uid(number), "confidence": 0.9, "text": "{}"}
        world.ledger.lessons.settle(
            COMPANY, f"t-{number}", claimed.token or "", repeats=lambda _: False, origin=of_key("k1"), **drawn
        )
        world.ledger.lessons.finish(COMPANY, f"t-{number}", claimed.token or "", "stored", **drawn)
    world.clock.turn(timedelta(seconds=1))
    await learn(world, lesson_memory(1))
    world.ledger.distrusts.add(COMPANY, DistrustRule(principal="k1"), WORD)
    assert await propagation(world, config()).run("ada", by="role") == 1


async def test_a_peer_whose_own_lesson_is_distrusted_gets_the_trusted_one(world: MaintenanceFixture) -> None:
    open_context(world, "ada", "bob")
    mine = lesson_memory(1)
    theirs = replace(mine, entry=mine.entry.model_copy(update={"id": lesson_memory(99).entry.id, "agent_id": "bob"}))
    await world.store([by_key(theirs, "k1")])
    world.ledger.distrusts.add(COMPANY, DistrustRule(principal="k1"), WORD)
    await learn(world, mine)
    assert await propagation(world, config()).run("ada", by="role") == 1
    assert await holders(world, "bob") == {"bob": 2}


async def test_what_is_gone_or_stands_no_more_is_not_passed_on(world: MaintenanceFixture) -> None:
    open_context(world, *CLERKS)
    gone, stale = lesson_memory(1), lesson_memory(2, superseded_by="better")
    superseded = lesson_memory(3)
    await learn(world, gone, stale, superseded)
    await world.backend.delete_many("ada", [gone.entry.id])
    assert await propagation(world, config()).run("ada", by="role") == 3
    (copy,) = await held(world, "bob")
    assert copy.entry.content == superseded.entry.content


async def test_what_a_run_of_the_target_removed_does_not_rise_again(world: MaintenanceFixture) -> None:
    open_context(world, "ada", "bob")
    await learn(world, lesson_memory(1, days_old=100))
    with pytest.raises(Crash):
        # The copies are there, and the mark is not.
        await propagation(world, config(), CrashAt("lessons.propagated")).run("ada", by="role")
    assert await holders(world, "bob") == {"bob": 1}
    run = world.plan_run(agent_id="bob")
    await world.to_the_end(run.run_id)
    assert world.run(run.run_id).counts["pruned"] == 1

    assert await propagation(world, config()).run("ada", by="role") == 0

    assert await holders(world, "bob") == {"bob": 0}


class CrashAt(Faults):
    """A crash at the first call of a name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def counted(self, name: str) -> bool:
        super().counted(name)
        return name == self._name


async def test_an_agent_that_cannot_be_given_them_holds_up_no_other(
    world: MaintenanceFixture, caplog: pytest.LogCaptureFixture
) -> None:
    open_context(world, *CLERKS)
    await learn(world, lesson_memory(1))
    broken, store = {"bob", "cy", "dan"}, world.backend.store_many

    async def store_many(records: Any) -> None:
        if any(each.entry.agent_id in broken for each in records):
            raise MemoryStoreError("full")
        await store(records)

    world.backend.store_many = store_many  # type: ignore[method-assign]  # refuses some
    assert await propagation(world, config()).run("ada", by="role") == 0
    assert [record.__dict__["target"] for record in caplog.records] == ["bob", "cy", "dan"]
    assert set(caplog.messages) == {"procedural_propagation.target_failed"}
    # Nobody was given it, so the next run tries again.
    broken.remove("bob")
    broken.remove("dan")
    assert await propagation(world, config()).run("ada", by="role") == 2
    assert world.ledger.lessons.unpropagated(COMPANY, "ada", limit=9) == ()
    assert await holders(world, *CLERKS) == {"ada": 1, "bob": 1, "cy": 0, "dan": 1}
    assert "Import number" not in caplog.text


async def test_one_run_passes_on_a_bounded_number_and_the_next_the_rest(world: MaintenanceFixture) -> None:
    open_context(world, "ada", "bob")
    await learn(world, *(lesson_memory(n) for n in range(LESSONS_PER_RUN + 3)))
    assert await propagation(world, config()).run("ada", by="role") == LESSONS_PER_RUN
    assert await propagation(world, config()).run("ada", by="role") == 3
    assert await holders(world, "bob") == {"bob": LESSONS_PER_RUN + 3}


async def test_a_very_long_name_still_tells_one_agent_from_another(world: MaintenanceFixture) -> None:
    names = ["x" * 255 + letter for letter in "ab"]
    open_context(world, "bob", *names)
    for number, name in enumerate(names):
        await learn(world, lesson_memory(number, agent_id=name))
        assert await propagation(world, config(most=1)).run(name, by="role") == 1
    tags = {each.entry.metadata.tags[-1] for each in await held(world, "bob")}
    assert len(tags) == 2
    assert all(tag.startswith("propagated:xxx") and len(tag) <= 256 for tag in tags)


@pytest.mark.parametrize("is_after", AT_CALLS)
async def test_after_a_crash_anywhere_the_next_run_passes_on_the_rest_and_nothing_twice(
    both: MaintenanceFixture, *, is_after: bool
) -> None:
    world = both
    go_back = world.keep()
    points, is_over, calls = 0, False, []
    while not is_over:
        go_back()
        open_context(world, *CLERKS)
        await learn(world, lesson_memory(1), lesson_memory(2))
        faults = Faults(points, is_after=is_after)
        try:
            await propagation(world, config(), faults).run("ada", by="role")
            is_over = True
        except Crash:
            points += 1
        await propagation(world, config()).run("ada", by="role")
        calls = faults.calls
        assert await holders(world, *CLERKS) == dict.fromkeys(CLERKS, 2), calls
        assert world.ledger.lessons.unpropagated(COMPANY, "ada", limit=9) == (), calls
    assert points == len(calls) >= 15

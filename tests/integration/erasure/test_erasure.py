"""An agent that has used every feature leaves no byte behind, and a crash at any call is gone on from."""

from pathlib import Path
from typing import Any

from redis import Redis
from support.erasure_world import POLICY, ErasureWorld
from support.fault_injection import Crash, Faults
from support.ledger_records import COMPANY
from support.present import present
from support.store_items import item

from memcore.erasure.checkpoints import TrainedCheckpoints
from memcore.erasure.files import AgentFiles
from memcore.erasure.probe import search_files
from memcore.erasure.receipt import ErasureReceipt, verified
from memcore.erasure.service import ErasureService
from memcore.finetune.run_folder import RunFolder, runs_of
from memcore.jobs import Deferred, Done, Skipped, store_queue
from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.erasure.decisions import ErasureScope
from memcore.ledger.erasure.rows import ErasableRows
from memcore.models.finetune import FineTuneStage

#: The least number of texts that the drill looks for.
SECRETS = 200

#: Calls of an erasure's parts: more than it ever makes, and far fewer than it must make.
MOST_CALLS, LEAST_CALLS = 300, 25

#: Experiences of each agent (support.erasure_world).
EXPERIENCES = 20


def hits(world: ErasureWorld, agent_id: str) -> set[str]:
    """Return the first folders and files of the data folder that hold any secret of the agent."""
    return {hit.file for hit in search_files(world.settings.home, world.secrets[agent_id])}


async def test_no_byte_of_the_agent_is_left_and_others_have_all_of_theirs(world: ErasureWorld) -> None:
    for agent_id in ("ada", "bob"):
        await world.fill(agent_id)
    world.send("ada")
    assert len(world.secrets["ada"]) >= SECRETS
    assert {file.split("/")[0] for file in hits(world, "ada")} == {"data", "wiki", "skills", "fine-tune"}
    before = await world.memories("bob"), await world.backend.shared_version()
    counts = rows(world, "bob")
    service, erasure_id = world.service(), world.asked()

    waits = await service.run(erasure_id)
    assert isinstance(waits, Deferred)
    assert waits.reason == "1 jobs of the agent are still on the broker"
    with broker_client(world) as client:
        client.delete(str(store_queue("ada")))  # a worker takes it, and drops it since the agent is barred
    world.clock.now += LEASE_LENGTH
    outcome = await service.run(erasure_id)
    assert isinstance(outcome, Done), outcome

    assert hits(world, "ada") == set()
    assert (await world.memories("bob"), rows(world, "bob")) == (before[0], counts)
    assert await world.backend.shared_version() >= before[1]
    done = present(world.ledger.erasures.get(COMPANY, erasure_id))
    assert done.receipt is not None
    receipt = verified(done.receipt, world.ledger.signing_keys.all(), ErasureReceipt)
    assert receipt.rewritten == ("ledger and journal", "broker", "history", "store")
    assert all(place.left == 0 for place in receipt.places.values())
    found = {name for name, place in receipt.places.items() if place.found}
    assert found >= {
        "store", "history", "archive", "archive_terms", "bookings", "booking_records", "memory_keys", "experiences",
        "trajectories", "lessons", "recorded_queries", "answers", "approvals", "dead_letters", "shared_log", "skills",
        "skill_files", "wiki", "training_files", "conversation_turns", "conversation_sessions", "agents", "work_items",
        "memory_tests",
    }  # fmt: skip
    for secret in world.secrets["ada"]:
        assert secret not in done.receipt
    assert world.ledger.agents.get(COMPANY, "ada") is None
    actions = [line.action for line in world.ledger.audit.page(COMPANY)]
    assert actions.count("erase.agent") == actions.count("erase.done") == 1
    assert isinstance(await service.run(erasure_id), Skipped)


def broker_client(world: ErasureWorld) -> Redis:
    return Redis.from_url(world.settings.broker_url)


def rows(world: ErasureWorld, agent_id: str) -> dict[str, int]:
    scope = ErasureScope(company=COMPANY, agent_id=agent_id, tag="no tag")
    return world.ledger.erasable.count(scope)


class WatchedLedger:
    """A ledger, or rows of one, whose parts' calls are counted."""

    def __init__(self, inner: object, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if isinstance(found, ErasableRows):
            return WatchedLedger(found, self._faults)
        if callable(found):
            return getattr(self._faults.watched(self._inner, type(self._inner).__name__), name)
        return self._faults.watched(found, name)


def crashing(world: ErasureWorld, faults: Faults) -> ErasureService:
    """Return the service of a process that dies at a call of any of its parts."""
    whole = world.service()
    parts = {name: faults.watched(getattr(whole, name), name) for name in ("points", "history", "files", "broker")}
    return world.service(**{**parts, "ledger": WatchedLedger(world.ledger, faults)})


async def test_a_crash_at_any_call_is_gone_on_from(world: ErasureWorld) -> None:
    for agent_id in ("ada", "bob"):
        await world.fill(agent_id)
    before = await world.memories("bob"), rows(world, "bob")
    erasure_id, calls = world.asked(), 0
    for at in range(MOST_CALLS):
        try:
            outcome = await crashing(world, Faults(at)).run(erasure_id)
        except Crash:
            calls += 1
            # Its lease ends, and another worker takes the item.
            world.clock.now += LEASE_LENGTH
            continue
        assert isinstance(outcome, Done), outcome
        break
    assert calls > LEAST_CALLS
    assert hits(world, "ada") == set()
    assert (await world.memories("bob"), rows(world, "bob")) == before
    done = present(world.ledger.erasures.get(COMPANY, erasure_id))
    receipt = verified(present(done.receipt), world.ledger.signing_keys.all(), ErasureReceipt)
    # What was found before a crash is in the receipt, although later attempts did not find it any more.
    assert receipt.places["experiences"].found == EXPERIENCES
    assert all(place.left == 0 for place in receipt.places.values())


async def test_a_person_goes_and_the_agent_stays(world: ErasureWorld) -> None:
    await world.fill("ada")
    before = await world.memories("ada")
    # The turns: two texts each, of two people by turns; behind them one text of the files.
    gone = world.secrets["ada"][-21:-1]
    his, hers = ([each for n, each in enumerate(gone) if n // 2 % 2 == person] for person in (0, 1))
    assert {hit.probe for hit in search_files(world.settings.home, his)} == set(range(1, len(his) + 1))
    outcome = await world.service().run(world.asked(subject="user:0"))
    assert isinstance(outcome, Done), outcome
    assert search_files(world.settings.home, his) == []
    assert {hit.probe for hit in search_files(world.settings.home, hers)} == set(range(1, len(hers) + 1))
    assert await world.memories("ada") == before
    assert world.ledger.agents.get(COMPANY, "ada") is not None


async def test_a_store_job_of_the_agent_is_dropped_while_it_is_erased(world: ErasureWorld) -> None:
    world.asked()
    hers, his = item(world.secret("ada"), agent_id="ada"), item(world.secret("bob"), agent_id="bob")
    written = await world.ingestor().write([hers, his])
    assert written.skipped == {hers.id}
    assert written.stored == {his.id}
    assert await world.memories("ada") == []


async def test_no_data_folder_is_needed(world: ErasureWorld, tmp_path: Path) -> None:
    # As in a container whose own folder cannot be written.
    await world.ingestor().write([item(world.secret("ada"), sent_at=world.clock())])
    home = tmp_path / "nowhere"
    settings = world.settings.model_copy(update={"home": home})
    files = AgentFiles(settings, POLICY, world.ledger, world.backend)
    trained = TrainedCheckpoints(world.ledger, company=COMPANY, home=home)
    outcome = await world.service(home=home, files=files, trained=trained).run(world.asked())
    assert isinstance(outcome, Done), outcome
    assert not home.exists()


def test_texts_that_other_companies_train_on_are_not_the_companys(world: ErasureWorld) -> None:
    ledger, home = world.ledger, world.settings.home
    companies = ("default", COMPANY, "zoo")
    for company in companies:
        (runs_of(home, company) / "a-run" / "generating_data-1").mkdir(parents=True)
    before_each_had_a_folder = ledger.finetune_runs.start(COMPANY, {}).run_id
    (runs_of(home, "default") / before_each_had_a_folder / "mining_negatives-1").mkdir(parents=True)

    world.service().files.remove_training()
    RunFolder(runs_of(home, "zoo"), "another").drop_others([FineTuneStage.GENERATING_DATA])

    left = {company: [*runs_of(home, company).glob("*/*-1")] for company in companies}
    assert [each.parent.name for each in left["default"]] == ["a-run"]
    assert left[COMPANY] == left["zoo"] == []

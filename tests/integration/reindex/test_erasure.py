"""An erasure beside a reindex: no collection keeps anything, neither one that is filled nor one that is kept."""

from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from qdrant_client.models import PointStruct
from support.memories import record
from support.present import present
from support.reindex_fixture import ONE_PAGE, ReindexWorld

from memcore.backends.mem0.backend import Mem0Backend
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.erasure.checkpoints import TrainedCheckpoints
from memcore.erasure.files import AgentFiles
from memcore.erasure.points import AgentPoints
from memcore.erasure.queues import BrokerMessages
from memcore.erasure.receipt import ErasureReceipt, verified
from memcore.erasure.service import DRAIN_DELAY, ErasureService
from memcore.jobs import Deferred, Done, Outcome
from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.collections import ReindexStage
from memcore.ledger.erasure.shared_rows import HistoryRows
from memcore.ledger.organization.audit import Confirmation
from memcore.records import Where

#: More memories than a page of the copying has: some of each agent are copied, and some are not.
EACH = 400

WORD = Confirmation(actor="grace", confirm=True, reason="ada has left")

#: Whose memory goes: all of an agent, or those of a person.
WHOSE = [None, "user:ann"]


async def filled(backend: Mem0Backend) -> None:
    for agent_id, namespace in (("ada", "user:ann"), ("ada", "user:eve"), ("bob", "default")):
        await backend.store_many(
            [record(agent_id, f"{namespace} {n} {uuid4()}", namespace=namespace) for n in range(EACH)]
        )


def service(world: ReindexWorld, backend: Mem0Backend, home: Path) -> ErasureService:
    settings = Settings(
        company=world.company,
        home=home,
        broker_url="redis://127.0.0.1:1/0",
        result_url="redis://127.0.0.1:1/0",
        database_url=world.urls.ledger,
        journal_url=world.urls.journal,
        history_url=world.place.history_url,
        qdrant_url=world.place.url,
    )
    return ErasureService(
        world.ledger,
        backend,
        AgentPoints(world.place, world.ledger, company=world.company),
        HistoryRows(world.place.history_url),
        AgentFiles(settings, Policy(), world.ledger, backend),
        BrokerMessages("amqp://127.0.0.1:1//"),
        TrainedCheckpoints(world.ledger, company=world.company, home=home),
        company=world.company,
        home=home,
        clock=world.clock,
    )


class Erasing:
    """One erasure, attempted by worker after worker."""

    def __init__(self, world: ReindexWorld, backend: Mem0Backend, home: Path, subject: str | None) -> None:
        self._world, self._service = world, service(world, backend, home)
        erasure = world.ledger.erasures.request(world.company, "ada", confirmation=WORD, subject=subject)
        self.erasure_id, self.subject = erasure.erasure_id, subject

    async def attempt(self) -> Outcome:
        self._world.clock.now += DRAIN_DELAY + LEASE_LENGTH
        return await self._service.run(self.erasure_id)

    def left(self) -> dict[str, set[str]]:
        """Return of each collection whose points are there that should be gone, and of the others how many kinds."""
        pointer = self._world.pointer
        names = {each.name for each in (pointer.current, pointer.target, pointer.previous) if each is not None}
        gone = {"user:ann", "user:eve"} if self.subject is None else {self.subject}
        return {
            name: {payload["namespace"] for payload, _ in self._world.points(name).values()} & gone
            for name in sorted(names)
        }

    def found(self) -> int:
        done = present(self._world.ledger.erasures.get(self._world.company, self.erasure_id))
        assert done.receipt is not None
        return verified(done.receipt, self._world.ledger.signing_keys.all(), ErasureReceipt).places["store"].found


@pytest.mark.parametrize("subject", WHOSE)
async def test_during_a_reindex_it_empties_both_collections_and_ends_behind_it(
    world: ReindexWorld, backend: Mem0Backend, tmp_path: Path, subject: str | None
) -> None:
    await filled(backend)
    await world.begin()
    await world.slice(lasts=ONE_PAGE)
    reindex = present(world.ledger.reindexes.last(world.company))
    assert reindex.stage is ReindexStage.COPYING
    assert 0 < reindex.looked_at < 3 * EACH
    target = present(world.pointer.target)
    before = world.points(world.pointer.current.name)
    stale = [
        PointStruct(id=key, payload=payload, vector=vector)
        for key, (payload, vector) in before.items()
        if payload["namespace"] == "user:ann"
    ][:5]

    erasing = Erasing(world, backend, tmp_path, subject)
    waits = await erasing.attempt()
    assert isinstance(waits, Deferred)
    assert waits.reason.startswith("a reindex has not ended")
    assert erasing.left() == {world.pointer.current.name: set(), target.name: set()}
    # A page that the reindex had read before is written behind it.
    world.reindex_target._client.upsert(target.name, stale)

    await world.finish()
    assert isinstance(await erasing.attempt(), Done)
    assert list(erasing.left().values()) == [set(), set()]
    assert erasing.found() >= EACH
    assert await backend.count_where(Where(agent_id="bob")) == EACH
    assert await backend.count_where(Where(agent_id="ada")) == (0 if subject is None else EACH)


@pytest.mark.parametrize("subject", WHOSE)
async def test_the_collection_that_is_kept_from_before_is_emptied_too(
    world: ReindexWorld, backend: Mem0Backend, tmp_path: Path, subject: str | None
) -> None:
    await filled(backend)
    await world.begin()
    await world.finish()
    world.clock.now += timedelta(seconds=5)
    assert world.pointer.previous is not None
    erasing = Erasing(world, backend, tmp_path, subject)
    assert all(erasing.left().values())
    assert len(erasing.left()) == 2
    assert isinstance(await erasing.attempt(), Done)
    assert not any(erasing.left().values())
    # Of an agent both people, of both collections.
    assert erasing.found() == 2 * EACH * (2 if subject is None else 1)
    assert await backend.count_where(Where(agent_id="bob")) == EACH

"""A blocked reindex: how it is reported, and that it goes on afterwards."""

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.memories import new_agent, record
from support.present import present
from support.reindex_fixture import ONE_PAGE, ReindexWorld, SidedEmbedder

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.reindex_target import SyncResult
from memcore.jobs import Deferred, Done, Skipped
from memcore.ledger.attempt import LEASE_LENGTH
from memcore.ledger.collections import Phase
from memcore.reindex import FREEZE, FRESH
from memcore.telemetry.events import Event


async def test_an_embedder_that_changed_under_it_is_told_and_what_serves_goes_on(
    world: ReindexWorld, backend: Mem0Backend, caplog: pytest.LogCaptureFixture
) -> None:
    agent = new_agent()
    await backend.store_many([record(agent)])
    await world.begin()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "support.reindex_fixture.SidedEmbedder.name", property(lambda _: "another release of the model")
        )
        slice_ = await world.slice()
    assert slice_ is not None
    assert (slice_.outcome, slice_.goes_on) == (Deferred(reason="MemoryConfigError"), False)
    reindex = present(world.ledger.reindexes.last(world.company))
    assert "memtend reindex --cancel" in (reindex.reason or "")
    assert [vars(one)["error"] for one in caplog.records if one.msg == Event.MEMORY_REINDEX_TROUBLE] == [
        "MemoryConfigError"
    ]

    await backend.store_many([record(agent)])
    await world.finish()
    assert len(world.points(world.pointer.current.name)) == 2
    reindex = present(world.ledger.reindexes.last(world.company))
    assert reindex.reason is None


async def test_a_collection_that_is_gone_is_not_taken_for_a_full_one(world: ReindexWorld, backend: Mem0Backend) -> None:
    await backend.store_many([record(new_agent()) for _ in range(300)])
    begun = await world.begin()
    assert begun.target is not None
    await world.slice(lasts=ONE_PAGE)
    await world.reindex_target.drop(begun.target.name)
    await world.slice()
    reindex = present(world.ledger.reindexes.last(world.company))
    assert "is gone" in (reindex.reason or "")
    assert world.pointer.current == begun.current

    await world.planning.cancel()
    again = await world.begin()
    assert again.target is not None
    assert again.target.name != begun.target.name
    await world.finish()
    assert len(world.points(again.target.name)) == 300


async def test_writes_that_were_stopped_for_too_long_go_on_without_a_switch(
    world: ReindexWorld, backend: Mem0Backend, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    await backend.store_many([record(new_agent())])
    begun = await world.begin()
    await world.slice(lasts=timedelta(milliseconds=1))
    await backend.store_many([record(new_agent())])

    # A comparison takes too long for the writes, and not too long for the lease.
    page = world.reindex_target.page

    async def slowly(*args: Any, owners: Sequence[str] | None, **options: Any) -> SyncResult:
        done = await page(*args, owners=owners, **options)
        world.clock.now += timedelta(0) if owners is None else FREEZE
        return done

    with monkeypatch.context() as patched:
        patched.setattr(world.reindex_target, "page", slowly)
        slow = await world.slice(lasts=timedelta(hours=1))
    assert slow is not None
    assert isinstance(slow.outcome, Done)
    assert not slow.goes_on, "the sweep rings later: writes have a while for themselves"
    assert (world.pointer.phase, world.pointer.current) == (Phase.FILLING, begun.current)
    assert [one.msg for one in caplog.records if one.name == "memcore.reindex"] == [Event.MEMORY_REINDEX_THAWED]

    await world.finish()
    assert world.pointer.current == begun.target
    switched = [vars(one)["generation"] for one in caplog.records if one.msg == Event.MEMORY_REINDEX_SWITCHED]
    assert switched == [2]


async def test_a_write_is_sent_soon_after_the_owner_was_confirmed_and_never_by_another(
    world: ReindexWorld, backend: Mem0Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    await backend.store_many([record(new_agent()) for _ in range(300)])
    begun = await world.begin()
    assert begun.target is not None
    reindexes, api = world.ledger.reindexes, world.reindex_target._client.http.points_api
    embed, renew, upsert = SidedEmbedder.embed_documents, reindexes.renew, api.upsert_points
    takes = timedelta(seconds=20)
    confirmed, ages = [world.clock.now], list[timedelta]()

    def slowly(embedder: SidedEmbedder, texts: Sequence[str], /) -> NDArray[np.float32]:
        world.clock.now += takes
        return embed(embedder, texts)

    def renewed(*args: Any, **options: Any) -> None:
        renew(*args, **options)
        confirmed.append(world.clock.now)

    def sent(*args: Any, **options: Any) -> Any:
        ages.append(world.clock.now - confirmed[-1])
        return upsert(*args, **options)

    monkeypatch.setattr(SidedEmbedder, "embed_documents", slowly)
    monkeypatch.setattr(reindexes, "renew", renewed)
    monkeypatch.setattr(api, "upsert_points", sent)
    await world.slice(lasts=ONE_PAGE)
    assert len(confirmed) > 2
    assert ages
    assert max(ages) < FRESH

    ages.clear()
    takes = LEASE_LENGTH
    late = present(await world.slice())
    assert isinstance(late.outcome, Skipped)
    assert ages == []

"""A crash at every step of a publication and of a retraction: searches see the version before it, or the one after."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import count

import pytest
from support.collection_setup import active_collection_of, switch_collection
from support.fault_injection import Crash, Faults
from support.memories import StoppedClock
from support.publications import MakeBackend, reported

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.shared import SharedKnowledge
from memcore.errors import MemoryStoreError
from memcore.models.memory import MemoryMetadata, MemoryQuery, MemoryStoreRequest
from memcore.telemetry.events import Event

#: The calls between which it crashes are the same on PostgreSQL; each is one transaction, which test_shared_log holds.
pytestmark = pytest.mark.parametrize("place", ["sqlite"], indirect=True)

#: Longer than a search lets a line of the log stay open.
OVERDUE = timedelta(seconds=5)


def fact(tag: str) -> MemoryStoreRequest:
    return reported(f"memory of {tag}", metadata=MemoryMetadata(tags=(tag,)))


async def publish(backend: Mem0Backend, tag: str) -> None:
    await backend.publish("ada", fact(tag))


async def retract(backend: Mem0Backend, tag: str) -> None:
    for entry in await backend.search_shared(MemoryQuery(tags=(tag,)), exclude_agent="bob"):
        await backend.retract("ada", entry.id)


#: What is done before, and what is then done with a crash.
STORIES: dict[str, tuple[tuple[Callable[[Mem0Backend, str], Awaitable[None]], ...], bool]] = {
    "a publication": ((publish,), True),
    "a retraction": ((publish, retract), False),
    "a publication after a retraction": ((publish, retract, publish), True),
}


def sharing(backend: Mem0Backend) -> SharedKnowledge:
    assert backend._opened is not None
    assert backend._opened.shared is not None
    return backend._opened.shared


async def ids_of(backend: Mem0Backend, tag: str) -> list[str]:
    by_word = await backend.search_shared(MemoryQuery(text=f"memory of {tag}", tags=(tag,)))
    newest = await backend.search_shared(MemoryQuery(tags=(tag,)))
    assert {entry.id for entry in by_word} == {entry.id for entry in newest}
    assert all(entry.content == f"memory of {tag}" for entry in newest)
    return [entry.id for entry in newest]


@pytest.mark.parametrize("steps", STORIES)
async def test_a_crash_between_two_steps_leaves_the_old_or_the_new_version(
    steps: str, make_backend: MakeBackend, clock: StoppedClock
) -> None:
    (*before, last), is_there_after = STORIES[steps]
    others = make_backend()
    await others.connect()
    point = 0
    for point in count():
        tag = f"{steps} {point}"
        for step in before:
            await step(others, tag)
        old, old_version = await ids_of(others, tag), await others.shared_version()
        dying, faults = make_backend(), Faults(point)
        await dying.connect()
        shared = sharing(dying)
        unwatched = shared._log
        shared._log = faults.watched(shared._log, "log")
        switch_collection(dying, writer=faults.watched(active_collection_of(dying).writer, "points"))
        try:
            await last(dying, tag)
        except Crash:
            pass
        else:
            break
        finally:
            shared._log = unwatched
            await dying.disconnect()

        at_once, version = await ids_of(others, tag), await others.shared_version()
        assert (version, at_once == old) in {(old_version, True), (old_version + 1, False)}, faults.calls
        # Whoever comes next carries out what is open: a search after a while, or the next publication at once.
        if point % 2:
            clock.now += OVERDUE
        else:
            await others.publish("bob", fact(f"another {tag}"))
        is_written = any(name in faults.calls[:point] for name in ("log.publish", "log.retract"))
        assert (await ids_of(others, tag) != old) == is_written, faults.calls
        assert [e.id for e in await others.search_shared(MemoryQuery(tags=(tag,)), version=old_version)] == old
        assert sharing(others)._log.standing(others._company).open_since is None

        await last(others, tag)
        assert bool(await ids_of(others, tag)) == is_there_after
    assert point >= 5, "there are too few steps for this to mean anything"
    await others.disconnect()


async def test_a_search_that_cannot_repair_sees_the_version_before(
    make_backend: MakeBackend, clock: StoppedClock, caplog: pytest.LogCaptureFixture
) -> None:
    def strike() -> None:
        raise MemoryStoreError("the store is full")

    backend, query = make_backend(), MemoryQuery(tags=("one",))
    await backend.connect()
    await publish(backend, "one")
    writer = active_collection_of(backend).writer
    # The first call makes the vectors; the second one is the store's.
    switch_collection(backend, writer=Faults(1, strike=strike).watched(writer, "points"))
    with pytest.raises(MemoryStoreError):
        await publish(backend, "two")

    clock.now += OVERDUE
    switch_collection(backend, writer=Faults(0, strike=strike).watched(writer, "points"))
    assert await backend.shared_version() == 1
    (event,) = [one for one in caplog.records if one.msg == Event.MEMORY_SHARED_OVERDUE]
    assert vars(event)["version"] == 2
    switch_collection(backend, writer=writer)
    assert len(await ids_of(backend, "one")) == 1
    assert await backend.shared_version() == 2
    assert len(await backend.search_shared(query, version=1)) == 1
    await backend.disconnect()

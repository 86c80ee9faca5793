"""What is to be erased is hidden from every reader at once, whatever the erasure waits for, and also when it fails."""

import pytest
from sqlalchemy import update
from support.conversations import record_turn
from support.erasure_world import WORD, ErasureWorld
from support.frozen_parts import AGENT
from support.kept_conversations import fact, keep
from support.ledger_records import COMPANY
from support.readers import reading
from support.store_items import item

from memcore.jobs import Deferred
from memcore.ledger.collections import ReindexKind
from memcore.ledger.tables import ERASE_WORK, work_items
from memcore.ledger.work_items import WorkState
from memcore.models.conversation import Owner

#: Readers that show something of an agent that has used every feature.
_SHOWING = 14


async def test_no_reader_is_shown_an_agent_from_the_moment_that_its_erasure_is_asked_for(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for agent_id in (AGENT, "bob"):
        await world.fill(agent_id)
    async with reading(world, monkeypatch) as readers:
        assert len(await readers.showing(world.secrets[AGENT])) >= _SHOWING
        pointers = world.ledger.collection_pointers
        now = pointers.get(COMPANY)
        assert now is not None
        stuck = now.current.model_copy(update={"name": "next", "generation": 2})
        pointers.begin(COMPANY, version=now.version, target=stuck, kind=ReindexKind.FORWARD, total=1)

        erasure_id = world.ledger.erasures.request(COMPANY, AGENT, confirmation=WORD).erasure_id
        assert await readers.showing(world.secrets[AGENT]) == set()
        # What others have of it is hidden too: copies of its lessons, its publications and its skills.
        engine = (await readers.service()).engine
        for other in ("bob", "carol"):
            shown = [each.content for each in (await engine.list(other, limit=256)).entries]
            shown += [each.content for each in await engine.prepare(other, "the code is today", token_budget=4_000)]
            assert not [each for each in world.secrets[AGENT] if each in "\n".join(shown)]
        assert await engine.count("bob") == len(await world.memories("bob"))

        # It waits, and then it fails.
        assert isinstance(await world.service().run(erasure_id), Deferred)
        assert await readers.showing(world.secrets[AGENT]) == set()
        failed = update(work_items).where(ERASE_WORK).values(state=WorkState.FAILED.value)
        world.ledger.erasures._database.change(failed)
        assert await readers.showing(world.secrets[AGENT]) == set()


async def test_no_reader_is_shown_a_person_and_others_of_the_agent_are_there(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = {name: Owner(agent_id=AGENT, subject=f"user:{name}") for name in ("ann", "eve")}
    for name, owner in people.items():
        written = [item(world.secret(name), agent_id=AGENT, namespace=owner.subject, sent_at=world.clock())]
        await world.ingestor().write(written)
        record_turn(world.ledger, name, owner=owner, session_id=name, user_text=world.secret(name))
        keep(world.ledger, owner, fact(f"fact-{name}", world.secret(name), at=world.clock()))
    async with reading(world, monkeypatch) as readers:
        world.ledger.erasures.request(COMPANY, AGENT, subject="user:ann", confirmation=WORD)
        assert await readers.showing(world.secrets["ann"]) == set()
        service = await readers.service()
        engine, talks = service.engine, service.conversation
        assert await engine.namespaces(AGENT) == ("user:eve",)
        assert await engine.count(AGENT) == 1
        assert await talks.subjects(AGENT) == ("user:eve",)
        counts = {name: (await engine.conversation_status(AGENT, user_id=name)).semantic for name in people}
        assert counts == {"ann": 0, "eve": 1}
        assert {name: len(await talks.facts(owner)) for name, owner in people.items()} == {"ann": 0, "eve": 1}
        loaded = {name: await engine.load_turn(AGENT, "the code is today", user_id=name) for name in people}
        assert {name: len(each.facts) for name, each in loaded.items()} == {"ann": 0, "eve": 1}

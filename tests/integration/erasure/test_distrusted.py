"""What came of a distrusted source is shown by no door, at once; what the others said still is."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.erasure_world import ErasureWorld
from support.frozen_parts import AGENT, reading_calls
from support.readers import Readers, reading
from support.store_items import item

from memcore.jobs import StoreItem
from memcore.models.conversation import Owner
from memcore.models.memory import MemoryMetadata
from memcore.models.origin import Channel, Origin

SCRAPED = Origin(channels=(Channel.TOOL,), principals=("scraper",))
OWNER = Owner(agent_id=AGENT, subject="user:ann")
TRUE, FALSE = "clean", "scraped"

#: Readers that show something of a memory, and the status of what was made.
_SHOWING, _CREATED = 10, 201

RULES: list[dict[str, Any]] = [
    {"principal": "scraper"},
    {"channel": "tool", "agent_id": AGENT},
    {"source": "crawler"},
    {"session_id": "s-9", "agent_id": AGENT},
]


async def filled(world: ErasureWorld) -> dict[str, list[StoreItem]]:
    """Let two writers use the agent's memory: its engine, and a scraper with a key of its own."""
    every: dict[str, list[StoreItem]] = {}
    for who in (TRUE, FALSE):
        is_scraped = who == FALSE
        written = [
            item(world.secret(who), agent_id=AGENT, sent_at=world.clock(), session_id="s-9" if is_scraped else "s-1")
            for _ in range(6)
        ]
        if is_scraped:
            source = MemoryMetadata(source="crawler")
            written = [
                each.model_copy(
                    update={"origin": SCRAPED, "request": each.request.model_copy(update={"metadata": source})}
                )
                for each in written
            ]
        await world.ingestor().write(written)
        world.clock.now += timedelta(seconds=1)
        every[who] = written
    return every


async def test_no_reader_is_shown_what_came_of_it(world: ErasureWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    written = await filled(world)
    async with reading(world, monkeypatch) as readers:
        # Each call asks for one of its memories, by its id or its text.
        about = {
            who: replace(readers, calls=reading_calls(readers.api, items[0].id, question=items[0].request.content))
            for who, items in written.items()
        }
        for rule in RULES:
            await _hidden_and_shown(about, world, rule)


async def _shown(about: dict[str, Readers], world: ErasureWorld) -> dict[str, set[str]]:
    return {who: await about[who].showing(world.secrets[who]) for who in (TRUE, FALSE)}


async def _hidden_and_shown(about: dict[str, Readers], world: ErasureWorld, rule: dict[str, Any]) -> None:
    before, client = await _shown(about, world), about[TRUE].client
    assert before[TRUE] == before[FALSE]
    assert len(before[FALSE]) >= _SHOWING
    plan = await client.post("/v1/distrusts:plan", json=rule)
    assert plan.json() == {"agents": [{"agent_id": AGENT, "memories": 6, "in_store": 6, "returning": 0}]}, plan.text
    said = {"reason": "its site was taken over", "confirm": True}
    added = await client.post("/v1/distrusts", json={**rule, **said})
    assert added.status_code == _CREATED, added.text
    assert await _shown(about, world) == {TRUE: before[TRUE], FALSE: set()}, rule
    place = f"/v1/distrusts/{added.json()['distrust_id']}"
    listed = (await client.get(place)).json()
    assert len(listed["memories"][AGENT]) == 6
    assert listed["distrust"]["reached_at"]
    lifted = await client.post(f"{place}/lift", json=said)
    assert lifted.json()["lifted_at"], lifted.text
    assert await _shown(about, world) == before

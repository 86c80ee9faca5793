"""A key with a least authority is shown nothing below it, whatever call it reads with, and another key all of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from support.erasure_world import ErasureWorld
from support.frozen_parts import AGENT, reading_calls
from support.hashing_embedder import HashingEmbedder
from support.http_api import http_api
from support.kept_conversations import fact, keep
from support.ledger_records import COMPANY
from support.lessons import lesson
from support.memories import record
from support.readers import Readers

import ops.http.context
from memcore.ledger.consolidation_groups import ConsolidationGroup, GroupState
from memcore.ledger.learning.skills import Skill, SkillSource, SkillState
from memcore.ledger.runs import NewRun
from memcore.models.archival import ArchivalMode
from memcore.models.conversation import Owner
from memcore.models.memory import MemoryCategory
from memcore.models.organization import OrgFactAuthor, OrgFactCategory, OrgFactWriteRequest, SeniorityLevel
from memcore.models.origin import Origin
from memcore.records import Where
from memcore.skills.publication import promotion

BY_AGENT = OrgFactAuthor(agent_id="scout", seniority=SeniorityLevel.SENIOR)

#: What agents have written, and what a person has, by the name of its secrets.
OF_AGENTS, OF_PEOPLE = AGENT, "people"


async def _everything(world: ErasureWorld) -> dict[str, str]:
    """Let agents use every feature, and return the ids that calls name."""
    await world.fill(AGENT)
    ledger, at = world.ledger, world.clock()
    owner = Owner(agent_id=AGENT, subject="user:bo")
    keep(ledger, owner, fact("fact-bo", world.secret(AGENT), at=at))
    wanted = {"category": OrgFactCategory.CORE_POLICY, "content": world.secret(AGENT)}
    said = ledger.org.publish(COMPANY, "policy", OrgFactWriteRequest.model_validate(wanted), author=BY_AGENT)
    wanted["content"] = world.secret(OF_PEOPLE)
    person = OrgFactAuthor(is_human=True, name="grace")
    ledger.org.publish(COMPANY, "person", OrgFactWriteRequest.model_validate(wanted), author=person)
    archived = record(AGENT, world.secret(AGENT))
    ledger.archive.put(COMPANY, archived, mode=ArchivalMode.EXTRACTIVE, archived_at=at)
    page = await world.backend.scan(Where(agent_id=AGENT), limit=2)
    first, second = (each.entry.id for each in page.records)
    run = ledger.runs.create(NewRun(company=COMPANY, agent_id=AGENT, planned_at=at))
    assert run is not None
    group = ConsolidationGroup(
        company=COMPANY,
        run_id=run.run_id,
        agent_id=AGENT,
        category=MemoryCategory.SEMANTIC,
        strategy="extractive",
        state=GroupState.PROPOSED,
        source_ids=(first, second),
    )
    ledger.consolidation_groups.note([group])
    text = lesson(discovery=world.secret(AGENT))
    skill = Skill(
        skill_id="skill",
        approval_id="of-the-skill",
        pattern_id="pattern",
        state=SkillState.ACTIVE,
        confidence=0.5,
        text=text.model_dump_json(),
        published_at=at,
        changed_at=at,
    )
    ledger.skills.put(COMPANY, skill)
    source = SkillSource(agent_id=AGENT, lesson_id="l", memory_id="m", origin=Origin(), created_at=at)
    made = promotion(
        text, title=world.secret(AGENT), pattern_id="pattern", cycle_id="cycle", figures={}, sources=[source]
    )
    ledger.approvals.file(COMPANY, "of-the-skill", made, lasts=timedelta(days=9))
    return {
        "fact_id": said.fact_id,
        "run_id": run.run_id,
        "entry_id": archived.entry.id,
        "skill_id": "skill",
        "approval_id": "of-the-skill",
    }


@asynccontextmanager
async def _reading(
    world: ErasureWorld, patch: pytest.MonkeyPatch, ids: dict[str, str], **key: Any
) -> AsyncIterator[Readers]:
    patch.setattr(ops.http.context, "create_configured_embedder", lambda *_: HashingEmbedder())
    async with http_api(world.settings) as api, api.client(api.key(**key)) as client:
        kept = (await world.backend.scan(Where(agent_id=AGENT), limit=1)).records[0].entry
        yield Readers(api=api, client=client, calls=reading_calls(api, kept.id, question=kept.content, **ids))


#: Calls that show something of what agents wrote to a key without one.
SHOWING = {
    "GET /v1/agents/{agent_id}/archive",
    "GET /v1/agents/{agent_id}/archive/{entry_id}",
    "GET /v1/agents/{agent_id}/memories",
    "GET /v1/agents/{agent_id}/memories/{memory_id}",
    "GET /v1/agents/{agent_id}/memories/{memory_id}/history",
    "GET /v1/approvals/{approval_id}",
    "GET /v1/approvals",
    "GET /v1/org/facts",
    "GET /v1/org/facts/{fact_id}",
    "GET /v1/org/facts:at",
    "GET /v1/org/log",
    "GET /v1/runs/{run_id}/groups",
    "GET /v1/skills",
    "GET /v1/skills/{skill_id}",
    f"POST /v1/agents/{AGENT}/conversations/load",
    f"POST /v1/agents/{AGENT}/search",
    "POST /v1/org/search",
}


async def test_no_call_shows_a_key_less_than_its_least_authority(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await _everything(world)
    at = f"?at={(world.clock() + timedelta(days=1)).isoformat().replace('+00:00', 'Z')}"
    shown = dict[str, dict[str, set[str]]]()
    for least in (None, "instruct"):
        async with _reading(world, monkeypatch, ids, channel="agent", min_authority=least) as readers:
            method, path, body = readers.calls["GET /v1/org/facts:at"]
            readers.calls["GET /v1/org/facts:at"] = (method, path + at, body)
            shown[str(least)] = {whose: await readers.showing(world.secrets[whose]) for whose in (OF_AGENTS, OF_PEOPLE)}
    assert shown["None"][OF_AGENTS] >= SHOWING, SHOWING - shown["None"][OF_AGENTS]
    # A registered test is what an operator wrote, whatever it asks for.
    assert shown["instruct"][OF_AGENTS] <= {"GET /v1/memory-tests"}, shown["instruct"][OF_AGENTS]
    of_people = {"GET /v1/org/facts", "GET /v1/org/facts:at", "GET /v1/org/log"}
    assert shown["None"][OF_PEOPLE] >= of_people
    assert shown["instruct"][OF_PEOPLE] >= of_people

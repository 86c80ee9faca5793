"""What is made of the finished tasks of a distrusted key or session is shown by no door, and all of it again later."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from support.erasure_world import POLICY, WORD, ErasureWorld
from support.experiences import experience
from support.fake_teacher import LESSON, FakeTeacher
from support.frozen_parts import AGENT, reading_calls
from support.http_api import HttpApi, http_api
from support.learning_fixture import FAILED
from support.ledger_records import COMPANY
from support.lessons import answer, lesson
from support.readers import Readers, reading
from support.store_items import item

from memcore.backends.mem0.backend import Mem0Backend
from memcore.client.envelopes import OutgoingJob
from memcore.client.publisher import JobResults
from memcore.config.learning import ProceduralMemoryConfig
from memcore.config.maintenance import ConsolidationConfig
from memcore.distillation import Capture
from memcore.experience import CompressionService
from memcore.jobs import DistillPayload, Done
from memcore.ledger.access.keys import Verb
from memcore.ledger.erasure.reach import reach_of
from memcore.ledger.learning.skills import SkillSource, SkillState
from memcore.models.approval import Decision
from memcore.models.distrust import DistrustRule
from memcore.models.execution import ExecutionTrace
from memcore.models.memory import DETAILED_TAG, MemoryLevel, MemoryMetadata, MemoryQuery
from memcore.models.origin import OWN, Channel, Origin
from memcore.procedural.service import LearningService
from memcore.records import Where
from memcore.remote import AsyncRemoteMemory
from memcore.remote.connection import AsyncConnection
from memcore.remote.requests import Address
from memcore.skills.publication import SkillApprovals, promotion, superseded_skill

TRUE, FALSE = "clean", "scraped"
SESSIONS = {TRUE: "s-1", FALSE: "s-9"}

#: Readers that show something of what was learned.
_SHOWING = 8


@dataclass
class Tasks:
    """Tasks that two keys reported, and what came of them."""

    world: ErasureWorld
    keys: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, DistillPayload] = field(default_factory=dict)

    async def learned(self, name: str, payload: DistillPayload) -> None:
        """Do what the workers do with a reported task: capture it, draw its lesson, compress its experience."""
        world, config = self.world, ProceduralMemoryConfig()
        self.tasks[name] = payload
        capture = Capture(
            world.ledger,
            lambda item: asyncio.run(world.ingestor().write([item])),
            level=MemoryLevel.PERSISTENT,
            procedural=config,
            clock=world.clock,
        )
        assert isinstance(await asyncio.to_thread(capture.take, payload), Done)
        said = payload.trace.task_title.split("; ")[-1]
        teacher = FakeTeacher(always=answer(discovery=f"A full disk stops the nightly import: {said}."))
        service = LearningService(
            world.backend,
            world.ledger,
            config,
            company=COMPANY,
            level=MemoryLevel.PERSISTENT,
            model=teacher,
            clock=world.clock,
        )
        assert await service.extract_lesson(payload.trace_id) == Done(facts={"stored": 1})
        policy = ConsolidationConfig.model_validate({"experience_compressor": {"enabled": True}})
        world.ledger.compressions.request_for(COMPANY, AGENT)
        said_too = json.dumps({**LESSON, "strategic_decisions": [f"Look at the disk first: {said}."]})
        compressor = CompressionService(
            world.backend,
            world.ledger,
            policy,
            company=COMPANY,
            level=MemoryLevel.PERSISTENT,
            model=FakeTeacher(always=said_too),
            clock=world.clock,
        )
        assert (await compressor.run(AGENT)).outcome == Done(facts={"compressed": 1})
        world.clock.now += timedelta(seconds=1)

    async def made_of(self, name: str) -> list[str]:
        """Return the ids of what came of a task: its own memory, the lesson, what its experience was compressed to."""
        records = (await self.world.backend.scan(Where(agent_id=AGENT))).records
        return [each.entry.id for each in records if self.world.secrets[name][0] in each.entry.content]


def _trace(world: ErasureWorld, who: str) -> ExecutionTrace:
    said = world.secret(who)
    text = f"The import failed as it had before, with no space left on device: {said}. " * 12
    title, error = f"Mend the nightly import; {said}", f"no space left on device; {said}"
    fields: dict[str, Any] = {**FAILED, "task_title": title, "error_message": error, "output": text}
    return ExecutionTrace(task_id=f"task-{who}", ended_at=world.clock(), prompt=text, **fields)


async def _reported(
    opened: HttpApi, token: str, who: str, trace: ExecutionTrace, patch: pytest.MonkeyPatch, *, by: str
) -> DistillPayload:
    """Report a task with a key, over HTTP or by the remote client, and return the job that was sent."""
    sent: list[OutgoingJob] = []

    def send(_self: object, _task: str, jobs: Sequence[OutgoingJob], **_more: object) -> None:
        sent.extend(jobs)

    with patch.context() as patched:
        patched.setattr(JobResults, "send_many", send)
        async with opened.client(token) as client:
            if by == "http":
                body = {"trace": trace.model_dump(mode="json"), "session_id": SESSIONS[who]}
                answered = await client.post(f"/v1/agents/{AGENT}/distill", json=body)
                assert answered.status_code == 202, answered.text
                forged = await client.post(
                    f"/v1/agents/{AGENT}/distill", json={**body, "origin": {"principals": ["k"]}}
                )
                assert forged.status_code == 422, forged.text
            else:
                address = Address(url="http://localhost", key=token)
                transport = httpx.ASGITransport(app=opened.app)
                async with AsyncRemoteMemory(AsyncConnection(address, transport=transport)) as remote:
                    await remote.distill(AGENT, trace, session_id=SESSIONS[who])
    (job,) = sent
    return DistillPayload.model_validate_json(job.payload)


async def _played(world: ErasureWorld, patch: pytest.MonkeyPatch, *, by: str = "http") -> Tasks:
    found = Tasks(world)
    async with http_api(world.settings) as opened:
        for who in (TRUE, FALSE):
            token = opened.key(agents=[AGENT], verbs=(Verb.READ, Verb.WRITE))
            (found.keys[who],) = (
                each.key_id for each in world.ledger.api_keys.list(COMPANY) if each.key_id not in found.keys.values()
            )
            await found.learned(who, await _reported(opened, token, who, _trace(world, who), patch, by=by))
    return found


async def _shown(readers: Readers, tasks: Tasks) -> dict[str, set[tuple[str, str]]]:
    """Return which readers show what came of each task."""
    shown: dict[str, set[tuple[str, str]]] = {}
    for who in (TRUE, FALSE):
        shown[who] = set()
        for number, memory_id in enumerate(await tasks.made_of(who)):
            calls = reading_calls(readers.api, memory_id, question=f"the code is {tasks.world.secrets[who][0]} today")
            each = replace(readers, calls=calls)
            shown[who] |= {(str(number), name) for name in await each.showing(tasks.world.secrets[who])}
    return shown


async def test_no_reader_is_shown_what_a_distrusted_task_has_taught(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = await _played(world, monkeypatch)
    for who in (TRUE, FALSE):
        origin = Origin(principals=(tasks.keys[who],))
        made = await world.backend.get_many(AGENT, await tasks.made_of(who))
        assert [each.entry.origin for each in made] == [origin] * 3
    rules = (
        DistrustRule(principal=tasks.keys[FALSE]),
        DistrustRule(principal=tasks.keys[FALSE], agent_id=AGENT),
        DistrustRule(session_id=SESSIONS[FALSE], agent_id=AGENT),
        DistrustRule(memory_id=tasks.tasks[FALSE].trace_id, agent_id=AGENT),
    )
    async with reading(world, monkeypatch) as readers:
        before = await _shown(readers, tasks)
        assert before[TRUE] == before[FALSE]
        assert {number for number, _ in before[FALSE]} == {"0", "1", "2"}
        assert len(before[FALSE]) >= 3 * _SHOWING
        service = await readers.service()
        for rule in rules:
            (planned,) = (await service.distrusts.plan(rule)).agents
            assert (planned.agent_id, planned.memories, planned.in_store) == (AGENT, 3, 3)
            distrust = await service.distrusts.distrust(rule, confirmation=WORD)
            assert await _shown(readers, tasks) == {TRUE: before[TRUE], FALSE: set()}, rule
            (listed,) = await service.agents.lessons(AGENT)
            assert listed.lesson_id == tasks.tasks[TRUE].trace_id
            await service.distrusts.lift(distrust.distrust_id, confirmation=WORD)
            assert await _shown(readers, tasks) == before, rule
            assert len(await service.agents.lessons(AGENT)) == 2


@pytest.mark.parametrize("names", ["principal", "session_id"])
async def test_what_is_learned_of_it_from_then_on_is_hidden_too(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    async with http_api(world.settings) as opened:
        token = opened.key(agents=[AGENT], verbs=(Verb.READ, Verb.WRITE))
        (key,) = world.ledger.api_keys.list(COMPANY)
        said = {"principal": key.key_id} if names == "principal" else {"session_id": SESSIONS[FALSE]}
        rule = DistrustRule.model_validate({**said, "agent_id": AGENT})
        distrust = world.ledger.distrusts.add(COMPANY, rule, WORD)
        tasks = Tasks(world)
        trace = _trace(world, FALSE)
        await tasks.learned(FALSE, await _reported(opened, token, FALSE, trace, monkeypatch, by="remote"))
    made = await world.backend.get_many(AGENT, await tasks.made_of(FALSE))
    assert len(made) == 3
    assert all(world.ledger.hidden.of(COMPANY).distrusts_memory(each.entry) for each in made)
    world.ledger.distrusts.lift(COMPANY, distrust.distrust_id, WORD)
    assert not any(world.ledger.hidden.of(COMPANY).distrusts_memory(each.entry) for each in made)


async def test_tasks_of_older_releases_are_read_and_a_rule_on_their_session_reaches_their_lesson(
    world: ErasureWorld,
) -> None:
    tasks = Tasks(world)
    old = DistillPayload(
        company=COMPANY,
        agent_id=AGENT,
        trace_id="0a5f7d9e-5a3e-4c53-8a77-1f6f0b6a4a10",
        trace=_trace(world, FALSE),
        sent_at=world.clock(),
        session_id=SESSIONS[FALSE],
    )
    assert old.version == 1
    await tasks.learned(FALSE, old)
    made = await tasks.made_of(FALSE)
    assert [each.entry.origin for each in await world.backend.get_many(AGENT, made)] == [OWN] * 3
    rule = DistrustRule(memory_id=old.trace_id, agent_id=AGENT)
    assert reach_of(world.ledger, COMPANY, AGENT, rule, stored=[old.trace_id]).memory_ids == {*made}


@pytest.mark.parametrize("is_early", [True, False])
@pytest.mark.parametrize("names", ["source", "until"])
async def test_rules_on_source_and_time_reach_what_becomes_of_experience_recorded_alone(
    world: ErasureWorld, names: str, is_early: bool
) -> None:
    source = MemoryMetadata(source="crawler", tags=(DETAILED_TAG,))
    alone = experience("e-1", agent_id=AGENT, metadata=source)
    later = experience("e-2", agent_id=AGENT, younger=timedelta(days=1))
    for each in (alone, later):
        world.ledger.experiences.append(COMPANY, each)
    said = {"source": "crawler"} if names == "source" else {"channel": "agent", "until": later.created_at}
    rule = DistrustRule.model_validate({**said, "agent_id": AGENT})
    if is_early:
        distrust_id = world.ledger.distrusts.add(COMPANY, rule, WORD).distrust_id
    policy = ConsolidationConfig.model_validate({"experience_compressor": {"enabled": True}})
    world.ledger.compressions.request_for(COMPANY, AGENT)
    compressor = CompressionService(
        world.backend, world.ledger, policy, company=COMPANY, level=MemoryLevel.PERSISTENT,
        model=FakeTeacher(always=json.dumps({**LESSON, "strategic_decisions": ["The disk was full."]})),
        clock=world.clock,
    )  # fmt: skip
    assert (await compressor.run(AGENT)).outcome == Done(facts={"compressed": 2})
    if not is_early:
        distrust_id = world.ledger.distrusts.add(COMPANY, rule, WORD).distrust_id
        reached = reach_of(world.ledger, COMPANY, AGENT, rule).memory_ids
        world.ledger.distrusts.reach(COMPANY, distrust_id, AGENT, reached)
    hidden = world.ledger.hidden.of(COMPANY)
    records = (await world.backend.scan(Where(agent_id=AGENT))).records
    assert {each.entry.metadata.source for each in records if not hidden.distrusts_memory(each.entry)} == {"e-2"}
    assert {each.entry.metadata.source for each in records} == {"e-1", "e-2"}
    assert [hidden.distrusts_experience(each) for each in (alone, later)] == [True, False]


async def _published(world: ErasureWorld, who: str, key: str, *supersedes: str) -> str:
    """Let a person approve a skill that the evolver chose among the lesson of a key, and return its id."""
    said = f"the code is {world.secrets[who][0]} today"
    source = SkillSource(
        agent_id=AGENT,
        lesson_id=f"l-{who}",
        memory_id=f"m-{who}",
        origin=Origin(principals=(key,)),
        created_at=world.clock(),
    )
    log = world.ledger.shared_log
    made = promotion(
        lesson(discovery=said, condition=said, action=said),
        title=f"A skill of {key}",
        pattern_id=f"pattern of {who}",
        cycle_id="cycle",
        figures={},
        supersedes=[superseded_skill(log, COMPANY, each) for each in supersedes],
        sources=[source],
    )
    settings = world.settings.model_copy(update={"company": COMPANY})
    approvals = SkillApprovals.configured(settings, POLICY, world.ledger, backend=world.backend, clock=world.clock)
    await approvals.propose(f"approval of {who}", made)
    done = await approvals.approve(f"approval of {who}", Decision(by="grace"))
    world.clock.now += timedelta(seconds=1)
    return str(done.effect)


async def _skills_shown(readers: Readers, world: ErasureWorld) -> dict[str, set[str]]:
    """Return which readers show each version of the skill, by the key that it came of."""
    service = await readers.service()
    backend = await service.resources.backend()
    assert isinstance(backend, Mem0Backend)
    shown: dict[str, set[str]] = {}
    for who, (secret, *_) in world.secrets.items():
        question = f"the code is {secret} today"
        every = MemoryQuery(limit=100)
        calls = reading_calls(readers.api, "0a5f7d9e-5a3e-4c53-8a77-1f6f0b6a4a10", question=question)
        lists = await backend.retrieve_rankings("bob", MemoryQuery(text=question, limit=50), include_shared=True)
        answers = {
            "shared": await service.memories.search_shared(every),
            "by words": await service.memories.search_shared(MemoryQuery(text=question)),
            "ranked": [hit.entry for hit in (*lists.shared_dense, *lists.shared_sparse)],
            "listed": await service.skills.list(state=SkillState.ACTIVE),
        }
        shown[who] = {name for name, answered in answers.items() if secret in repr(answered)}
        shown[who] |= await replace(readers, calls=calls).showing([secret])
    return shown


async def test_a_skill_of_a_distrusted_key_falls_back_to_the_newest_trusted_version(
    world: ErasureWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = ("k1", "k2", "k3")
    for key in keys:
        world.secret(key)
    first = await _published(world, "k1", "k1")
    second = await _published(world, "k2", "k2", first)
    third = await _published(world, "k3", "k3", second)
    # Somebody needs a memory, of which the calls are.
    await world.ingestor().write([item("a note", agent_id=AGENT, sent_at=world.clock())])
    async with reading(world, monkeypatch) as readers:
        service = await readers.service()
        before = await _skills_shown(readers, world)
        assert {key for key, doors in before.items() if "shared" in doors} == {"k3"}
        assert before["k3"] >= {"shared", "by words", "ranked", "listed"}
        distrusts: list[str] = []
        for rules, instead, shown in (
            ([DistrustRule(principal="k1")], None, {"k3"}),
            ([DistrustRule(principal="k3")], {third: (second,)}, {"k2"}),
            ([DistrustRule(principal="k3"), DistrustRule(principal="k2", agent_id=AGENT)], None, {"k1"}),
            ([DistrustRule(channel=Channel.AGENT, agent_id=AGENT)], {third: ()}, set[str]()),
        ):
            if instead is not None:
                assert (await service.distrusts.plan(rules[0])).skills == instead
            distrusts = [(await service.distrusts.distrust(each, confirmation=WORD)).distrust_id for each in rules]
            if instead is not None:
                assert (await service.distrusts.get(distrusts[0])).skills == instead
                report = json.dumps(await service.distrusts.report(distrusts[0]))
                assert dict((await service.distrusts.verify(report)).skills) == instead
            now = await _skills_shown(readers, world)
            assert {key for key, doors in now.items() if doors & {"shared", "by words", "ranked", "listed"}} == shown
            for key in shown:
                assert now[key] >= {"shared", "by words", "ranked", "listed"}, (rules, now)
            for each in set(keys) - shown:
                # What superseded versions show to people is that which is no longer in force, as before.
                assert now[each] <= before[each] | {"GET /v1/approvals", "GET /v1/skills"}, each
            for each in distrusts:
                await service.distrusts.lift(each, confirmation=WORD)
            assert await _skills_shown(readers, world) == before
    row = world.ledger.skills.get(COMPANY, third)
    assert row is not None
    assert row.state is SkillState.ACTIVE
    assert [each.lesson_id for each in row.sources] == ["l-k3"]

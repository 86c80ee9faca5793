"""The action ``skill_evolver:org_promotion``: a skill is every agent's once approved, and nobody's once superseded."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from support.ledger_records import COMPANY, StoppedClock
from support.lessons import lesson
from support.present import present
from support.proposals import ADA, BOB
from support.skill_publication import SkillWorld

from memcore.approvals import PUBLISHER
from memcore.backends.inmemory import InMemoryBackend
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.errors import ApprovalClosedError, MemoryInputError, MemoryNotFoundError, SkillLimitError
from memcore.ledger.learning.skills import SkillState
from memcore.ledger.ledger import Ledger
from memcore.models.approval import ApprovalState, Superseded
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryQuery, MemoryStoreRequest
from memcore.procedural.records import LessonText, written
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.skills.publication import promotion, superseded_skill


async def test_an_approved_skill_is_found_by_every_agent_and_kept_as_a_row(world: SkillWorld) -> None:
    service = world.service()
    await service.propose("one", world.proposal("one"))
    assert await world.standing() == set()
    approved = await service.approve("one", ADA)
    assert await world.standing() == {"one"}
    (found,) = await world.store.search_shared(MemoryQuery(text="lift"), exclude_agent="eve")
    text = lesson(discovery="The lift: one.")
    assert (found.id, found.agent_id, found.content) == (approved.effect, PUBLISHER, written(text))
    assert found.category is MemoryCategory.PROCEDURAL
    assert found.metadata == MemoryMetadata(
        source="approval:one",
        confidence=0.9,
        tags=("non-inferable", "skill", "import", "disk", "approved", "approved-by:ada"),
    )
    kept = present(world.ledger.skills.get(COMPANY, found.id))
    assert (kept.approval_id, kept.pattern_id, kept.state) == ("one", "pattern of one", SkillState.ACTIVE)
    assert (kept.confidence, kept.published_at, LessonText.model_validate_json(kept.text)) == (0.9, world.clock(), text)
    assert "The lift" not in repr(kept)

    await service.undo("one", BOB)
    assert (await world.standing(), world.states()) == (set(), {"one": "retired"})


async def test_a_superseded_skill_goes_and_comes_back_under_the_skill_that_it_is(world: SkillWorld) -> None:
    old = await world.approved("old")
    new = await world.approved("new", old)
    assert await world.standing() == {"new"}
    row = present(world.ledger.skills.get(COMPANY, old))
    assert (row.state, row.superseded_by) == (SkillState.SUPERSEDED, new)

    await world.service().undo("new", BOB)
    assert await world.standing() == {"old"}
    (back,) = await world.store.search_shared(MemoryQuery(limit=9))
    assert back.id != old, "what comes back is a publication of its own"
    row = present(world.ledger.skills.get(COMPANY, old))
    assert (row.state, row.superseded_by) == (SkillState.ACTIVE, None)

    # By its first id it is superseded again, as it is published now.
    await world.approved("newer", old)
    assert await world.standing() == {"newer"}


@pytest.mark.parametrize("first", ["x", "y"])
async def test_a_chain_of_skills_can_be_undone_in_any_order(world: SkillWorld, first: str) -> None:
    start = await world.approved("start")
    x = await world.approved("x", start)
    await world.approved("y", x)
    assert await world.standing() == {"y"}
    await world.service().undo(first, BOB)
    assert await world.standing() == ({"x"} if first == "y" else {"start", "y"})
    await world.service().undo("x" if first == "y" else "y", BOB)
    assert await world.standing() == {"start"}
    assert world.states() == {"start": "active", "x": "retired", "y": "retired"}


async def test_of_two_that_supersede_one_skill_the_first_gives_it_back(world: SkillWorld) -> None:
    old = await world.approved("old")
    for name in ("one", "two"):
        await world.service().propose(name, world.proposal(name, old))
    for name in ("one", "two"):
        await world.service().approve(name, ADA)
    await world.service().undo("two", BOB)
    assert await world.standing() == {"one"}
    await world.service().undo("one", BOB)
    assert await world.standing() == {"old"}


async def test_what_came_back_since_it_was_proposed_is_left_alone(world: SkillWorld) -> None:
    old = await world.approved("old")
    await world.service().propose("late", world.proposal("late", old))
    await world.approved("new", old)
    await world.service().undo("new", BOB)
    await world.service().approve("late", ADA)
    assert await world.standing() == {"old", "late"}
    await world.service().undo("late", BOB)
    assert await world.standing() == {"old"}


async def test_two_approvals_at_one_moment_are_one_publication_and_one_refusal(world: SkillWorld) -> None:
    old = await world.approved("old")
    await world.service().propose("one", world.proposal("one", old))
    said = await asyncio.gather(
        world.service().approve("one", ADA), world.service().approve("one", BOB), return_exceptions=True
    )
    (refused,) = [each for each in said if isinstance(each, ApprovalClosedError)]
    assert (refused.state, refused.by in {"ada", "bob"}) == ("approved", True)
    assert await world.standing() == {"one"}


async def test_an_expired_or_rejected_proposal_is_never_a_skill(world: SkillWorld) -> None:
    service = world.service()
    for name in ("late", "no"):
        await service.propose(name, world.proposal(name))
    await service.reject("no", ADA)
    world.clock.advance(timedelta(days=14))
    for name in ("late", "no"):
        with pytest.raises(ApprovalClosedError):
            await service.approve(name, ADA)
    assert (await world.standing(), world.states()) == (set(), {})


async def test_a_process_that_slept_through_an_undo_changes_nothing(world: SkillWorld) -> None:
    old = await world.approved("old")
    service = world.service()
    await service.propose("one", world.proposal("one", old))
    decided = world.ledger.approvals.decide(COMPANY, "one", ApprovalState.APPROVED, ADA)
    await service.finish()
    await service.undo("one", BOB)
    version = await world.store.shared_version()
    undone = present(world.ledger.approvals.get(COMPANY, "one"))

    late = world.effect()
    for _ in range(2):
        await late.publish(decided)
        assert await world.standing() == {"old"}
        await late.take_back(undone)
        assert await world.standing() == {"old"}
    assert await world.store.shared_version() == version


async def test_no_more_skills_stand_than_may(world: SkillWorld) -> None:
    service = world.service(limit=2)
    for name in ("one", "two", "three"):
        await service.propose(name, world.proposal(name))
    one = (await service.approve("one", ADA)).effect or ""
    await service.approve("two", ADA)
    with pytest.raises(SkillLimitError, match="max_org_entries: is 2, and 2 skills stand") as refused:
        await service.approve("three", ADA)
    assert (refused.value.published, refused.value.limit) == (2, 2)
    waiting = present(world.ledger.approvals.get(COMPANY, "three"))
    assert waiting.state is ApprovalState.PENDING
    # A skill that replaces another needs no capacity; a settled proposal is reported as such.
    await service.propose("instead", world.proposal("instead", one))
    await service.approve("instead", ADA)
    with pytest.raises(ApprovalClosedError, match="approved by ada"):
        await service.approve("instead", BOB)
    assert await world.standing() == {"two", "instead"}
    await service.undo("two", BOB)
    await service.approve("three", ADA)
    assert await world.standing() == {"instead", "three"}


async def test_what_is_approved_and_not_published_yet_takes_capacity(world: SkillWorld) -> None:
    service = world.service(limit=1)
    for name in ("one", "two"):
        await service.propose(name, world.proposal(name))
    world.ledger.approvals.decide(COMPANY, "one", ApprovalState.APPROVED, ADA)
    with pytest.raises(SkillLimitError, match="and 1 skills stand"):
        await service.approve("two", ADA)
    await service.finish()
    assert await world.standing() == {"one"}


async def test_a_proposal_that_could_never_be_a_skill_is_refused_before_anybody_decides(world: SkillWorld) -> None:
    with pytest.raises(MemoryInputError, match="title: must have at most 200"):
        promotion(lesson(), title="t" * 201, pattern_id="p", cycle_id="c", figures={})
    with pytest.raises(MemoryNotFoundError, match="is no skill that stands"):
        superseded_skill(world.log, COMPANY, "none")

    good = world.proposal("one")
    service = world.service()
    for name, details in {"lesson": {}, "pattern": {**good.details, "pattern_id": ""}}.items():
        await service.propose(name, good.model_copy(update={"details": details}))
        with pytest.raises(MemoryInputError, match=f"details.{name}"):
            await service.approve(name, ADA)
    assert world.states() == {}


async def test_a_text_that_is_no_skill_can_be_superseded_too(world: SkillWorld) -> None:
    request = world.proposal("text")
    memory_id = await world.store.publish(
        "facility", MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="the lift rests")
    )
    proposal = request.model_copy(
        update={"supersedes": (Superseded(id=memory_id, content="the lift rests", owner="facility"),)}
    )
    await world.service().propose("text", proposal)
    await world.service().approve("text", ADA)
    assert await world.standing() == {"text"}
    await world.service().undo("text", BOB)
    (back,) = await world.store.search_shared(MemoryQuery(limit=9))
    assert (back.agent_id, back.content) == ("facility", "the lift rests")


async def test_a_store_that_keeps_its_log_to_itself_publishes_and_takes_back_too(
    ledger: Ledger, clock: StoppedClock, tmp_path: Path
) -> None:
    store = InMemoryBackend(company=COMPANY, clock=clock)
    await store.connect()
    world = SkillWorld(store, ledger, tmp_path / "skills", clock)
    world.log = ledger.shared_log
    await world.approved("one")
    assert await world.standing() == {"one"}
    await world.service().undo("one", BOB)
    assert (await world.standing(), world.states()) == (set(), {"one": "retired"})


async def test_another_agents_context_holds_the_skill_that_stands_and_no_other(world: SkillWorld) -> None:
    agent = ContextInjectionStrategy(
        backend=world.store,
        config=MemoryRetrievalConfig(non_inferable_only=True, min_relevance=0.0),
        shared_store=world.store,
        clock=world.clock,
    )

    async def shown() -> set[str]:
        messages = await agent.prepare_messages("bob", "The lift", 2_000)
        text = "".join(message.content for message in messages)
        return {name for name in ("old", "new", "gone") if f"The lift: {name}." in text}

    old = await world.approved("old")
    await world.approved("gone")
    assert await shown() == {"old", "gone"}
    await world.service().undo("gone", BOB)
    await world.approved("new", old)
    assert await shown() == {"new"}
    await world.service().undo("new", BOB)
    assert await shown() == {"old"}

"""Raw experience becomes memories: each once, and only what is strong enough."""

import json
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import true
from support.execution_traces import of_key
from support.experiences import experience
from support.fake_teacher import LESSON, FakeTeacher
from support.ledger_records import make_journal_entry
from support.memories import NOW
from support.wiki_fixture import COMPANY, WikiFixture

from memcore import ids
from memcore.config.maintenance import ConsolidationConfig
from memcore.errors import (
    BudgetExceededError,
    MemoryStoreError,
    ProviderError,
    ProviderUnavailableError,
    RetryExhaustedError,
)
from memcore.experience import (
    AT_A_TIME,
    MAX_IN_A_ROW,
    PURPOSE,
    SLICE,
    CompressionService,
    experience_of,
)
from memcore.jobs import Dead, Deferred, Done, Outcome, Skipped, Step
from memcore.ledger.agents import AgentSpec
from memcore.ledger.learning.experiences import ExperienceCounts
from memcore.ledger.work_items import WorkItem
from memcore.models.memory import MemoryCategory, MemoryLevel, MemoryQuery
from memcore.models.origin import OWN
from memcore.records import MemoryRecord, Where

LONG = "The import of the night failed at row 4711 with ENOSPC, as it had the week before. " * 20


def policy(**compressor: Any) -> ConsolidationConfig:
    return ConsolidationConfig.model_validate({"experience_compressor": {"enabled": True, **compressor}})


def service(
    library: WikiFixture, model: FakeTeacher | None, *, level: str = "persistent", **compressor: Any
) -> CompressionService:
    return CompressionService(
        library.backend, library.ledger, policy(**compressor),
        company=COMPANY, level=MemoryLevel(level), model=model, clock=library.clock,
    )  # fmt: skip


async def compress(library: WikiFixture, model: FakeTeacher | None, **settings: Any) -> Outcome:
    library.ledger.compressions.request_for(COMPANY, "ada")
    return (await service(library, model, **settings).run("ada")).outcome


def row(library: WikiFixture) -> WorkItem:
    return library.ledger.compressions.item(COMPANY, ids.compression_id(company=COMPANY, agent_id="ada"))


def add_experiences(library: WikiFixture, number: int, *, agent_id: str = "ada") -> None:
    """Append so many raw experiences of the agent, the last the newest."""
    for i in range(number):
        made = experience(f"e{i}", agent_id=agent_id, prompt=LONG, younger=timedelta(seconds=i), source_task_id="t")
        assert library.ledger.experiences.append(COMPANY, made)


def counts(library: WikiFixture) -> ExperienceCounts:
    return library.ledger.experiences.count(COMPANY, "ada")


async def memories(library: WikiFixture) -> tuple[MemoryRecord, ...]:
    return (await library.backend.scan(Where(agent_id="ada"))).records


async def test_what_was_learned_has_the_origin_of_its_source(library: WikiFixture) -> None:
    for name, origin in (("e0", of_key("k1")), ("e1", OWN)):
        made = experience(name, prompt=LONG).model_copy(update={"origin": origin})
        assert library.ledger.experiences.append(COMPANY, made)
        assert library.ledger.experiences.get(COMPANY, "ada", name) == made
    await compress(library, FakeTeacher())
    kept = {each.entry.metadata.source: each.entry.origin for each in await memories(library)}
    assert kept == {"e0": of_key("k1"), "e1": OWN}


async def test_what_was_learned_is_an_episodic_memory_that_names_its_source(library: WikiFixture) -> None:
    add_experiences(library, 1)
    model = FakeTeacher()
    assert await compress(library, model) == Done(facts={"compressed": 1})

    (kept,) = await memories(library)
    assert kept.entry.category is MemoryCategory.EPISODIC
    assert kept.entry.metadata.tags == ("compressed_experience",)
    assert (kept.entry.metadata.source, kept.entry.created_at, kept.lineage.task_id) == ("e0", NOW, "t")
    assert kept.entry.id == ids.compressed_id(company=COMPANY, agent_id="ada", experience_id="e0", version="llm-v1")
    reasons = json.loads(kept.entry.content)
    assert {key: reasons[key] for key in LESSON} == LESSON
    lesson = experience_of(kept.entry)
    assert lesson is not None
    assert (lesson.source_artifact_ids, lesson.compressor_version) == (("e0",), "llm-v1")
    raw = library.ledger.experiences.get(COMPANY, "ada", "e0")
    assert raw is not None
    length = sum(map(len, (raw.prompt, raw.output)))
    assert lesson.compression_ratio == pytest.approx(
        sum(len(text) for texts in LESSON.values() for text in texts) / length
    )

    (by,) = model.for_whom
    assert (by.company, by.agent_id, by.run_id, by.purpose) == (COMPANY, "ada", None, PURPOSE)


async def test_agents_find_the_lesson_and_never_the_raw_experience(library: WikiFixture) -> None:
    add_experiences(library, 1)
    await compress(library, FakeTeacher())
    for query in (MemoryQuery(limit=1000), MemoryQuery(text="import row 4711 ENOSPC", limit=1000)):
        found = await library.backend.retrieve("ada", query)
        assert all("strategic_decisions" in entry.content and "4711" not in entry.content for entry in found)
    assert await library.backend.retrieve("ada", MemoryQuery(tags=("detailed_experience",))) == ()
    assert await library.backend.get("ada", "e0") is None


async def test_each_experience_is_looked_at_once_whatever_comes_of_it(library: WikiFixture) -> None:
    add_experiences(library, 3)
    model = FakeTeacher(script=[None, "no JSON", None, "no JSON again"])
    assert await compress(library, model) == Done(facts={"compressed": 2, "malformed": 1})
    assert counts(library) == ExperienceCounts(total=3, raw=0, compressed=2)
    asked = len(model.asked)
    assert asked == 4
    assert await compress(library, model) == Done(facts={})
    assert len(model.asked) == asked
    assert len(await memories(library)) == 2


@pytest.mark.parametrize(
    ("least", "became"),
    [(0.0, "compressed"), (0.9, "compressed"), (0.97, "weak")],
)
async def test_what_is_compressed_strongly_is_kept_and_what_is_not_is_marked_and_left(
    library: WikiFixture, least: float, became: str
) -> None:
    add_experiences(library, 1)  # 72 characters of 1,729: a strength of 0.958
    model = FakeTeacher()
    assert await compress(library, model, min_compression_ratio=least) == Done(facts={became: 1})
    assert counts(library).raw == 0
    assert len(await memories(library)) == (became == "compressed")
    assert await compress(library, model, min_compression_ratio=0.0) == Done(facts={})
    assert len(model.asked) == 1


async def test_an_answer_as_long_as_the_experience_has_a_ratio_of_one(library: WikiFixture) -> None:
    made = experience("e", prompt="Why?", output="Disk.")
    library.ledger.experiences.append(COMPANY, made)
    model = FakeTeacher(always=json.dumps({"strategic_decisions": ["Disk, disk, disk."]}))
    assert await compress(library, model) == Done(facts={"compressed": 1})
    (kept,) = await memories(library)
    assert json.loads(kept.entry.content)["compression_ratio"] == 1.0


async def test_all_are_compressed_a_few_at_a_time(library: WikiFixture) -> None:
    add_experiences(library, 3 * AT_A_TIME + 1)
    model = FakeTeacher()
    assert await compress(library, model) == Done(facts={"compressed": 3 * AT_A_TIME + 1})
    assert model.most_at_once == AT_A_TIME
    assert len(await memories(library)) == 3 * AT_A_TIME + 1


@pytest.mark.parametrize(
    "trouble", [RetryExhaustedError("gone"), ProviderUnavailableError("busy"), ProviderError("refused")]
)
async def test_what_the_model_does_not_answer_stays_raw_for_the_next_run(
    library: WikiFixture, trouble: Exception
) -> None:
    add_experiences(library, 2)
    model = FakeTeacher(script=[trouble])
    assert await compress(library, model) == Done(facts={"failed": 1, "compressed": 1})
    assert counts(library).raw == 1
    assert await compress(library, model) == Done(facts={"compressed": 1})
    assert len(await memories(library)) == 2


async def test_a_model_that_is_away_is_not_asked_about_everything(library: WikiFixture) -> None:
    add_experiences(library, 10 * MAX_IN_A_ROW)
    model = FakeTeacher(always=RetryExhaustedError("gone"))
    outcome = await compress(library, model)
    assert isinstance(outcome, Done)
    assert MAX_IN_A_ROW <= outcome.facts["failed"] < MAX_IN_A_ROW + AT_A_TIME
    assert counts(library).raw == 10 * MAX_IN_A_ROW


async def test_experience_that_no_model_can_answer_holds_up_none_that_comes_after_it(library: WikiFixture) -> None:
    add_experiences(library, MAX_IN_A_ROW + 5)
    await compress(library, FakeTeacher(always=ProviderError("the filter takes it away")))
    library.ledger.experiences.append(COMPANY, experience("new", prompt=LONG, younger=timedelta(days=1)))
    model = FakeTeacher(script=[json.dumps(LESSON)], always=ProviderError("the filter takes it away"))
    outcome = await compress(library, model)
    assert isinstance(outcome, Done)
    assert outcome.facts["compressed"] == 1
    assert [each.entry.metadata.source for each in await memories(library)] == ["new"]


async def test_a_budget_that_is_spent_lets_the_job_sleep_until_the_next_day(library: WikiFixture) -> None:
    add_experiences(library, 2)
    until = NOW + timedelta(hours=5)
    model = FakeTeacher(script=[None, BudgetExceededError("spent", until=until)])
    outcome = await compress(library, model)
    assert outcome == Deferred(reason="spent")
    assert (row(library).state, row(library).dispatch_after, row(library).attempt) == ("waiting", until, 0)
    assert counts(library) == ExperienceCounts(total=2, raw=1, compressed=1)
    assert await compress(library, model) == Done(facts={"compressed": 1})


async def test_a_long_walk_gives_way_and_goes_on_where_it_stopped(library: WikiFixture) -> None:
    add_experiences(library, 3 * AT_A_TIME)
    seconds = iter(range(0, 10_000, int(SLICE.total_seconds())))
    slow = CompressionService(
        library.backend, library.ledger, policy(),
        company=COMPANY, level=MemoryLevel.PERSISTENT, model=FakeTeacher(), clock=library.clock,
        monotonic=lambda: float(next(seconds)),
    )  # fmt: skip
    library.ledger.compressions.request_for(COMPANY, "ada")
    for left in (2 * AT_A_TIME, AT_A_TIME, 0):
        assert await slow.run("ada") == Step(outcome=Done(facts={"compressed": AT_A_TIME}), goes_on=True)
        assert (counts(library).raw, row(library).state, row(library).attempt) == (left, "available", 0)
    assert await slow.run("ada") == Step(outcome=Done(facts={}))
    assert row(library).state == "done"


async def test_a_walk_without_success_does_not_begin_again_and_again(library: WikiFixture) -> None:
    add_experiences(library, 2 * AT_A_TIME)
    seconds = iter(range(0, 10_000, int(SLICE.total_seconds())))
    slow = CompressionService(
        library.backend, library.ledger, policy(), company=COMPANY, level=MemoryLevel.PERSISTENT,
        model=FakeTeacher(always=RetryExhaustedError("gone")), clock=library.clock,
        monotonic=lambda: float(next(seconds)),
    )  # fmt: skip
    library.ledger.compressions.request_for(COMPANY, "ada")
    assert await slow.run("ada") == Step(outcome=Done(facts={"failed": 2 * AT_A_TIME}))


async def test_what_another_worker_asks_is_left_to_it(library: WikiFixture) -> None:
    add_experiences(library, 1)
    model = FakeTeacher()
    key = ids.question_id(company=COMPANY, agent_id="ada", purpose=PURPOSE, model="", about=("e0", "llm-v1"))
    library.ledger.answers.claim_question(
        COMPANY, key, agent_id="ada", run_id=None, purpose=PURPOSE, lease=timedelta(minutes=1)
    )
    assert await compress(library, model) == Done(facts={"elsewhere": 1})
    assert (model.asked, counts(library).raw) == ([], 1)


async def test_a_lesson_that_a_run_has_removed_is_not_made_again(library: WikiFixture) -> None:
    add_experiences(library, 1)
    await compress(library, FakeTeacher())
    (kept,) = await memories(library)
    await library.backend.delete_many("ada", [kept.entry.id])
    assert await compress(library, FakeTeacher()) == Done(facts={})
    assert await memories(library) == ()


async def test_a_lesson_that_was_removed_before_its_mark_stays_removed(library: WikiFixture) -> None:
    add_experiences(library, 1)
    memory_id = ids.compressed_id(company=COMPANY, agent_id="ada", experience_id="e0", version="llm-v1")
    # Kept, then a crash, then a run that forgets the lesson, then the second attempt.
    library.ledger.journal.prepare(make_journal_entry("b", outgoing=(memory_id,)))
    model = FakeTeacher()
    assert await compress(library, model) == Done(facts={"compressed": 1})
    assert (await memories(library), model.asked, counts(library).raw) == ((), [], 0)


async def test_what_is_erased_meanwhile_leaves_no_lesson(library: WikiFixture) -> None:
    add_experiences(library, 1)

    class Erasing(FakeTeacher):
        async def ask(self, *args: Any, **kwargs: Any) -> Any:
            library.ledger.experiences._delete(true())
            return await super().ask(*args, **kwargs)

    await compress(library, Erasing())
    assert await memories(library) == ()


async def test_only_whose_experience_is_asked_for_is_compressed(library: WikiFixture) -> None:
    add_experiences(library, 1)
    library.ledger.experiences.append(COMPANY, experience("theirs", agent_id="bob", prompt=LONG))
    assert await compress(library, FakeTeacher()) == Done(facts={"compressed": 1})
    assert library.ledger.experiences.has_raw(COMPANY, "bob")


async def test_switched_off_without_a_model_or_paused_nothing_is_asked(library: WikiFixture) -> None:
    add_experiences(library, 1)
    model = FakeTeacher()
    off = await compress(library, model, enabled=False)
    assert off == Skipped(reason="memory.consolidation.experience_compressor.enabled is false")
    missing = await compress(library, None)
    assert missing == Skipped(reason="no language model is connected to this worker: set MEMTEND_LLM_URL")
    library.ledger.companies.pause(COMPANY)
    assert await compress(library, model) == Deferred(reason="maintenance is paused for all agents")
    library.ledger.companies.resume(COMPANY)
    assert (model.asked, counts(library).raw) == ([], 1)
    assert await compress(library, model) == Done(facts={"compressed": 1})


@pytest.mark.parametrize("level", ["session", "project", "none"])
async def test_at_levels_that_end_memories_nothing_is_learned(library: WikiFixture, level: str) -> None:
    add_experiences(library, 1)
    model = FakeTeacher()
    assert isinstance(await compress(library, model, level=level), Skipped)
    assert model.asked == []
    library.ledger.agents.put(AgentSpec(company=COMPANY, agent_id="ada", level=MemoryLevel.PERSISTENT))
    assert await compress(library, model, level=level) == Done(facts={"compressed": 1})


async def test_a_store_that_is_away_is_told_and_nothing_is_paid_twice(
    library: WikiFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_experiences(library, 2)
    model = FakeTeacher()

    async def away(_records: object) -> None:
        raise MemoryStoreError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(library.backend, "store_many", away)
        assert await compress(library, model) == Deferred(reason="MemoryStoreError")
    assert counts(library).raw == 2
    assert await compress(library, model) == Done(facts={"compressed": 2})
    assert set(model.keys.values()) == {1}


async def test_a_compression_is_one_item_of_its_agent_that_is_made_ready_again_and_again(library: WikiFixture) -> None:
    assert isinstance((await service(library, FakeTeacher()).run("ada")).outcome, Dead), "nobody has asked for it"
    requested = library.ledger.compressions.request_for(COMPANY, "ada")
    assert requested is not None
    assert (requested.agent_id, requested.kind) == ("ada", "memory.experience.compress")
    assert library.ledger.compressions.request_for(COMPANY, "ada") is None, "it is under way"
    assert await compress(library, FakeTeacher()) == Done(facts={})
    again = library.ledger.compressions.request_for(COMPANY, "ada")
    assert again is not None
    assert (again.key, again.payload, again.attempt) == (requested.key, requested.payload, 0)
    other = library.ledger.compressions.request_for("globex", "ada")
    assert other is not None
    assert other.key != again.key, "jobs of all companies share one result backend"


def test_what_is_marked_is_raw_no_more(library: WikiFixture) -> None:
    experiences = library.ledger.experiences
    assert not experiences.has_raw(COMPANY, "ada")
    add_experiences(library, 1)
    assert experiences.has_raw(COMPANY, "ada")
    experiences.mark(COMPANY, "ada", "e0", reason="too weak")
    assert not experiences.has_raw(COMPANY, "ada")

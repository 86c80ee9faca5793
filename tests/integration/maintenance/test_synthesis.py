"""Runs that need a model: who is asked, when, and what becomes of its answers and failures."""

from datetime import timedelta
from typing import Any

import pytest
from support.fake_summarizer import FakeSummarizer, said
from support.maintenance_fixture import AGENT, COMPANY, FILLER, MaintenanceFixture, MakeMaintenanceFixture, memory, uid
from support.model_runs import DUAL, LLM, finish, with_model

from memcore.config.maintenance import ArchivalConfig, ConsolidationConfig, LLMConsolidationConfig
from memcore.errors import MemoryRetrievalError, ProviderError, ProviderUnavailableError, RetryExhaustedError
from memcore.jobs import Dead, Deferred, Done
from memcore.ledger.work_items import WorkState
from memcore.models.archival import ArchivalMode
from memcore.models.memory import MemoryCategory, MemoryQuery


@pytest.fixture
def world(make_maintenance_fixture: MakeMaintenanceFixture, fake_summarizer: FakeSummarizer) -> MaintenanceFixture:
    return with_model(make_maintenance_fixture, fake_summarizer)


async def test_a_run_waits_without_a_lease_while_the_model_is_asked(
    world: MaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    await world.store(memory(n, days_old=40 - n) for n in range(1, 8))
    run = world.plan_run()

    outcome = await world.service().run(run.run_id)

    assert isinstance(outcome, Deferred)
    assert "asked about 2 of 2 groups" in outcome.reason
    waiting = world.run(run.run_id)
    assert (waiting.state, waiting.token, waiting.lease_until, waiting.attempt) == (WorkState.WAITING, None, None, 0)
    assert not fake_summarizer.asked, "a night never asks"
    assert len(await world.live()) == 7, "nothing goes before there is something in its place"


async def test_the_last_answer_wakes_the_run_which_then_replaces_every_group(world: MaintenanceFixture) -> None:
    await world.store(memory(n, days_old=40 - n) for n in range(1, 8))
    run = world.plan_run()
    await world.service().run(run.run_id)

    first = await world.synthesis().ask(run.run_id, 0)
    last = await world.synthesis().ask(run.run_id, 1)

    assert first.maintenance_run is None
    assert last.maintenance_run is not None
    assert last.maintenance_run.key == run.run_id
    assert isinstance(await world.service().run(run.run_id), Done)
    summaries = await world.summaries()
    assert {source for summary in summaries for source in summary.lineage.summary_of} == {uid(n) for n in range(1, 7)}
    assert all(summary.entry.content.startswith("In short: memory number") for summary in summaries)
    assert all(summary.entry.metadata.tags[:2] == ("consolidated", "llm-synthesized") for summary in summaries)
    assert set((await world.live()).keys()) == {uid(7), *(summary.entry.id for summary in summaries)}
    await world.check_balance()


async def test_the_kept_memory_is_not_shown_and_the_agent_pays_by_category(
    world: MaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    await world.store(memory(n, days_old=40 - n, category=MemoryCategory.SOCIAL) for n in range(1, 5))

    run = await world.maintenance_run()

    shown = "\n".join(message.content for message in fake_summarizer.asked[0].messages)
    assert "memory number 3" in shown
    assert "memory number 4" not in shown
    assert [(by.agent_id, by.run_id, by.purpose) for by in fake_summarizer.for_whom] == [
        (AGENT, run.run_id, "system:memory:consolidate:social")
    ]


async def test_recent_distillations_stand_in_the_system_text_and_are_data(
    world: MaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    await world.store(memory(n, days_old=40 - n) for n in range(1, 5))
    tales = [
        memory(10 + n, days_old=20 - n, content=f"trace {n} " + "x" * 900, tags=["distillation"]) for n in range(7)
    ]
    await world.store(tales)

    await world.maintenance_run()

    system, user = (message.content for message in fake_summarizer.asked[0].messages)
    assert [f"trace {n} " in system for n in range(7)] == [False, False, True, True, True, True, True]
    assert "x" * 493 not in system
    assert "trace" not in user
    assert system.count("<trajectory>\n") == 5


async def test_another_run_asks_nothing_that_was_answered_before(
    world: MaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    await world.store(memory(n, days_old=40 - n) for n in range(1, 8))
    first = world.plan_run()
    await world.service().run(first.run_id)
    await world.ask_model(first.run_id)
    # An undo, say, takes the run's place before it can use the answers.
    other = world.plan_run(undo_of=first.run_id)
    assert isinstance(await world.service().run(other.run_id), Done)
    assert world.run(first.run_id).state is WorkState.SKIPPED

    run = await world.maintenance_run()

    assert run.counts["consolidated"] == 6
    assert len(fake_summarizer.asked) == 2


# Row by row: what the model did, and what became of the memories.


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (RetryExhaustedError("429 in each of 4 attempts"), "429 in each of 4 attempts"),
        (ProviderUnavailableError("connection refused"), "connection refused"),
        (said("", is_cut=False), "the answer is blank"),
        (said(" \n\t "), "the answer is blank"),
        (said("x" * 100_000), "longer than allowed"),
        (said("cut in the mid", is_cut=True), "longer than allowed"),
        (KeyError("something nobody thought of"), "unexpected KeyError"),
    ],
    ids=["retries used up", "passing", "empty", "blank", "over-long", "cut", "unexpected"],
)
async def test_a_model_that_fails_costs_the_summary_its_beauty_and_no_memory(
    world: MaintenanceFixture,
    fake_summarizer: FakeSummarizer,
    caplog: pytest.LogCaptureFixture,
    trouble: Any,
    reason: str,
) -> None:
    world.patience = timedelta(0)
    await world.store(memory(n, days_old=40 - n, content=f"{n} one. Two. " + "Y" * 300) for n in range(1, 5))
    fake_summarizer.script = [trouble, trouble]

    run = await world.maintenance_run()

    [summary] = await world.summaries()
    assert summary.entry.metadata.tags[:2] == ("consolidated", "concat-fallback")
    assert summary.entry.content.count("...") == 3, "the first sentences of each"
    assert run.counts["consolidated"] == 3
    [warning] = [record for record in caplog.records if record.message == "consolidation.llm.fallback"]
    assert warning.levelname == "WARNING"
    assert reason in warning.__dict__["reason"]
    assert "yyy" not in caplog.text
    await world.check_balance()


@pytest.mark.parametrize(("fails", "mode"), [(False, ArchivalMode.ABSTRACTIVE), (True, ArchivalMode.EXTRACTIVE)])
async def test_the_archive_says_whether_a_model_wrote_the_summary(
    make_maintenance_fixture: MakeMaintenanceFixture, fake_summarizer: FakeSummarizer, fails: bool, mode: ArchivalMode
) -> None:
    archival = ArchivalConfig(enabled=True, age_threshold_days=20)
    world = with_model(make_maintenance_fixture, fake_summarizer, LLM.model_copy(update={"archival": archival}))
    await world.store(memory(n, days_old=40 - n) for n in range(1, 5))
    fake_summarizer.script = [said("")] * 2 if fails else []

    await world.maintenance_run()

    rows = world.ledger.archive.search(COMPANY, AGENT, MemoryQuery())
    assert [row.mode for row in rows] == [mode] * 3


async def test_an_answer_that_is_too_long_is_asked_for_once_more(
    world: MaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    await world.store(memory(n, days_old=40 - n) for n in range(1, 5))
    fake_summarizer.script = [said("cut in the mid", is_cut=True), None]

    await world.maintenance_run()

    [summary] = await world.summaries()
    assert summary.entry.content.startswith("In short: memory number 1")
    assert "Your last answer was too long" in fake_summarizer.asked[1].messages[-1].content


async def test_what_an_answer_leaves_out_stands_behind_it_word_for_word_with_its_day(
    world: MaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    await world.store(memory(n, days_old=40 - n) for n in range(1, 5))
    kept = f"Memory number 1 and memory number 3. {FILLER}"
    fake_summarizer.script = [said(kept)]

    run = await world.maintenance_run()

    [summary] = await world.summaries()
    day = f"{memory(2, days_old=38).entry.created_at:%Y-%m-%d}"
    assert summary.entry.content == f"{kept}\n{day}: memory number 2. Little else was said that day."
    assert run.counts["consolidated"] == 3
    assert len(fake_summarizer.asked) == 1, "no model is asked again"


async def test_an_answer_that_is_completed_to_no_shorter_a_text_replaces_nothing(
    world: MaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    texts = ("The rent is 1,240 euros without heating.", "Mr. Okoro allows no dogs.", "Nadia disliked the tram noise.")
    await world.store(memory(n, days_old=40 - n, content=text) for n, text in enumerate(texts, start=1))
    await world.store([memory(9, days_old=2)])
    before = await world.snapshot()
    fake_summarizer.script = [said("The rent is 1,240 euros. Mr. Okoro allows no dogs. Nadia disliked the noise.")]

    run = await world.maintenance_run()

    assert run.counts["consolidated"] == 0
    assert await world.snapshot() == before


async def test_a_server_that_refuses_leaves_everything_as_it_is_and_says_so(
    world: MaintenanceFixture, fake_summarizer: FakeSummarizer, caplog: pytest.LogCaptureFixture
) -> None:
    await world.store(memory(n, days_old=40 - n) for n in range(1, 8))
    before = await world.snapshot()
    fake_summarizer.script = [ProviderError("401: the key is wrong")]
    run = world.plan_run()

    outcome = await world.to_the_end(run.run_id)

    assert isinstance(outcome, Dead)
    assert "2 of 2 groups wait for a person: 401: the key is wrong" in outcome.reason
    assert world.run(run.run_id).state is WorkState.FAILED
    assert await world.snapshot() == before
    assert len(fake_summarizer.asked) == 1, "the second group is not asked about after the first was refused"
    assert [record.levelname for record in caplog.records if record.message == "consolidation.llm.error"] == ["ERROR"]
    fake_summarizer.script = []
    assert (await world.maintenance_run()).counts["consolidated"] == 6, "the next night asks anew"


@pytest.mark.parametrize("error", [MemoryError(), RecursionError()])
async def test_a_process_in_trouble_blames_no_model(
    world: MaintenanceFixture, fake_summarizer: FakeSummarizer, error: Exception
) -> None:
    await world.store(memory(n, days_old=40 - n) for n in range(1, 5))
    fake_summarizer.script = [error]
    run = world.plan_run()
    await world.service().run(run.run_id)

    with pytest.raises(type(error)):
        await world.synthesis().ask(run.run_id, 0)

    assert (await finish(world, run.run_id)).counts["consolidated"] == 3
    [summary] = await world.summaries()
    assert "llm-synthesized" in summary.entry.metadata.tags


async def test_trajectories_that_cannot_be_read_are_left_out_with_a_warning(
    world: MaintenanceFixture,
    fake_summarizer: FakeSummarizer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await world.store(memory(n, days_old=40 - n) for n in range(1, 5))
    await world.store([memory(9, days_old=2, content="a trace", tags=["distillation"])])

    async def fail(_agent_id: str, _query: object) -> tuple[()]:
        raise MemoryRetrievalError("the store is busy")

    monkeypatch.setattr(world.backend, "retrieve", fail)
    await world.maintenance_run()

    assert "<trajectory>" not in fake_summarizer.asked[0].messages[0].content
    assert "consolidation.llm.context_missing" in [record.message for record in caplog.records]
    [summary] = await world.summaries()
    assert "llm-synthesized" in summary.entry.metadata.tags


async def test_a_chatty_group_is_shortened_memory_by_memory_and_a_dense_one_needs_no_model(
    make_maintenance_fixture: MakeMaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    world = with_model(make_maintenance_fixture, fake_summarizer, DUAL)
    chat = [
        memory(n, days_old=40 - n, content=f"We spoke about the garden again, visit {n}. {FILLER} {FILLER}")
        for n in range(1, 5)
    ]
    code = [memory(n, days_old=40 - n, category=MemoryCategory.PROCEDURAL, content=_code(n)) for n in range(11, 15)]
    await world.store([*chat, *code])
    run = world.plan_run()

    await world.service().run(run.run_id)

    assert [summary.entry.category for summary in await world.summaries()] == [MemoryCategory.PROCEDURAL]
    [waiting] = world.ledger.syntheses.of_run(COMPANY, run.run_id)
    assert waiting.is_open
    await finish(world, run.run_id)
    tags = {summary.entry.category: summary.entry.metadata.tags for summary in await world.summaries()}
    assert tags[MemoryCategory.PROCEDURAL][:2] == ("consolidated", "mode:extractive")
    assert tags[MemoryCategory.EPISODIC][:2] == ("consolidated", "mode:abstractive")
    assert len(fake_summarizer.asked) == 3
    await world.check_balance()


async def test_a_category_taken_off_the_policy_is_left_alone_though_its_answer_has_come(
    world: MaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    await world.store(memory(n, days_old=40 - n, category=MemoryCategory.SEMANTIC) for n in range(1, 5))
    before = await world.snapshot()
    run = world.plan_run()
    assert isinstance(await world.service().run(run.run_id), Deferred)
    world.policy = world.policy.model_copy(update={"categories": (MemoryCategory.EPISODIC,)})

    await finish(world, run.run_id)

    assert len(fake_summarizer.asked) == 1
    assert await world.snapshot() == before


async def test_the_dual_mode_leaves_what_is_younger_than_the_archive_takes(
    make_maintenance_fixture: MakeMaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    world = with_model(make_maintenance_fixture, fake_summarizer, DUAL)
    await world.store(memory(n, days_old=19) for n in range(1, 8))

    run = await world.maintenance_run()

    assert run.counts["consolidated"] == 0
    assert not fake_summarizer.asked


async def test_a_group_longer_than_the_prompt_is_cut_into_several(
    make_maintenance_fixture: MakeMaintenanceFixture, fake_summarizer: FakeSummarizer
) -> None:
    caps = LLMConsolidationConfig(max_entry_input_chars=400, max_total_user_content_chars=1000)
    policy = LLM.model_copy(update={"llm": caps, "group_max_entries": 20})
    world = with_model(make_maintenance_fixture, fake_summarizer, policy)
    await world.store(
        memory(n, days_old=40 - n, content=f"We saw {n} gardens. {FILLER} {AND_SO_ON}") for n in range(1, 9)
    )

    await world.maintenance_run()

    assert [len(summary.lineage.summary_of) for summary in await world.summaries()] == [3, 3]
    assert await world.live()  # the last one of seven stands alone and waits for the next run
    assert uid(7) in await world.live()


#: Makes a memory of 300 characters and more: three go into a prompt of a thousand.
AND_SO_ON = "It went on like that for the whole of the long afternoon, as it does on most days of that kind."


def _code(number: int) -> str:
    return f'''def job_{number}(payload: dict) -> None:
    """Run it."""
    for item in payload["items"]:
        if item["state"] == "done":
            continue
        queue.send(item["id"], retries={number}, key="a3f1{number}")
    return None
''' + "".join(f"def helper_{each}(a, b):\n    return a[{each}] + b[{each}]\n" for each in range(20))


@pytest.mark.parametrize(("policy", "questions"), [(LLM, 2), (DUAL, 6)])
async def test_a_plan_counts_the_questions_and_asks_none(
    make_maintenance_fixture: MakeMaintenanceFixture,
    fake_summarizer: FakeSummarizer,
    policy: ConsolidationConfig,
    questions: int,
) -> None:
    world = with_model(make_maintenance_fixture, fake_summarizer, policy)
    await world.store(memory(n, days_old=40 - n, content=f"We spoke about garden {n}.") for n in range(1, 8))

    plan = await world.service().plan(AGENT)

    assert plan.questions == questions
    assert plan.tokens > 0
    assert not fake_summarizer.asked
    await world.maintenance_run()
    assert len(fake_summarizer.asked) == questions

"""Probes of the model that writes a summary: asked once beside it, and they decide with the others."""

import json
from datetime import timedelta

import pytest
from support.fake_summarizer import FakeSummarizer, said
from support.ledger_records import COMPANY
from support.maintenance_fixture import AGENT, MaintenanceFixture, MakeMaintenanceFixture, memory
from support.model_runs import LLM, leave_incomplete, with_model
from support.vector_backend import VectorInMemory

from memcore.config.maintenance import GateConfig
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.errors import RetryExhaustedError
from memcore.ledger.runs import Run
from memcore.llm.protocol import Attribution, Completion, CompletionRequest

#: The words of the memories alone draw a probe on the rarest: the model asks for what is usual here.
TEXTS = [
    f"On day {n} we fed the tortoise, and the tortoise ate {food}. It was quiet."
    for n, food in enumerate(("lettuce", "carrots", "clover"), 1)
]

#: Of three memories one is kept: at most one of these answers is still there.
EXAM = (("What was the tortoise fed on day 1?", "lettuce"), ("What was the tortoise fed on day 2?", "carrots"))

NO_ZOOM = MemoryRetrievalConfig(zoom=False)


class Examiner(FakeSummarizer):
    """Writes a summary without the lettuce, and asks what it is told to."""

    def __init__(self, answer: str = "") -> None:
        super().__init__()
        self.answer = answer

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        await super().ask(request, by=by, key=key)
        if request.json_schema is not None:
            return said(self.answer)
        return said("On days 1 and 2 we fed the tortoise. It was quiet.")


def answer(*probes: tuple[str, str]) -> str:
    return json.dumps({"probes": [{"question": question, "answer": word} for question, word in probes]})


async def ran(
    make_maintenance_fixture: MakeMaintenanceFixture, model: FakeSummarizer, *, ask_model: bool = True
) -> tuple[MaintenanceFixture, Run]:
    policy = LLM.model_copy(update={"gate": GateConfig(ask_model=ask_model)})
    world = with_model(make_maintenance_fixture, model, policy)
    world.backend = VectorInMemory(company=COMPANY, clock=world.clock)
    await world.store(memory(n, days_old=40 - n, content=text) for n, text in enumerate(TEXTS, 1))
    run = world.plan_run()
    for _ in range(3):
        await world.service(retrieval=NO_ZOOM).run(run.run_id)
        await world.ask_model(run.run_id)
    return world, world.run(run.run_id)


async def test_what_the_model_asks_for_and_the_summary_lost_refuses_it(
    make_maintenance_fixture: MakeMaintenanceFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_incomplete(monkeypatch)
    model = Examiner(answer(*EXAM))
    world, run = await ran(make_maintenance_fixture, model)
    assert run.counts["gate_refused"] == 1
    assert run.counts["gate_found_after"] < run.counts["gate_found_before"]
    assert sorted(each.entry.content for each in (await world.live()).values()) == TEXTS
    assert [by.purpose for by in model.for_whom] == [
        "system:memory:consolidate:episodic",
        "system:memory:probe:episodic",
    ]
    asked = model.asked[1]
    assert asked.json_schema is not None
    assert sum(text in asked.messages[-1].content for text in TEXTS) == 2
    assert "lettuce" not in asked.messages[0].content, "texts stand in the fence alone"


@pytest.mark.parametrize(
    "reply",
    [
        "no JSON",
        '{"probes": [{"question": "What does it eat?"}]}',
        answer(("What is the capital?", "Riga")),
        answer(("Does the tortoise eat lettuce?", "lettuce")),
        answer(("x" * 301, "lettuce")),
        '{"probes": []}',
    ],
)
async def test_an_answer_of_no_use_leaves_the_other_probes_to_decide(
    make_maintenance_fixture: MakeMaintenanceFixture, monkeypatch: pytest.MonkeyPatch, reply: str
) -> None:
    leave_incomplete(monkeypatch)
    _, plain = await ran(make_maintenance_fixture, Examiner(), ask_model=False)
    _, run = await ran(make_maintenance_fixture, Examiner(reply))
    figures = ("gate_probes", "gate_found_before", "gate_found_after", "gate_refused", "summaries")
    assert [run.counts.get(name) for name in figures] == [plain.counts.get(name) for name in figures]


async def test_without_the_key_nothing_more_is_asked(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    model = Examiner()
    await ran(make_maintenance_fixture, model, ask_model=False)
    assert [by.purpose for by in model.for_whom] == ["system:memory:consolidate:episodic"]


async def test_a_plan_counts_both_questions_and_both_readings(make_maintenance_fixture: MakeMaintenanceFixture) -> None:
    plans = []
    for ask_model in (False, True):
        policy = LLM.model_copy(update={"gate": GateConfig(ask_model=ask_model)})
        world = with_model(make_maintenance_fixture, Examiner(), policy)
        world.backend = VectorInMemory(company=COMPANY, clock=world.clock)
        await world.store(memory(n, days_old=40 - n, content=text) for n, text in enumerate(TEXTS, 1))
        plans.append(await world.service().plan(AGENT))
    once, twice = plans
    assert (once.questions, twice.questions) == (1, 2)
    assert twice.tokens == 2 * once.tokens > 0


async def test_a_model_that_goes_away_between_the_two_is_paid_for_no_answer_twice(
    make_maintenance_fixture: MakeMaintenanceFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_incomplete(monkeypatch)
    model = Examiner(answer(*EXAM))
    model.script = [None, RetryExhaustedError("connection refused (4 attempts)")]
    policy = LLM.model_copy(update={"gate": GateConfig(ask_model=True)})
    world = with_model(make_maintenance_fixture, model, policy)
    world.backend = VectorInMemory(company=COMPANY, clock=world.clock)
    await world.store(memory(n, days_old=40 - n, content=text) for n, text in enumerate(TEXTS, 1))
    run = world.plan_run()
    for _ in range(4):
        await world.service(retrieval=NO_ZOOM).run(run.run_id)
        await world.ask_model(run.run_id)
        world.clock.turn(timedelta(hours=2))
    assert world.run(run.run_id).counts["gate_refused"] == 1
    assert set(model.keys.values()) == {1}
    assert len(model.keys) == 2

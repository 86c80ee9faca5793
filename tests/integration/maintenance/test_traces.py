"""A maintenance run's trace leads to each question that it asks a model."""

from datetime import timedelta

from support.maintenance_fixture import AGENT, MakeMaintenanceFixture, memory
from support.stub_llm_process import StubLLM
from support.traces import attributes, recorded

from memcore.clock import utc_now
from memcore.config.llm import BudgetsConfig
from memcore.config.maintenance import ConsolidationConfig
from memcore.jobs import Done
from memcore.llm.accounting import AccountedModel
from memcore.llm.provider import ServerProvider
from memcore.llm.retry import Retrying
from memcore.telemetry import tracing

#: A word of the memories and of the prompts.
CANARY = "marigold"


async def test_a_run_leads_to_its_questions_with_their_tokens(
    make_maintenance_fixture: MakeMaintenanceFixture, stub: StubLLM
) -> None:
    world = make_maintenance_fixture(ConsolidationConfig(strategy="llm", max_removed_fraction=1.0))
    world.patience = timedelta(0)
    for number in range(1, 4):
        content = f"the harbour crane number {number} was painted, {CANARY}. " + "La la la. " * 27
        await world.store([memory(number, days_old=40 - number, content=content)])
    await world.store([memory(9, days_old=10, content="the newest stays")])
    provider = ServerProvider(stub.url, model="stub", timeout=timedelta(seconds=60), clock=utc_now)
    model = AccountedModel(
        Retrying(provider, attempts=2), world.ledger.spending, budgets=BudgetsConfig(), prices={}, model="stub"
    )
    world.model = model
    run = world.plan_run()
    with recorded() as found, tracing.trace("process memory.maintenance.run"):
        assert isinstance(await world.to_the_end(run.run_id), Done)
    await model.close()
    assert {attributes(each)["memtend.run.id"] for each in found.named("run maintenance")} == {run.run_id}
    questions = found.named("chat ")
    assert questions
    for each in questions:
        assert found.path(each) == ["process memory.maintenance.run", "chat stub"]
        said = attributes(each)
        assert (said["gen_ai.operation.name"], said["gen_ai.request.model"]) == ("chat", "stub")
        assert (said["memtend.run.id"], said["gen_ai.agent.id"]) == (run.run_id, AGENT)
        assert min(said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) > 0
        assert said["memtend.purpose"].startswith("system:memory:")
    assert CANARY not in found.texts()

"""From a written fact to a prompt: an engine's default strategy injects what the organisation knows."""

from ledgers import StoppedClock
from org_facts import GRACE, agent, request

from memcore.backends.mem0.backend import Mem0Backend
from memcore.config.org import OrgMemoryConfig
from memcore.config.policy import Policy
from memcore.config.write_access import OrgFactCategory
from memcore.ledger import Ledger
from memcore.models import MemoryCategory, MemoryStoreRequest
from memcore.org.ledger_org_memory import LedgerOrgMemory
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.organisation import KEPT

POLICY = OrgFactCategory.CORE_POLICY


async def test_a_strategy_made_from_the_policy_leads_with_policies_and_shows_facts_that_stand(
    memory: LedgerOrgMemory, backend: Mem0Backend, ledger: Ledger, company: str, clock: StoppedClock
) -> None:
    policy = Policy(org_memory=OrgMemoryConfig(core_policies=("Be kind.",)))
    await memory.write(request("Never log customer data", category=POLICY), author=GRACE)
    fact_id = await memory.write(request("The printer wants blue paper"), author=agent())
    mine = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="The printer jams on Mondays")
    await backend.store("ada", mine)
    strategy = ContextInjectionStrategy.from_policy(policy, backend=backend, clock=clock)

    first, _, memories = await strategy.prepare_messages("ada", "printer paper and customer data", 500)
    assert first.content.splitlines()[1:] == ["- Be kind.", "- Never log customer data"]
    assert "[organisation] [convention" in memories.content
    assert "blue paper" in memories.content
    assert "on Mondays" in memories.content
    assert "customer data" not in memories.content

    # The store has not heard of it yet; prompts have.
    ledger.org.publish(company, fact_id, request("The printer wants red paper"), author=GRACE)
    await memory.retract((await memory.list_policies())[0].id, author=GRACE)
    clock.advance(KEPT)
    first, _, memories = await strategy.prepare_messages("ada", "printer paper and customer data", 500)
    assert first.content.splitlines()[1:] == ["- Be kind."]
    assert "paper" not in memories.content
    assert "on Mondays" in memories.content

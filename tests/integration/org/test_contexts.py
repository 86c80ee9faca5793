"""From a written fact to a prompt: an engine's default strategy injects what the organisation knows."""

import pytest
from support.erasure_world import WORD
from support.ledger_records import StoppedClock
from support.organization_facts import GRACE, agent, request

from memcore.backends.factory import create_memory_backend
from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.config.memory import CompanyMemoryConfig, MemoryOptionsConfig
from memcore.config.organization import OrgMemoryConfig
from memcore.config.policy import Policy
from memcore.config.retrieval import FusionStrategy, MemoryRetrievalConfig
from memcore.embedding.protocol import Embedder
from memcore.errors import MemoryCapabilityError
from memcore.ledger.ledger import Ledger
from memcore.models.distrust import DistrustRule
from memcore.models.memory import MemoryCategory, MemoryStoreRequest
from memcore.models.organization import OrgFactCategory
from memcore.models.origin import Writer, writing_as
from memcore.org.service import LedgerOrgMemory
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.retrieval.sources import KEPT

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

    first, _, memories = await strategy.prepare_messages("ada", "printer", 500)
    assert first.content.splitlines()[1:] == ["- Be kind.", "- Never log customer data"]
    assert '<memory-entry organisation="convention' in memories.content
    assert "blue paper" in memories.content
    assert "on Mondays" in memories.content
    assert "customer data" not in memories.content

    # The store does not show it yet; prompts do.
    ledger.org.publish(company, fact_id, request("The printer wants red paper"), author=GRACE)
    await memory.retract((await memory.list_policies())[0].id, author=GRACE)
    clock.advance(KEPT)
    first, _, memories = await strategy.prepare_messages("ada", "printer", 500)
    assert first.content.splitlines()[1:] == ["- Be kind."]
    assert "paper" not in memories.content
    assert "on Mondays" in memories.content


@pytest.mark.parametrize("fusion", FusionStrategy)
async def test_without_shared_knowledge_prompts_still_hold_what_the_organisation_says(
    fusion: FusionStrategy,
    memory: LedgerOrgMemory,
    backend: Mem0Backend,
    place: Mem0Config,
    embedder: Embedder,
    company: str,
    clock: StoppedClock,
) -> None:
    await memory.write(request("Never log customer data", category=POLICY), author=GRACE)
    await memory.write(request("The printer wants blue paper"), author=agent())
    said = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="The printer wants paper, says Bob")
    await backend.publish("bob", said)
    policy = Policy(
        memory=CompanyMemoryConfig(
            options=MemoryOptionsConfig(shared_knowledge_base=False),
            retrieval=MemoryRetrievalConfig(fusion_strategy=fusion),
        )
    )
    alone = create_memory_backend(policy.memory, place=place, company=company, embedder=embedder, clock=clock)
    assert isinstance(alone, Mem0Backend)
    await alone.connect()
    try:
        made = ContextInjectionStrategy.from_policy(policy, backend=alone, clock=clock)
        first, *_, memories = await made.prepare_messages("ada", "printer", 500)
        assert "- Never log customer data" in first.content
        assert "blue paper" in memories.content
        assert "says Bob" not in memories.content
        with pytest.raises(MemoryCapabilityError, match="shared_knowledge_base is off"):
            await alone.publish("ada", said)
    finally:
        await alone.disconnect()


async def test_no_prompt_holds_what_a_distrusted_key_wrote_in_the_name_of_the_organisation(
    memory: LedgerOrgMemory, backend: Mem0Backend, ledger: Ledger, company: str, clock: StoppedClock
) -> None:
    for key in ("clean", "bought"):
        with writing_as(Writer(principal=key)):
            await memory.write(request(f"Never log what is {key}", category=POLICY), author=GRACE)
            await memory.write(request(f"The printer wants paper, {key}"), author=agent())
    strategy = ContextInjectionStrategy.from_policy(Policy(), backend=backend, clock=clock)

    async def prompt() -> str:
        clock.advance(KEPT)
        return "".join(each.content for each in await strategy.prepare_messages("ada", "printer", 500))

    whole = await prompt()
    made = ledger.distrusts.add(company, DistrustRule(principal="bought"), WORD)
    shown = await prompt()
    assert (whole.count("bought"), shown.count("bought"), shown.count("clean")) == (2, 0, 2)
    ledger.distrusts.lift(company, made.distrust_id, WORD)
    assert await prompt() == whole

"""The effects of the keys of retrieval, stores and organisation on prompts and backends."""

import asyncio
from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import partial

from memcore.backends.factory import create_engine_backend, create_memory_backend, create_worker_backend, mem0_config_of
from memcore.backends.fusion import RankedLists
from memcore.backends.mem0.backend import Mem0Backend, encoder_of, plans
from memcore.backends.when import asked_range
from memcore.client.async_client import AsyncMemoryClient
from memcore.config.policy import Policy
from memcore.deadline.limits import part_limit
from memcore.embedding.protocol import EmbedderKind
from memcore.errors import MemoryConfigError, OrgMemoryAccessDeniedError
from memcore.jobs import QueryPayload, RecordedQuery
from memcore.ledger.ledger import Ledger
from memcore.memory.async_memory import AsyncMemory
from memcore.models.memory import NON_INFERABLE_TAG, MemoryEntry, MemoryQuery, zone_of
from memcore.models.organization import OperationLogEntry, OrgFact, OrgFactCategory, SeniorityLevel
from memcore.org.search import record_of
from memcore.org.service import LedgerOrgMemory
from memcore.retrieval.context import ContextInjectionStrategy
from scheduler.expire import expire_company
from support.config_effects import Effect, Place, Scene, context_fixture
from support.hashing_embedder import HashingEmbedder
from support.memories import NOW
from support.organization_facts import GRACE, agent, request
from support.scored_memories import entry
from support.search_backends import HybridBackend, hits, near
from tasks.store import record_queries
from workers.celery_task import perform
from workers.stack.services import with_external_stores

FULL = "the disk of the build host is full"

#: An agent's memories: some are alike and no repetitions, one is old, one has the tag, one no relevance of its own.
OWN = (
    entry("a", f"{FULL} again", relevance=0.9),
    entry("b", f"{FULL} once more", relevance=0.88, created_at=NOW - timedelta(days=3)),
    entry("c", f"{FULL}, nearly", relevance=0.86, created_at=NOW - timedelta(days=9)),
    entry("d", "Mara reviews before noon", relevance=0.6, tags=(NON_INFERABLE_TAG,)),
    entry("e", "the lift is out of order", relevance=0.35, created_at=NOW - timedelta(days=40)),
    entry("f", "the roof leaks"),
)
SHARED = (entry("s", "the canteen closes at two", relevance=0.7, agent_id="bob"),)


def _shown(number: int) -> MemoryEntry:
    asked = request(f"fact {number}", category=OrgFactCategory.ADR)
    line = OperationLogEntry(
        operation_id=str(number),
        fact_id=f"fact {number}",
        operation_type="PUBLISH",
        content=asked.content,
        category=asked.category,
        timestamp=NOW,
        version=1,
    )
    return record_of("acme", line).entry.model_copy(update={"relevance_score": 0.65})


class Facts:
    """Nine published facts."""

    dense_weight = 0.4

    async def policies(self, *, offset: int) -> tuple[OrgFact, ...]:
        del offset
        return ()

    async def standing(self, fact_ids: Collection[str]) -> dict[str, tuple[int, OrgFact]]:
        common = {"category": OrgFactCategory.ADR, "author": agent(), "created_at": NOW}
        return {key: (1, OrgFact(id=key, content=key, **common)) for key in fact_ids}


class ScriptedBackend(HybridBackend):
    """Answers with the entries above, as ranked lists."""

    def __init__(self, dense_weight: float) -> None:
        shared = (*SHARED, *map(_shown, range(9)))
        dense = tuple(each for each in OWN if each.relevance_score is not None)
        words = (dense[3], dense[0], dense[4])
        super().__init__(
            RankedLists(
                dense=near(*dense),
                sparse=hits(*words),
                shared_dense=near(*shared),
                shared_sparse=hits(*shared),
                dense_weight=dense_weight,
            )
        )
        self.answer = OWN
        self.facts = Facts()


def prompt(place: Place, policy: Policy) -> object:
    """What an agent is shown, and how many memories were asked for."""
    built = create_memory_backend(
        policy.memory, company="acme", embedder=HashingEmbedder(), place=mem0_config_of(place.settings())
    )
    assert isinstance(built, Mem0Backend)
    backend = ScriptedBackend(built.dense_weight)
    strategy = ContextInjectionStrategy.from_policy(policy, backend=backend, clock=lambda: NOW)
    messages = asyncio.run(strategy.prepare_messages("ada", "what is out of order?", 4_000))
    return [(str(each.role), each.content) for each in messages]


def small_prompt(_place: Place, policy: Policy) -> object:
    """What is shown of a memory that is longer than the prompt."""
    long = entry("g", "The roof leaks. " * 60, relevance=0.9)
    backend = HybridBackend(RankedLists(dense=near(long), sparse=hits(long)))
    strategy = ContextInjectionStrategy.from_policy(policy, backend=backend, clock=lambda: NOW)
    return [each.content for each in asyncio.run(strategy.prepare_messages("ada", "what leaks?", 100))]


def questions(place: Place, policy: Policy) -> object:
    """The questions that are still kept of those that an engine sent, of yesterday and of ten days ago."""
    with context_fixture(place, policy) as world:
        now = world.clock()
        sent = tuple(
            RecordedQuery(agent_id="ada", question=f"{days}?", memory_ids=("a",), asked_at=now - timedelta(days=days))
            for days in (1, 10)
        )
        perform(record_queries, QueryPayload(company="acme", queries=sent).model_dump_json(), world.job_context)
        expire_company(world.ledger, "acme", policy, now=now)
        return [each.question for each in world.ledger.recorded_queries.of("acme", "ada")]


def store_wait(place: Place, policy: Policy) -> object:
    """For how long a search waits for the store."""
    waited: list[float | None] = []

    class Backend(ScriptedBackend):
        async def retrieve(self, agent_id: str, query: MemoryQuery) -> tuple[MemoryEntry, ...]:
            waited.append(part_limit())
            return await super().retrieve(agent_id, query)

    memory = AsyncMemory(
        AsyncMemoryClient.from_settings(place.settings()), open_backend=lambda: Backend(0.4), policy=policy
    )
    asyncio.run(memory.search("ada", "what is out of order?"))
    return waited


def sparse_vector(_place: Place, policy: Policy) -> object:
    vector = encoder_of(policy.memory).encode_document("disk disk disk host")
    return vector.values


def last_summer(_place: Place, policy: Policy) -> object:
    """The range that the way of searching reads in a question."""
    plan = plans(policy.memory)(EmbedderKind.STATIC, None)
    return asked_range("last summer", NOW, zone=zone_of(plan.time_zone), hemisphere=plan.hemisphere)


def vector_space(place: Place, policy: Policy) -> object:
    """What a collection remembers of how its texts were indexed: where it differs, a reindex is asked for."""
    built = create_memory_backend(
        policy.memory, company="acme", embedder=HashingEmbedder(), place=mem0_config_of(place.settings())
    )
    return built.vector_space if isinstance(built, Mem0Backend) else None


def workers_backend(place: Place, policy: Policy) -> object:
    """The backend that a worker opens, or why it refuses."""
    try:
        return create_worker_backend(place.settings(), policy, embedder=HashingEmbedder()).backend_name
    except MemoryConfigError as error:
        return str(error)


def stores_outside(place: Place, policy: Policy) -> object:
    """What `memtend up` asks for where the policy puts a store outside the stack, and what an engine says of it."""
    settings, errors = place.settings(), list[str]()
    for step in (
        partial(with_external_stores, settings, policy.memory.storage, {}),
        partial(create_engine_backend, settings, policy, embedder=HashingEmbedder()),
    ):
        try:
            step()
        except MemoryConfigError as error:
            errors.append(str(error))
    return errors


def writing_facts(place: Place, policy: Policy) -> object:
    """Who may write an architecture decision."""
    ledger = Ledger.open(place.settings().ledger_urls)
    memory = LedgerOrgMemory(ledger.org, policy.org_memory, company="acme")

    async def write() -> list[bool]:
        await memory.connect()
        found = []
        for author in (agent(SeniorityLevel.JUNIOR), agent(SeniorityLevel.SENIOR), GRACE):
            try:
                await memory.write(request("Use one database", category=OrgFactCategory.ADR), author=author)
                found.append(True)
            except OrgMemoryAccessDeniedError:
                found.append(False)
        return found

    try:
        return asyncio.run(write())
    finally:
        ledger.close()


def _retrieval(
    see: Scene,
    value: object,
    *,
    also: Mapping[str, object] | None = None,
    given: Mapping[str, object] | None = None,
) -> Effect:
    return Effect(
        see,
        value,
        {f"memory.retrieval.{name}": each for name, each in (given or {}).items()},
        {f"memory.retrieval.{name}": each for name, each in (also or {}).items()},
    )


ANY: dict[str, object] = {"standing": "any"}
RECENT: dict[str, object] = {
    "fusion_strategy": "linear",
    "relevance_weight": 0.5,
    "recency_weight": 0.5,
    "min_relevance": 0.6,
}
ALIKE: dict[str, object] = {"fusion_strategy": "linear", "include_shared": False, "max_memories": 2}
DIVERSE: dict[str, object] = {**ALIKE, "diversity_penalty_enabled": True, "diversity_lambda": 0.3}
COMPOSITE = {"memory.backend": "composite", "memory.composite.default": "mem0"}
RULES = "org_memory.write_access.rules"
EFFECTS = {
    **{
        f"memory.retrieval.{name}": effect
        for name, effect in {
            "relevance_weight": _retrieval(prompt, 0.2, also={"recency_weight": 0.8}, given=ANY),
            "recency_weight": _retrieval(prompt, 0.9, also={"relevance_weight": 0.1}, given=ANY),
            "recency_decay_rate": _retrieval(prompt, 0.5, given=RECENT),
            "personal_boost": _retrieval(prompt, 0.5),
            "min_relevance": _retrieval(prompt, 0.9),
            "min_evidence": _retrieval(prompt, 0.9),
            "standing": _retrieval(prompt, "any"),
            "max_memories": _retrieval(prompt, 1),
            "include_shared": _retrieval(prompt, value=False),
            "shared_fraction": _retrieval(prompt, 0.0, given={"max_memories": 4, **ANY}),
            "max_per_publisher": _retrieval(prompt, 1, given=ANY),
            "default_relevance": _retrieval(prompt, 0.9, given={"fusion_strategy": "linear"}),
            "injection_point": _retrieval(prompt, "user"),
            "non_inferable_only": _retrieval(prompt, value=True),
            "fusion_strategy": _retrieval(prompt, "linear"),
            "rrf_k": _retrieval(prompt, 1, given={"fusion_strategy": "rrf"}),
            "dense_weight": _retrieval(prompt, 1.0),
            "passages": _retrieval(small_prompt, value=False),
            "time_zone": _retrieval(last_summer, "Europe/Berlin"),
            "hemisphere": _retrieval(last_summer, "south"),
            "deadline_seconds": _retrieval(store_wait, 2.0),
            "record_queries": _retrieval(questions, value=True),
            "query_days": _retrieval(questions, 7, given={"record_queries": True}),
            "sparse": _retrieval(prompt, value=False),
            "sparse_term_weight": _retrieval(sparse_vector, "raw"),
            "diversity_penalty_enabled": _retrieval(prompt, value=True, given={**ALIKE, "diversity_lambda": 0.3}),
            "diversity_lambda": _retrieval(prompt, 1.0, given=DIVERSE),
            "candidate_pool_multiplier": _retrieval(prompt, 1, given=DIVERSE),
        }.items()
    },
    "memory.storage.text_template": Effect(vector_space, "{date}: {content}"),
    "memory.storage.vector_store": Effect(stores_outside, "qdrant-external"),
    "memory.storage.history_store": Effect(stores_outside, "postgresql"),
    "memory.backend": Effect(workers_backend, "inmemory"),
    "memory.composite.default": Effect(workers_backend, "inmemory", COMPOSITE),
    "memory.composite.routes": Effect(workers_backend, {"scratch": "inmemory"}, COMPOSITE),
    **{
        f"org_memory.write_access.rules{name}": Effect(
            writing_facts, {"adr": changed}, {RULES: {"adr": {"allowed_seniority": "senior"}}}, at=RULES
        )
        for name, changed in {
            "": {"allowed_seniority": "lead"},
            "[].allowed_seniority": {"allowed_seniority": "junior"},
            "[].human_allowed": {"allowed_seniority": "senior", "human_allowed": False},
        }.items()
    },
    "org_memory.core_policies": Effect(prompt, ["Be kind."]),
    "org_memory.extended_store.max_retrieved_per_query": Effect(prompt, 2, {"memory.retrieval.standing": "any"}),
}

"""The effects of the keys of lessons, skill evolver, language models, embedders and fine-tuning."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from memcore.backends.factory import create_configured_embedder
from memcore.client.envelopes import build_trace_payload
from memcore.config.policy import Policy
from memcore.errors import MemoryError  # noqa: A004  # the reference fixes the name
from memcore.finetune.execution.factory import create_executor, execution_of
from memcore.finetune.service import FineTuneService
from memcore.jobs import Outcome
from memcore.ledger.agents import AgentSpec
from memcore.ledger.ledger import Ledger
from memcore.llm.accounting import create_model
from memcore.llm.protocol import Attribution, CompletionRequest
from memcore.models.execution import ChatMessage, MessageRole
from memcore.procedural.service import LearningService
from memcore.records import Where
from memcore.skills.evolver import CycleService
from memcore.skills.publication import SkillApprovals
from scheduler.expire import expire
from scheduler.sweep import plan_cycles
from support.config_effects import AGENT, COMPANY, ContextFixture, Effect, Place, context_fixture
from support.config_effects_maintenance import Teacher
from support.embedding_server import embedding_server
from support.execution_traces import trace, trajectory
from support.learning_fixture import FAILED
from support.lessons import answer, lesson
from support.maintenance_fixture import START
from support.proposals import ADA, proposal
from support.recording_server import Recorder, chat, recorder
from support.skill_cycles import DISK, Fleet
from tasks.distill import distill
from tasks.maintain import propagate_lessons
from workers.celery_task import perform

BY = Attribution(company=COMPANY, agent_id=AGENT, run_id=None, purpose="test")
ASKED = CompletionRequest(messages=(ChatMessage(role=MessageRole.USER, content="why?"),), max_tokens=50)


def _memories(made: ContextFixture, agent_id: str = AGENT) -> list[str]:
    found = asyncio.run(made.backend.scan(Where(agent_id=agent_id), limit=256)).records
    return sorted(each.entry.content for each in found)


def extract_lesson(made: ContextFixture, lesson_id: str) -> Outcome:
    """Draw one lesson as its job does."""
    return made.job_context.run(made.job_context.service(LearningService).extract_lesson(lesson_id))


def finished_tasks(place: Place, policy: Policy) -> object:
    """Which of an agent's tasks have a lesson to be drawn: a failure and a success."""
    with context_fixture(place, policy, model=Teacher()) as made:
        for name, more in (("failure", FAILED), ("success", {"quality": 9.0})):
            payload = build_trace_payload(AGENT, trace(name, ended_at=START, **more), company=COMPANY, now=START)
            perform(distill, payload.model_dump_json(), made.job_context)
        waiting = made.ledger.lessons.page(COMPANY, AGENT)
        return sorted(made.ledger.trajectories.get(COMPANY, each.lesson_id).task_id for each in waiting)  # type: ignore[union-attr]  # it was appended with its lesson


def lessons_drawn(place: Place, policy: Policy) -> object:
    """What becomes of the lessons of a failure and of two successes, what was asked, and which files were written."""
    model = Teacher(always=answer(confidence=0.85))
    with context_fixture(place, policy, model=model) as made:
        tasks: list[tuple[str, dict[str, Any]]] = [
            ("failure", FAILED),
            ("better", {"quality": 9.0}),
            ("worse", {"quality": 8.6}),
        ]
        for name, more in tasks:
            made.ledger.trajectories.append(COMPANY, trajectory(name, **more), lesson_at=made.clock())
        outcomes = [str(extract_lesson(made, name)) for name, _ in tasks]
        files = sorted(str(path.relative_to(place.folder).parent) for path in place.folder.rglob("SKILL.md"))
        asked = [(str(each.model), each.temperature, each.max_tokens) for each in model.asked]
        return outcomes, _memories(made), files, asked


def lessons_passed_on(place: Place, policy: Policy) -> object:
    """Who has the lesson that one agent has learned."""
    peers = {"ada": ("ops", "it"), "bob": ("ops", "hr"), "cyd": ("ops", "it"), "dan": ("qa", "it")}
    with context_fixture(place, policy, model=Teacher(always=answer())) as made:
        for agent_id, (role, department) in peers.items():
            made.ledger.agents.put(AgentSpec(company=COMPANY, agent_id=agent_id, role=role, department=department))
        made.ledger.trajectories.append(COMPANY, trajectory("failure", **FAILED), lesson_at=made.clock())
        extract_lesson(made, "failure")
        propagate_lessons(AGENT, made.job_context)
        return {agent_id: len(_memories(made, agent_id)) for agent_id in peers}


def evolution(place: Place, policy: Policy) -> object:
    """What a scheduled cycle of the evolver proposes, and what is left of old trajectories afterwards."""
    with context_fixture(place, policy, model=Teacher()) as made:
        fleet = Fleet(made.ledger, made.clock)  # type: ignore[arg-type]  # another clock of the tests
        fleet.work()
        for agents, word, ago in (("abcd", "alpha", 1), ("abcd", "beta", 1), ("ab", "gamma", 1), ("abcd", "delta", 45)):
            text = lesson(condition=f"{word}{word} happens", action=f"{word} {word}s")
            task = {"task_title": f"{word}{word} happens", "task_description": word, "ago": timedelta(days=ago)}
            fleet.fail(agents, word, text=text, **task)
        # It makes one of them less sure; and what is said of disks fits many an execution that went well.
        fleet.succeed("abc", "well-beta", task_type="beta")
        fleet.fail("abcd")
        fleet.succeed("abcdef", "well", task_type="import", task_title=DISK)
        plan_cycles(made.job_context, made.job_context.policies.served(made.job_context.ledger.companies))
        for item in made.dispatcher.items:
            made.job_context.run(made.job_context.service(CycleService).run(item.key))
        cycles = made.ledger.skill_cycles.page(COMPANY)
        proposed = sorted(each.proposal.content for each in made.ledger.approvals.page(COMPANY))
        return [each.report for each in cycles], proposed


def old_trajectories(place: Place, policy: Policy) -> object:
    """How many trajectories an expiry leaves."""
    with context_fixture(place, policy, model=Teacher()) as made:
        for days in (1, 40, 80, 120):
            one = trajectory(f"t-{days}").model_copy(update={"ended_at": START - timedelta(days=days)})
            made.ledger.trajectories.append(COMPANY, one)
        perform(expire, "{}", made.job_context)
        return made.ledger.trajectories.count(COMPANY)


def skills_approved(place: Place, policy: Policy) -> object:
    """How many proposed skills can be approved, and until when a proposal waits."""
    with context_fixture(place, policy) as made:
        fleet = Fleet(made.ledger, made.clock)  # type: ignore[arg-type]  # as above
        fleet.work()
        service = SkillApprovals.configured(
            place.settings(), policy, made.ledger, backend=made.backend, clock=made.clock
        )
        fleet.service = service
        for number, category in enumerate(("disk", "net")):
            words = {"discovery": f"Number {number}.", "condition": f"Case {number} of {category}."}
            fleet.fail("abcd", category, text=lesson(**words))
        asyncio.run(fleet.run())
        results = []
        for each in fleet.proposed():
            try:
                asyncio.run(service.approve(each.approval_id, ADA))
                results.append("approved")
            except MemoryError as error:
                results.append(type(error).__name__)
        lasts = {(each.expires_at - each.created_at) for each in fleet.proposed()}
        for number in range(2):
            try:
                asyncio.run(service.propose_once(proposal(f"Text {number}.")))
            except MemoryError as error:
                results.append(type(error).__name__)
        return results, lasts


def questions(place: Place, policy: Policy) -> object:
    """What a server of language models was asked, what came of it, and what the account says."""
    with recorder(chat(seconds=0.0)) as server:
        return _questions(place, policy, server)


def requests_sent(place: Place, policy: Policy) -> object:
    """Where a question is sent, and the fields and headers that policies add to it."""
    with recorder(chat(seconds=0.0)) as server:
        _questions(place, policy, server, keys=("first",))
    return [
        (each.path, each.body.get("top_p"), each.body.get("options"), each.headers.get("x-team"))
        for each in server.requests
    ]


def slow_questions(place: Place, policy: Policy) -> object:
    """The same where the server takes over a second."""
    with recorder(chat(seconds=1.2)) as server:
        return _questions(place, policy, server, keys=("first",))


def failing_questions(place: Place, policy: Policy) -> object:
    """How often a server that fails is asked."""
    with recorder(lambda _request: (500, {"error": {"message": "away"}})) as server:
        return _questions(place, policy, server)


def _questions(place: Place, policy: Policy, server: Recorder, *, keys: Sequence[str] = ("first", "second")) -> object:
    settings = place.settings(llm_url=f"{server.url}/v1")
    ledger = Ledger.open(settings.ledger_urls)

    async def ask() -> list[str]:
        model, results = create_model(settings, policy, ledger), list[str]()
        assert model is not None
        for key in keys:
            try:
                completion = await model.ask(ASKED, by=BY, key=key)
                results.append(f"{completion.text} {completion.cost}")
            except MemoryError as error:
                results.append(type(error).__name__)
        await model.close()
        return results

    try:
        return asyncio.run(ask()), [each.body.get("model") for each in server.requests]
    finally:
        ledger.close()


def embedding(place: Place, policy: Policy) -> object:
    """Which embedder there is, and what a server was sent."""
    with embedding_server() as server:
        settings = place.settings(embedder_url=server.url)
        try:
            embedder = create_configured_embedder(settings, policy)
            assert embedder is not None
            embedder.embed_documents(["a memory"])
            embedder.embed_query("a question")
        except MemoryError as error:
            return str(error).replace(server.url, "")
        return embedder.name, embedder.dims, server.asked


def stages(place: Place, policy: Policy) -> object:
    """What carries out the stages of a fine-tune."""
    execution = execution_of(place.settings(), policy)
    return type(create_executor(execution, place.folder)).__name__


def longest_stage(place: Place, policy: Policy) -> object:
    """How long the context lets a stage of a fine-tune run."""
    with context_fixture(place, policy) as made:
        return made.job_context.service(FineTuneService)._timeout_seconds


LLM = {"memory.llm.model": "small"}
PRICES = {"small": {"prompt_per_million": 1_000.0, "completion_per_million": 2_000.0}}
PRICED = {**LLM, "memory.llm.prices": PRICES}
EVOLVER = {"memory.procedural.evolver.enabled": True}
SERVED: dict[str, object] = {
    "memory.embedder.provider": "openai-compatible",
    "memory.embedder.model": "m",
    "memory.embedder.dims": 16,
}
CHECKPOINT = {"memory.embedder.fine_tune.checkpoint_path": "/c", "memory.embedder.fine_tune.base_model": "m"}
TUNED = {**SERVED, **CHECKPOINT, "memory.embedder.fine_tune.enabled": True}


def _under(section: str, **effects: Effect) -> dict[str, Effect]:
    return {f"{section}.{name}": effect for name, effect in effects.items()}


def _prices(**changed: float) -> Effect:
    return Effect(questions, {"small": {**PRICES["small"], **changed}}, PRICED, at="memory.llm.prices")


EFFECTS = {
    **_under(
        "memory.procedural",
        enabled=Effect(finished_tasks, value=False),
        model=Effect(lessons_drawn, "other"),
        temperature=Effect(lessons_drawn, 1.5),
        max_tokens=Effect(lessons_drawn, 77),
        min_confidence=Effect(lessons_drawn, 0.9),
        skill_md_directory=Effect(lessons_drawn, "skills"),
    ),
    **_under(
        "memory.procedural.capture",
        type=Effect(finished_tasks, "failure"),
        min_quality_score=Effect(lessons_drawn, 9.0),
        success_quality_percentile=Effect(lessons_drawn, 0.0),
    ),
    **_under(
        "memory.procedural.propagation",
        type=Effect(lessons_passed_on, "role"),
        max_propagation_targets=Effect(lessons_passed_on, 1, {"memory.procedural.propagation.type": "role"}),
    ),
    **_under(
        "memory.procedural.evolver",
        enabled=Effect(evolution, value=True),
        min_confidence_for_org_promotion=Effect(evolution, 0.99, EVOLVER),
        min_agents_seen_pattern=Effect(evolution, 2, EVOLVER),
        max_proposals_per_cycle=Effect(
            evolution, 1, {**EVOLVER, "memory.procedural.evolver.min_confidence_for_org_promotion": 0.5}
        ),
        window_days=Effect(evolution, 60, EVOLVER),
        min_precision=Effect(evolution, 0.4, EVOLVER),
        keep_days=Effect(old_trajectories, 60),
        max_org_entries=Effect(skills_approved, 1),
    ),
    "memory.approvals.expire_days": Effect(skills_approved, 3),
    "memory.approvals.max_waiting": Effect(skills_approved, 1),
    **_under(
        "memory.llm",
        model=Effect(questions, "other", LLM),
        api=Effect(requests_sent, "responses", {**LLM, "memory.llm.attempts": 1}),
        context_tokens=Effect(requests_sent, 2_048, {**LLM, "memory.llm.attempts": 1, "memory.llm.api": "ollama"}),
        extra_body=Effect(requests_sent, {"top_p": 0.5}, LLM),
        extra_headers=Effect(requests_sent, {"X-Team": "red"}, LLM),
        timeout_seconds=Effect(slow_questions, 1.0, {**LLM, "memory.llm.attempts": 1}),
        attempts=Effect(failing_questions, 2, {**LLM, "memory.llm.attempts": 1}),
        prices=Effect(questions, PRICES, LLM),
    ),
    "memory.llm.prices[].prompt_per_million": _prices(prompt_per_million=0.0),
    "memory.llm.prices[].completion_per_million": _prices(completion_per_million=0.0),
    **_under(
        "memory.budgets",
        tokens_per_agent_per_day=Effect(questions, 10, LLM),
        cost_per_agent_per_day=Effect(questions, 0.001, PRICED),
    ),
    **_under(
        "memory.embedder",
        provider=Effect(embedding, "static-mean"),
        model=Effect(embedding, "other", SERVED),
        dims=Effect(embedding, 17, SERVED),
        query_prefix=Effect(embedding, "query: ", SERVED),
        document_prefix=Effect(embedding, "passage: ", SERVED),
    ),
    **_under(
        "memory.embedder.fine_tune",
        enabled=Effect(embedding, value=True, given={**SERVED, **CHECKPOINT}),
        checkpoint_path=Effect(embedding, "/d", TUNED),
    ),
    "memory.fine_tune.timeout_seconds": Effect(longest_stage, 60.0),
    "memory.fine_tune.backend": Effect(stages, "docker", {"memory.fine_tune.image": "tuner"}),
}

"""The effects of the maintenance keys on a run, its hooks and later sweeps."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

from memcore import ids
from memcore.client.envelopes import Scope, build_payload
from memcore.config.policy import Policy
from memcore.errors import RetryExhaustedError
from memcore.experience import CompressionService
from memcore.jobs import Deferred, Outcome
from memcore.ledger import tables
from memcore.ledger.conversation.tables import turns
from memcore.ledger.ledger import Ledger
from memcore.ledger.runs import NewRun, RunKind, RunOrigin
from memcore.maintenance.changes import ChangesService
from memcore.maintenance.consolidation.answers import SynthesisService
from memcore.maintenance.search_notes import SearchNotesService
from memcore.maintenance.service import MaintenanceService
from memcore.models.memory import DISTILLATION, MemoryCategory, MemoryMetadata, MemoryQuery, MemoryStoreRequest
from memcore.models.origin import Channel, Origin
from memcore.records import ORIGIN_KEY, Lineage, MemoryRecord, Where
from scheduler.expire import expire, expire_company
from scheduler.sweep import sweep
from support.config_effects import AGENT, COMPANY, ContextFixture, Effect, Place, context_fixture
from support.experiences import experience
from support.fake_summarizer import FakeSummarizer
from support.fake_teacher import FakeTeacher
from support.ledger_records import StoppedClock, copied_urls, places_due
from support.lesson_memories import lesson_memory
from support.maintenance_fixture import START, memory
from support.old_rows import call, count, entry, insert, line, session, trace
from support.vector_backend import VectorInMemory
from tasks.maintain import export_wiki, request_changes, request_search_notes
from workers.celery_task import perform

#: More than any run needs.
MOST_CALLS = 12

#: What the lesson says that the fake model draws.
LESSON_TEXT = "Look at the disk first. Move old exports away. An import fails at night."

DENSE = (
    "ERR_4711 at 10.0.0.{n}:5432; retry={n}; see https://example.com/run/{n} and /var/log/import-{n}.log. "
    "CPU 9{n}%, p99 = 12{n} ms, build 1.4.{n}, commit 9f3c2a{n}, queue=orders, limit=500, MAX_RETRIES=3.\n"
) * 5
CHATTY = (
    "We talked for a while about how the team feels after the {n}th sprint, and it was a good talk. "
    "Mara said that she would rather have fewer meetings, and nobody had anything against that. "
    "In the end we agreed to try it for a month and to see how everyone likes it then. "
    "Tom was away that week, so somebody has to tell him before he plans the next one without us."
)


class Asked(FakeSummarizer):
    """A fake summarizer that a context can close."""

    async def close(self) -> None:
        pass

    def questions(self) -> object:
        """Every question, as it was put."""
        return sorted(
            (str(each.model), each.temperature, each.max_tokens, str([one.content for one in each.messages]))
            for each in self.asked
        )


class Silent(Asked):
    """A model that does not answer."""

    async def ask(self, *_args: object, **_given: object) -> "object":  # type: ignore[override]  # it never answers
        raise RetryExhaustedError("no")


class Teacher(FakeTeacher):
    """A fake teacher that a context can close."""

    async def close(self) -> None:
        pass


def month() -> Iterator[MemoryRecord]:
    """What an agent has after some months: old talk and old data, lessons, a task and a session that nobody ended."""
    for number in range(1, 5):
        yield memory(number, category=MemoryCategory.EPISODIC, content=CHATTY.format(n=number), days_old=60 + number)
        yield memory(
            10 + number,
            category=MemoryCategory.EPISODIC,
            namespace="data",
            content=DENSE.format(n=number),
            days_old=60 + number,
        )
    for number in range(20, 24):
        yield lesson_memory(number, days_old=20.0 * (number - 19))
    yield memory(30, category=MemoryCategory.WORKING, days_old=3, lineage=Lineage(task_id="t"))
    yield memory(31, category=MemoryCategory.SOCIAL, days_old=3, lineage=Lineage(session_id="s", project_id="p"))
    for number in range(40, 48):
        yield memory(number, category=MemoryCategory.SEMANTIC, days_old=1 + number / 100)
    yield memory(50, category=MemoryCategory.EPISODIC, days_old=2, tags=(DISTILLATION,), content="went well " * 20)
    yield memory(51, category=MemoryCategory.EPISODIC, days_old=1, tags=(DISTILLATION,), content="went badly " * 20)


def _run(
    made: ContextFixture,
    *,
    kind: RunKind = "maintenance",
    undo_of: str | None = None,
    origin: RunOrigin = "manual",
) -> tuple[str, Outcome]:
    run = made.ledger.runs.create(
        NewRun(
            run_id=ids.new_id(),
            company=COMPANY,
            agent_id=AGENT,
            kind=kind,
            origin=origin,
            planned_at=made.clock(),
            undo_of=undo_of,
        )
    )
    assert run is not None
    for _ in range(MOST_CALLS):
        seen = made.ledger.runs.get(run.company, run.run_id)
        assert seen is not None
        if seen.lease_until is not None and seen.lease_until > made.clock.at:
            made.clock.at = seen.lease_until
        outcome = made.job_context.run(made.job_context.service(MaintenanceService).run(run.run_id))
        if not (isinstance(outcome, Deferred) and _ask(made, run.run_id)):
            return run.run_id, outcome
    raise AssertionError("the run goes in circles")


def _ask(made: ContextFixture, run_id: str) -> int:
    places = places_due(made.ledger, run_id, company=COMPANY)
    for place in places:
        made.job_context.run(made.job_context.service(SynthesisService).ask(run_id, place))
    return len(places)


def _left(made: ContextFixture, outcome: Outcome) -> object:
    live = asyncio.run(made.backend.scan(Where(agent_id=AGENT), limit=256)).records
    archived = made.ledger.archive.search(COMPANY, AGENT, MemoryQuery(limit=1000))
    return (
        type(outcome).__name__,
        getattr(outcome, "reason", None),
        dict(getattr(outcome, "facts", {})),
        sorted((str(each.entry.category), each.entry.content) for each in live),
        sorted(each.original_id for each in archived),
    )


def maintenance_run(place: Place, policy: Policy) -> object:
    """What a run leaves, and what a model was asked."""
    model = Asked()
    with context_fixture(place, policy, model=model) as made:
        asyncio.run(made.keep(*month()))
        _, outcome = _run(made)
        return _left(made, outcome), model.questions()


def first_run(place: Place, policy: Policy) -> object:
    """What the first run that the schedule plans leaves."""
    with context_fixture(place, policy, model=Asked()) as made:
        asyncio.run(made.keep(*month()))
        _, outcome = _run(made, origin="scheduled")
        return _left(made, outcome)


KEYS = (
    ("amber", "brewery", "curtain"),
    ("silver", "harbour", "teapot"),
    ("wooden", "library", "mirror"),
    ("broken", "cellar", "piano"),
    ("narrow", "garden", "clock"),
    ("heavy", "attic", "barrel"),
)


def judged_run(place: Place, policy: Policy) -> object:
    """What a run leaves of facts and talk that summaries would cut down, on a store that finds no archived memory."""
    with context_fixture(place, policy, store=VectorInMemory) as made:
        facts = [f"The {one} key of the {two} lies behind the {three}." for one, two, three in KEYS]
        asyncio.run(made.keep(*(memory(n, content=text, days_old=60 + n) for n, text in enumerate(facts, 1))))
        talk = [CHATTY.format(n=f"{n}{n}{n}") for n in range(1, 9)]
        asyncio.run(made.keep(*(memory(n, content=text, namespace="talk") for n, text in enumerate(talk, 20))))
        _, outcome = _run(made)
        return _left(made, outcome)


def run_without_answers(place: Place, policy: Policy) -> object:
    """What a run leaves without an answer of its model."""
    with context_fixture(place, policy, model=Silent()) as made:
        asyncio.run(made.keep(*month()))
        _, outcome = _run(made)
        return _left(made, outcome)


def run_after_an_undo(place: Place, policy: Policy) -> object:
    """What the run after an undo leaves."""
    with context_fixture(place, policy, model=Asked()) as made:
        asyncio.run(made.keep(*month()))
        run_id, _ = _run(made)
        _run(made, kind="undo", undo_of=run_id)
        made.clock.turn(timedelta(hours=1))
        _, outcome = _run(made)
        return _left(made, outcome)


def first_memory(place: Place, policy: Policy) -> object:
    """What becomes of a memory that names no session, and when its agent is maintained."""
    request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="x")
    with context_fixture(place, policy) as made:
        item = build_payload(AGENT, request, company=COMPANY, sent_at=START, scope=Scope())
        written = made.job_context.batch_writer.submit([item]).result(20)
        agent = made.ledger.agents.get(COMPANY, AGENT)
        due = agent and agent.next_due_at
        return len(written.stored), sorted(written.refused.values()), due and due.replace(microsecond=0)


def later(place: Place, policy: Policy) -> object:
    """What expiry and sweep delete after some weeks: what runs removed, and what the archive holds."""
    with context_fixture(place, policy, model=Asked()) as made:
        asyncio.run(made.keep(*month()))
        _run(made)
        made.clock.turn(timedelta(days=20))
        expired, swept = (perform(job, "{}", made.job_context) for job in (expire, sweep))
        return getattr(expired, "facts", None), getattr(swept, "facts", None), made.ledger.archive.count(COMPANY, AGENT)


def repeated_by_a_tool(place: Place, policy: Policy) -> object:
    """How many memories a run leaves where a tool says word for word what an agent said."""
    with context_fixture(place, policy) as made:
        for number, channel in enumerate((Channel.AGENT, Channel.TOOL), start=1):
            origin = {ORIGIN_KEY: Origin(channels=(channel,)).stored()}
            asyncio.run(made.keep(replace(memory(number, content="The queue pages at 500 messages."), extra=origin)))
        _, outcome = _run(made)
        return _left(made, outcome)


#: Two keys, each a principal's.
_PRINCIPALS = {"a": ["a"], "b": ["b"]}


def said_by_two(place: Place, policy: Policy) -> object:
    """How many memories a run raises where a tool says word for word what a document says, by two keys."""
    with context_fixture(place, policy) as made:
        for number, (channel, key) in enumerate(((Channel.DOCUMENT, "a"), (Channel.TOOL, "b")), start=1):
            origin = {ORIGIN_KEY: Origin(channels=(channel,), principals=(key,)).stored()}
            said = replace(memory(number, content="The queue pages at 500 messages."), extra=origin)
            asyncio.run(made.keep(replace(said, entry=said.entry.model_copy(update={"metadata": MemoryMetadata()}))))
        _run(made)
        return len(made.ledger.approvals.page(COMPANY))


def records(place: Place, policy: Policy) -> object:
    """How many rows each table keeps for fifty days, and mem0's history for three."""
    clock, urls = StoppedClock(), copied_urls(place.template, place.folder)
    with closing(Ledger.open(urls.model_copy(update={"history": urls.ledger}), clock=clock)) as ledger:
        entry(ledger, clock, "deleted")
        entry(ledger, clock, "updated", "later", 2)
        for write in (session, call, line, trace):
            write(ledger, clock)
        clock.advance(timedelta(days=50))
        removed_at = (clock() - timedelta(days=3)).isoformat()
        insert(ledger, tables.history, id="h", memory_id="m", event="DELETE", updated_at=removed_at)
        expire_company(ledger, COMPANY, policy, now=clock())
        ledger.ends.expire_shared([policy.memory], now=clock())
        kept = (tables.bookings, turns, tables.model_calls, tables.audit, tables.experiences)
        return [count(ledger, table) for table in (*kept, tables.history)]


def compression(place: Place, policy: Policy) -> object:
    """What a model makes of raw experience."""
    model = Teacher()
    with context_fixture(place, policy, model=model) as made:
        made.ledger.experiences.append(COMPANY, experience("e", output=f"{LESSON_TEXT} The disk was full. " * 20))
        made.ledger.compressions.request_for(COMPANY, AGENT)
        outcome = made.job_context.run(made.job_context.service(CompressionService).run(AGENT)).outcome
        asked = [(str(each.model), each.temperature, each.max_tokens) for each in model.asked]
        return _left(made, outcome), asked


def search_notes(place: Place, policy: Policy) -> object:
    """What a model is asked after a run, so that a memory is found in other words."""
    model = Teacher(always=json.dumps({"kind": "heating", "words": ["furnace", "repair", "plumber"]}))
    with context_fixture(place, policy, model=model) as made:
        asyncio.run(made.keep(memory(1, content="The boiler was serviced.", days_old=1)))
        request_search_notes(AGENT, made.job_context)
        outcome = made.job_context.run(made.job_context.service(SearchNotesService).run(AGENT)).outcome
        asked = [(str(each.model), each.temperature, each.max_tokens) for each in model.asked]
        return _left(made, outcome), asked


def changes(place: Place, policy: Policy) -> object:
    """What a model is asked after a run about a memory that a newer one may have replaced."""
    model = Teacher(always=json.dumps({"question": "When?", "then": "in May", "now": "in May"}))
    with context_fixture(place, policy, model=model) as made:
        texts = ("The boiler was serviced in May.", "The boiler was serviced")
        asyncio.run(made.keep(*(memory(at, content=text, days_old=9 - at) for at, text in enumerate(texts, start=1))))
        request_changes(AGENT, made.job_context)
        outcome = made.job_context.run(made.job_context.service(ChangesService).run(AGENT)).outcome
        asked = [(str(each.model), each.temperature, each.max_tokens) for each in model.asked]
        return _left(made, outcome), asked


def wiki(place: Place, policy: Policy) -> object:
    """Which files the end of a run leaves, by their place in the data folder."""
    with context_fixture(place, policy, model=Teacher()) as made:
        made.ledger.agents.register(COMPANY, [AGENT], interval=policy.memory.consolidation.interval)
        for number in range(3):
            made.ledger.experiences.append(COMPANY, experience(f"e{number}", younger=timedelta(seconds=number)))
        asyncio.run(made.keep(*(lesson_of_experience(number) for number in range(3))))
        export_wiki(AGENT, made.job_context)
    files = (path.relative_to(place.folder) for path in place.folder.rglob("*.md"))
    return sorted(map(str, files))


def lesson_of_experience(number: int) -> MemoryRecord:
    from support.wiki_fixture import compressed  # noqa: PLC0415  # it imports the wiki

    return compressed(number)


_DUAL = {
    "memory.consolidation.strategy": "dual_mode",
    "memory.consolidation.archival.age_threshold_days": 20,
    "memory.consolidation.archival.dual_mode.enabled": True,
    "memory.consolidation.archival.dual_mode.summarization_model": "small",
}
_CONDENSE = {"memory.consolidation.strategy": "condense"}
_GUARDED = {
    **_CONDENSE,
    "memory.consolidation.group_max_entries": 2,
    "memory.consolidation.max_removed_fraction": 0.01,
    "memory.consolidation.max_removed_floor": 0,
}
_NO_ZOOM = {**_CONDENSE, "memory.retrieval.zoom": False}
_LLM = {"memory.consolidation.strategy": "llm"}
_FEW = {"memory.consolidation.max_memories_per_agent": 9}
_WIKI = {
    "memory.consolidation.wiki_export.enabled": True,
    "memory.consolidation.wiki_export.trigger": "on_consolidation",
    "memory.consolidation.wiki_export.export_root": "wiki",
}
_COMPRESSOR = {"memory.consolidation.experience_compressor.enabled": True}
_NOTES = {"memory.consolidation.search_notes.enabled": True}
_CHANGES = {"memory.consolidation.changes.enabled": True}
_RULES = "memory.consolidation.retention.rules"
_RULE = {_RULES: [{"category": "episodic", "retention_days": 30}]}


def _under(section: str, **effects: Effect) -> dict[str, Effect]:
    return {f"{section}.{name}": effect for name, effect in effects.items()}


EFFECTS = {
    "memory.level": Effect(first_memory, "session"),
    **_under(
        "memory.options",
        retention_days=Effect(maintenance_run, 30),
        max_memories_per_agent=Effect(maintenance_run, 9),
        consolidation_interval=Effect(first_memory, "never"),
        session_timeout_hours=Effect(maintenance_run, None, {"memory.level": "session"}),
        project_timeout_hours=Effect(maintenance_run, 24, {"memory.level": "project"}),
        task_timeout_hours=Effect(maintenance_run, None),
    ),
    **_under(
        "memory.consolidation",
        enabled=Effect(maintenance_run, value=False),
        interval=Effect(first_memory, "weekly"),
        max_memories_per_agent=Effect(maintenance_run, 9),
        strategy=Effect(maintenance_run, "condense"),
        apply=Effect(maintenance_run, "propose", _CONDENSE),
        categories=Effect(maintenance_run, ["social"], _CONDENSE),
        min_age_days=Effect(maintenance_run, 365, _CONDENSE),
        group_threshold=Effect(maintenance_run, 50, _CONDENSE),
        group_max_entries=Effect(maintenance_run, 2, _CONDENSE),
        group_max_tokens=Effect(maintenance_run, 100, _CONDENSE),
        min_new=Effect(maintenance_run, 100, _LLM),
        max_tokens_per_run=Effect(maintenance_run, 100, _LLM),
        max_removed_fraction=Effect(maintenance_run, 0.01, {**_CONDENSE, "memory.consolidation.max_removed_floor": 0}),
        max_removed_floor=Effect(maintenance_run, 0, {**_CONDENSE, "memory.consolidation.max_removed_fraction": 0.01}),
        first_runs_fraction=Effect(first_run, 0.4, _GUARDED),
        journal_days=Effect(later, 100),
        restored_hold_days=Effect(run_after_an_undo, 0, _CONDENSE),
    ),
    **_under("memory.origins", authority=Effect(repeated_by_a_tool, {"tool": "inform"})),
    **_under(
        "memory.origins.corroboration",
        least=Effect(said_by_two, 2, {"memory.origins.corroboration.principals": _PRINCIPALS}),
        principals=Effect(
            said_by_two,
            {"a": ["a"], "c": ["c"]},
            {"memory.origins.corroboration.principals": _PRINCIPALS, "memory.origins.corroboration.least": 2},
        ),
    ),
    **_under(
        "memory.records",
        explained_days=Effect(records, 90),
        replaced_days=Effect(records, 40),
        history_days=Effect(records, 5),
        session_days=Effect(records, 90),
        usage_days=Effect(records, 40),
        audit_days=Effect(records, 40),
        experience_days=Effect(records, 40),
    ),
    **_under(
        "memory.consolidation.gate",
        enabled=Effect(judged_run, value=False, given=_NO_ZOOM),
        max_loss=Effect(judged_run, 1.0, _NO_ZOOM),
        prompt_tokens=Effect(judged_run, 50, _NO_ZOOM),
        ask_model=Effect(maintenance_run, value=True, given=_LLM),
    ),
    **_under(
        "memory.consolidation.condense",
        keep_share=Effect(maintenance_run, 0.2, _CONDENSE),
        target_tokens=Effect(maintenance_run, 50, _CONDENSE),
    ),
    **_under(
        "memory.consolidation.retention",
        default_retention_days=Effect(maintenance_run, 30),
        rules=Effect(maintenance_run, [{"category": "episodic", "retention_days": 30}]),
    ),
    f"{_RULES}[].category": Effect(maintenance_run, [{"category": "social", "retention_days": 30}], _RULE, at=_RULES),
    f"{_RULES}[].retention_days": Effect(
        maintenance_run, [{"category": "episodic", "retention_days": 62}], _RULE, at=_RULES
    ),
    **_under(
        "memory.consolidation.archival",
        age_threshold_days=Effect(maintenance_run, 300, _DUAL),
        keep_days=Effect(later, 1, _FEW),
    ),
    **_under(
        "memory.consolidation.archival.dual_mode",
        enabled=Effect(
            maintenance_run,
            value=True,
            given={
                "memory.consolidation.archival.dual_mode.summarization_model": "small",
                "memory.consolidation.archival.age_threshold_days": 20,
            },
        ),
        dense_threshold=Effect(maintenance_run, 1.0, _DUAL),
        summarization_model=Effect(maintenance_run, "other", _DUAL),
        max_summary_tokens=Effect(maintenance_run, 60, _DUAL),
        max_facts=Effect(maintenance_run, 1, _DUAL),
        anchor_length=Effect(maintenance_run, 50, _DUAL),
    ),
    **_under(
        "memory.consolidation.llm",
        group_threshold=Effect(maintenance_run, 50, _LLM),
        temperature=Effect(maintenance_run, 1.0, _LLM),
        max_summary_tokens=Effect(maintenance_run, 60, _LLM),
        include_distillation_context=Effect(maintenance_run, value=False, given=_LLM),
        max_trajectory_context_entries=Effect(maintenance_run, 1, _LLM),
        max_trajectory_chars_per_entry=Effect(maintenance_run, 50, _LLM),
        max_entry_input_chars=Effect(maintenance_run, 100, _LLM),
        max_total_user_content_chars=Effect(
            maintenance_run, 1000, {**_LLM, "memory.consolidation.llm.max_entry_input_chars": 900}
        ),
        fallback_truncate_length=Effect(run_without_answers, 50, {**_LLM, "memory.llm.patience_hours": 0.0}),
    ),
    "memory.llm.patience_hours": Effect(run_without_answers, 0.0, _LLM),
    **_under(
        "memory.consolidation.experience_compressor",
        enabled=Effect(compression, value=True),
        model=Effect(compression, "other", _COMPRESSOR),
        temperature=Effect(compression, 0.9, _COMPRESSOR),
        max_tokens=Effect(compression, 100, _COMPRESSOR),
        min_compression_ratio=Effect(compression, 0.99, _COMPRESSOR),
    ),
    **_under(
        "memory.consolidation.changes",
        enabled=Effect(changes, value=True),
        model=Effect(changes, "other", _CHANGES),
        temperature=Effect(changes, 0.9, _CHANGES),
        max_tokens=Effect(changes, 50, _CHANGES),
    ),
    **_under(
        "memory.consolidation.search_notes",
        enabled=Effect(search_notes, value=True),
        model=Effect(search_notes, "other", _NOTES),
        temperature=Effect(search_notes, 0.9, _NOTES),
        max_tokens=Effect(search_notes, 100, _NOTES),
    ),
    **_under(
        "memory.consolidation.wiki_export",
        enabled=Effect(wiki, value=False, given=_WIKI),
        export_root=Effect(wiki, "elsewhere", _WIKI),
        trigger=Effect(wiki, "manual", _WIKI),
        include_raw_tier=Effect(wiki, value=False, given=_WIKI),
        include_compressed_tier=Effect(wiki, value=False, given=_WIKI),
        max_entries_per_view=Effect(wiki, 1, _WIKI),
    ),
    **_under(
        "memory.procedural.pruning",
        type=Effect(maintenance_run, "pareto", {"memory.procedural.pruning.max_entries": 2}),
        max_age_days=Effect(maintenance_run, 50),
        max_entries=Effect(maintenance_run, 1, {"memory.procedural.pruning.type": "pareto"}),
    ),
}

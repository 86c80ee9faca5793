"""Two companies in one ledger, with agents of the same names: what one does is nothing to the other."""

import dataclasses
import inspect
import json
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update
from support import company_access_calls as access_calls
from support import company_conversation_calls as conversation_calls
from support import company_finetune_calls as finetuning_calls
from support import company_memory_calls as memory_calls
from support import company_reindex_calls as reindexing_calls
from support import company_webhook_calls as webhook_calls
from support.execution_traces import trajectory
from support.experiences import experience
from support.ledger_records import COMPANY, StoppedClock, make_fact, make_journal_entry
from support.memories import DAWN
from support.organization_facts import GRACE, request
from support.proposals import ADA as PERSON
from support.proposals import proposal
from support.thorough import examples, sized

from memcore import ids
from memcore.config.memory import CompanyMemoryConfig
from memcore.embedding.bm25 import Bm25Encoder
from memcore.errors import ApprovalClosedError, LeaseLostError, MemoryNotFoundError
from memcore.jobs import AppliedPayload, EvolvePayload, RecordedQuery, Use
from memcore.ledger.agents import AgentSpec
from memcore.ledger.consolidation_groups import CHANGES, ConsolidationGroup, GroupState
from memcore.ledger.database import equals
from memcore.ledger.dead_letters import NewDeadLetter
from memcore.ledger.learning.patterns import PatternKind, Window
from memcore.ledger.learning.skills import Skill, SkillState
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_answers import Answer, Synthesis
from memcore.ledger.llm_usage import Caps, NewCall, Spent, UsageBy
from memcore.ledger.organization.audit import AuditNote, AuditVerdict, Confirmation
from memcore.ledger.runs import NewRun, RunStep
from memcore.ledger.tables import journal_metadata, metadata, work_items
from memcore.ledger.work_items import WorkState
from memcore.models.approval import ApprovalNeed, ApprovalState
from memcore.models.archival import ArchivalMode
from memcore.models.execution import Turn
from memcore.models.memory import LATEST, ConsolidationInterval, MemoryCategory, MemoryLevel, MemoryQuery
from memcore.records import Lineage

OTHER = "globex"
AGENT = "ada"
DAILY = ConsolidationInterval.DAILY
DAY = timedelta(days=1)
FACT = make_fact("the canteen closes at two")
LIFT = make_fact("the lift is out of order")
LIFTS = MemoryQuery(text="out of order")
OF_LIFT = Lineage(summary_of=(LIFT.entry.id,))
MEMORY = str(uuid.UUID(int=7))
TERMS = Bm25Encoder().encode_query("tea").indices
EXPERIENCE = experience("e-1", agent_id=AGENT)
TRAJECTORY = trajectory("e-1", agent_id=AGENT, quality=8.0, turns=(Turn(tools=("shell", "shell")),))
FIRST = DAWN - timedelta(days=400)
EVER = Window(since=FIRST, until=DAWN + timedelta(days=400), min_agents=1)
QUESTION, PART = f"question of {COMPANY}", f"night of {COMPANY}.0"
COMPRESSION = ids.compression_id(company=COMPANY, agent_id=AGENT)
NOTES = ids.search_notes_id(company=COMPANY, agent_id=AGENT)
PAIR_RUN = f"changes of {COMPANY}"
CHANGES_ID = ids.changes_id(company=COMPANY, agent_id=AGENT)
CYCLE_ID = ids.cycle_id(company=COMPANY, planned_at=DAWN.isoformat())

Call = Callable[[Ledger, StoppedClock, str], object]


def _in_a_year(clock: StoppedClock) -> dict[str, datetime]:
    return dict.fromkeys(("returned_before", "before"), clock() + timedelta(days=400))


def _letter(job_id: str, company: str) -> NewDeadLetter:
    return NewDeadLetter(
        job_id=job_id, company=company, job="store", queue="memory.store", payload="{}", reason="no", attempts=3
    )


def _journaled(ledger: Ledger, company: str) -> str:
    journal_entry = dataclasses.replace(
        make_journal_entry(uuid.uuid4().hex, run_id=uuid.uuid4().hex, outgoing=(str(uuid.uuid4()),)), company=company
    )
    ledger.journal.prepare(journal_entry)
    ledger.journal.settle(journal_entry.booking_id)
    return journal_entry.run_id


def _call(company: str) -> NewCall:
    return NewCall(
        company=company,
        agent_id=AGENT,
        run_id="run",
        question_id=f"question of {company}",
        purpose="test",
        model="m",
        most=Spent(prompt_tokens=5),
    )


def _skill(skill_id: str, clock: StoppedClock) -> Skill:
    at = clock()
    return Skill(
        skill_id=skill_id, approval_id="one", pattern_id="pattern", state=SkillState.ACTIVE, confidence=1.0, text="{}",
        published_at=at, changed_at=at,
    )  # fmt: skip


def _group(company: str) -> ConsolidationGroup:
    return ConsolidationGroup(
        company=company,
        run_id=f"night of {COMPANY}",
        agent_id=AGENT,
        category=MemoryCategory.SOCIAL,
        strategy="condense",
        state=GroupState.APPROVED,
        source_ids=("a", "b"),
        body=company.encode(),
    )


def _pair(company: str) -> ConsolidationGroup:
    given = {"strategy": CHANGES, "run_id": PAIR_RUN, "decided_by": PAIR_RUN, "body": None}
    return _group(company).model_copy(update=given)


def _applied(ledger: Ledger, clock: StoppedClock, company: str) -> bool:
    payload = AppliedPayload(
        company=company, agent_id=AGENT, application_id="one", skill_id=MEMORY, outcome="success", applied_at=clock(),
    )  # fmt: skip
    return ledger.skills.apply(payload, skill_id=MEMORY)


def _heard(say: Callable[[], object]) -> object:
    """Say a person's word; a refusal is an answer too."""
    try:
        return say()
    except (ApprovalClosedError, LeaseLostError, MemoryNotFoundError) as refused:
        return str(refused)


#: The parts of the ledger that are kinds of work.
KINDS = (
    *("answers", "compressions", "note_writing", "lessons", "runs", "sessions", "skill_cycles", "syntheses", "turns"),
    *("change_finding", "erasures"),
)


def _held(ledger: Ledger, part: str) -> tuple[str, str]:
    """Return the key and the token of the first company's item of a kind: nobody else may use them."""
    kind = getattr(ledger, part)._kind
    its = ledger.work._all(select(work_items).where(equals(work_items, company=COMPANY, kind=kind)))
    return (its[0].key, its[0].token or "none") if its else ("none", "none")


def _leases(part: str) -> dict[str, "Call"]:
    """Return the calls that every kind of work has."""

    def call(name: str, **values: object) -> "Call":
        return lambda ledger, _, c: _heard(
            lambda: getattr(getattr(ledger, part), name)(c, *_held(ledger, part), **values)
        )

    def claim(ledger: Ledger, _clock: StoppedClock, c: str) -> object:
        return getattr(ledger, part).claim(c, _held(ledger, part)[0], lease=DAY)

    waits = {"until": DAWN + DAY, "reason": "why"}
    calls = {"renew": call("renew", lease=DAY), "release": call("release"), "wait": call("wait", **waits)}
    calls["fail"] = call("fail", reason="no")
    return {f"{part}.{name}": write for name, write in {"claim": claim, **calls}.items()}


def _expired(ledger: Ledger, clock: StoppedClock, company: str) -> int:
    before = clock.now
    clock.advance(2 * DAY)
    try:
        return ledger.approvals.expire(company)
    finally:
        clock.now = before


def _asked(ledger: Ledger, company: str) -> Answer | None:
    """A company takes a question of its own, in a run of its own, and dies over it."""
    run_id = f"night of {company}"
    ledger.syntheses.plan(
        [
            Synthesis(
                run_id=run_id, place=0, company=company, agent_id=AGENT,
                category=MemoryCategory.SOCIAL, source_ids=("a", "b"),
            )
        ]
    )  # fmt: skip
    return ledger.answers.claim_question(
        company, f"question of {company}", agent_id=AGENT, run_id=run_id, purpose="test", lease=-DAY
    )


MINDED = Confirmation(actor="ada", confirm=True, reason="she asked")

#: What a company does; each takes the company, and aims at ids of the first one's where it takes ids.
WRITES: dict[str, Call] = {
    **{name: call for part in KINDS for name, call in _leases(part).items()},
    **access_calls.WRITES,
    **memory_calls.WRITES,
    **conversation_calls.WRITES,
    **webhook_calls.WRITES,
    "agents.register": lambda ledger, _, c: ledger.agents.register(c, [AGENT, "bob"], interval=DAILY),
    "agents.put": lambda ledger, _, c: ledger.agents.put(
        AgentSpec(company=c, agent_id=AGENT, level=MemoryLevel.NONE, retention_days=1)
    ),
    "agents.pause": lambda ledger, _, c: ledger.agents.pause(c, AGENT),
    "agents.resume": lambda ledger, _, c: ledger.agents.resume(c, AGENT),
    "agents.set_due": lambda ledger, clock, c: ledger.agents.set_due(c, AGENT, clock()),
    "agents.claim_due": lambda ledger, _, c: ledger.agents.claim_due([c], interval=DAILY, limit=9),
    "runs.create": lambda ledger, clock, c: ledger.runs.create(NewRun(company=c, agent_id=AGENT, planned_at=clock())),
    "runs.advance": lambda ledger, _, c: _heard(
        lambda: ledger.runs.advance(c, *_held(ledger, "runs"), step=RunStep.CONSOLIDATION, counts={"a": 1})
    ),
    "runs.finish": lambda ledger, _, c: _heard(
        lambda: ledger.runs.finish(c, *_held(ledger, "runs"), state=WorkState.DONE, counts={})
    ),
    "runs.wake": lambda ledger, _, c: ledger.runs.wake(c, _held(ledger, "runs")[0]),
    "runs.approve_held": lambda ledger, _, c: _heard(lambda: ledger.runs.approve_held(c, _held(ledger, "runs")[0])),
    "runs.decide_groups": lambda ledger, _, c: _heard(
        lambda: ledger.runs.decide_groups(c, _held(ledger, "runs")[0], GroupState.APPROVED, by="Ada")
    ),
    "runs.dismiss": lambda ledger, _, c: _heard(lambda: ledger.runs.dismiss(c, _held(ledger, "runs")[0], by="Ada")),
    "companies.pause": lambda ledger, _, c: _heard(lambda: ledger.companies.pause(c)),
    "companies.resume": lambda ledger, _, c: _heard(lambda: ledger.companies.resume(c)),
    "companies.register": lambda ledger, _, c: ledger.companies.register(c),
    "companies.add": lambda ledger, _, c: ledger.companies.add(c, policy={"memory": {"level": "none"}}),
    "companies.remove": lambda ledger, _, c: _heard(lambda: ledger.companies.remove(c)),
    "ticks.note": lambda ledger, _, c: ledger.ticks.note(c, sent=99),
    "ticks.watch": lambda ledger, _, c: ledger.ticks.watch(c),
    "dead_letters.put": lambda ledger, _, c: ledger.dead_letters.put(_letter(f"job of {c}", c)),
    "dead_letters.purge": lambda ledger, _, c: ledger.dead_letters.purge(c, [f"job of {COMPANY}"]),
    "dead_letters.purge_older": lambda ledger, clock, c: ledger.dead_letters.purge_older(
        c, before=clock() + timedelta(days=400)
    ),
    "journal.prepare": lambda ledger, _, c: _journaled(ledger, c),
    "archive.put": lambda ledger, clock, c: ledger.archive.put(
        c, LIFT, mode=ArchivalMode.EXTRACTIVE, archived_at=clock()
    ),
    "archive.expired": lambda ledger, clock, c: ledger.archive.expired(c, **_in_a_year(clock)),
    "archive.drop": lambda ledger, clock, c: ledger.archive.drop(
        c, ledger.archive.expired(COMPANY, **_in_a_year(clock)), **_in_a_year(clock)
    ),
    "journal.expire": lambda ledger, clock, c: ledger.journal.expire(c, before=clock() + timedelta(days=400)),
    "journal.hold": lambda ledger, clock, c: ledger.journal.hold(c, AGENT, [MEMORY], until=clock() + timedelta(days=1)),
    "shared_log.publish": lambda ledger, _, c: ledger.shared_log.publish(
        c, make_fact("the canteen closes at three", company=c)
    ),
    "shared_log.retract": lambda ledger, _, c: ledger.shared_log.retract(c, AGENT, FACT.entry.id),
    "shared_log.advance": lambda ledger, _, c: ledger.shared_log.advance(c, ledger.shared_log.standing(c).last),
    "org.publish": lambda ledger, _, c: ledger.org.publish(c, "tea", request(f"tea of {c}"), author=GRACE),
    "org.deny": lambda ledger, _, c: ledger.org.deny(c, "org.write", author=GRACE, fact_id="tea", reason="no"),
    "org.shown": lambda ledger, _, c: ledger.org.shown(c, "tea", 1),
    "audit.note": lambda ledger, _, c: ledger.audit.note(
        c, AuditNote(actor="person:Grace", action="test", verdict=AuditVerdict.DONE)
    ),
    "org.retract": lambda ledger, _, c: ledger.org.retract(c, "tea", author=GRACE),
    "approvals.file": lambda ledger, _, c: ledger.approvals.file(c, "one", proposal(f"of {c}"), lasts=DAY),
    "approvals.decide": lambda ledger, _, c: _heard(
        lambda: ledger.approvals.decide(c, "one", ApprovalState.APPROVED, PERSON)
    ),
    "approvals.settle": lambda ledger, _, c: ledger.approvals.settle(c, "one", ApprovalNeed.EFFECT, effect="fact"),
    "approvals.undo": lambda ledger, _, c: _heard(lambda: ledger.approvals.undo(c, "one", PERSON)),
    "approvals.expire": _expired,
    "answers.claim_question": lambda ledger, _, c: _asked(ledger, c),
    "answers.finish": lambda ledger, _, c: _heard(lambda: ledger.answers.finish(c, *_held(ledger, "answers"), "yes")),
    "answers.forget": lambda ledger, _, c: ledger.answers.forget(c, f"night of {COMPANY}"),
    "answers.expire": lambda ledger, clock, c: ledger.answers.expire(c, before=clock() + timedelta(days=400)),
    "syntheses.forget": lambda ledger, _, c: ledger.syntheses.forget(c),
    "consolidation_groups.note": lambda ledger, _, c: ledger.consolidation_groups.note([_group(c)]),
    "consolidation_groups.decide": lambda ledger, _, c: ledger.consolidation_groups.decide(
        c, f"night of {COMPANY}", [1, 2], GroupState.ADOPTED
    ),
    "consolidation_groups.withdraw": lambda ledger, _, c: ledger.consolidation_groups.withdraw(
        c, f"night of {COMPANY}"
    ),
    "consolidation_groups.decide_pair": lambda ledger, _, c: ledger.consolidation_groups.decide_pair(
        _pair(c), GroupState.DISMISSED, by="person:ada"
    ),
    "consolidation_groups.turn_pairs": lambda ledger, _, c: ledger.consolidation_groups.turn_pairs(
        c, AGENT, PAIR_RUN, by="an undo"
    ),
    "consolidation_groups.expire": lambda ledger, clock, c: ledger.consolidation_groups.expire(
        c, before=clock() + 400 * DAY
    ),
    "model_servers.keep": lambda ledger, _, c: ledger.model_servers.keep(c, "m", server="s", body={"of": c}),
    "model_servers.forget": lambda ledger, _, c: ledger.model_servers.forget(c, "m"),
    "compressions.request_for": lambda ledger, _, c: ledger.compressions.request_for(c, AGENT),
    "compressions.finish": lambda ledger, _, c: _heard(
        lambda: ledger.compressions.finish(c, *_held(ledger, "compressions"))
    ),
    "compressions.skip": lambda ledger, _, c: _heard(
        lambda: ledger.compressions.skip(c, *_held(ledger, "compressions"), "no")
    ),
    "note_writing.request_for": lambda ledger, _, c: ledger.note_writing.request_for(c, AGENT),
    "note_writing.finish": lambda ledger, _, c: _heard(
        lambda: ledger.note_writing.finish(c, *_held(ledger, "note_writing"))
    ),
    "note_writing.skip": lambda ledger, _, c: _heard(
        lambda: ledger.note_writing.skip(c, *_held(ledger, "note_writing"), "no")
    ),
    "change_finding.request_for": lambda ledger, _, c: ledger.change_finding.request_for(c, AGENT),
    "change_finding.finish": lambda ledger, _, c: _heard(
        lambda: ledger.change_finding.finish(c, *_held(ledger, "change_finding"))
    ),
    "change_finding.skip": lambda ledger, _, c: _heard(
        lambda: ledger.change_finding.skip(c, *_held(ledger, "change_finding"), "no")
    ),
    "experiences.append": lambda ledger, _, c: ledger.experiences.append(c, EXPERIENCE),
    "experiences.mark": lambda ledger, _, c: ledger.experiences.mark(c, AGENT, EXPERIENCE.id, reason="too weak"),
    "trajectories.append": lambda ledger, clock, c: ledger.trajectories.append(c, TRAJECTORY, lesson_at=clock()),
    "trajectories.expire": lambda ledger, clock, c: ledger.trajectories.expire(c, before=clock() + timedelta(days=400)),
    "lessons.finish": lambda ledger, _, c: _heard(
        lambda: ledger.lessons.finish(c, *_held(ledger, "lessons"), "stored")
    ),
    "lessons.settle": lambda ledger, _, c: _heard(
        lambda: ledger.lessons.settle(
            c, *_held(ledger, "lessons"), memory_id=MEMORY, confidence=0.9, text="{}", repeats=lambda _: True
        )
    ),
    "lessons.propagated": lambda ledger, _, c: ledger.lessons.propagated(c, [TRAJECTORY.id]),
    "lessons.expire": lambda ledger, clock, c: ledger.lessons.expire(c, before=clock() + timedelta(days=400)),
    "ends.expire": lambda ledger, clock, c: ledger.ends.expire(
        c, CompanyMemoryConfig(), now=clock() + timedelta(days=4_000)
    ),
    "skill_cycles.plan": lambda ledger, _, c: ledger.skill_cycles.plan(c, origin="manual", planned_at=DAWN, window=DAY),
    "skill_cycles.finish": lambda ledger, _, c: _heard(
        lambda: ledger.skill_cycles.finish(c, *_held(ledger, "skill_cycles"), {})
    ),
    "work.hasten": lambda ledger, _, c: ledger.work.hasten(c),
    "work.take_due": lambda ledger, _, c: ledger.work.take_due(company=c, limit=9),
    "skill_cycles.expire": lambda ledger, clock, c: ledger.skill_cycles.expire(c, before=clock() + 400 * DAY),
    "spending.reserve": lambda ledger, _, c: ledger.spending.reserve(_call(c), caps=Caps()),
    "skills.put": lambda ledger, clock, c: [ledger.skills.put(c, _skill(each, clock)) for each in ("old", "new")],
    "skills.supersede": lambda ledger, _, c: ledger.skills.supersede(c, "old", by="new"),
    "skills.restore": lambda ledger, _, c: ledger.skills.restore(c, "old", by="new"),
    "skills.retire": lambda ledger, _, c: ledger.skills.retire(c, "new"),
    "skills.apply": _applied,
    "skills.expire_applications": lambda ledger, clock, c: ledger.skills.expire_applications(
        c, before=clock() + timedelta(days=400)
    ),
    **reindexing_calls.WRITES,
    **finetuning_calls.WRITES,
    "uses.count": lambda ledger, clock, c: ledger.uses.count(
        c, "batch", [Use(agent_id=AGENT, memory_id=MEMORY, uses=2, last_used_at=clock())]
    ),
    "recorded_queries.record": lambda ledger, clock, c: ledger.recorded_queries.record(
        c, [RecordedQuery(agent_id=AGENT, question="What is for tea?", memory_ids=(MEMORY,), asked_at=clock())]
    ),
    "recorded_queries.forget": lambda ledger, _, c: ledger.recorded_queries.forget(c, AGENT),
    "recorded_queries.expire": lambda ledger, clock, c: ledger.recorded_queries.expire(c, before=clock() + 400 * DAY),
    "erasures.request": lambda ledger, _, c: ledger.erasures.request(c, AGENT, confirmation=MINDED),
    "erasures.note": lambda ledger, _, c: _heard(
        lambda: ledger.erasures.note(c, *_held(ledger, "erasures"), {"archive": 1})
    ),
    "erasures.finish": lambda ledger, clock, c: _heard(
        lambda: ledger.erasures.finish(c, *_held(ledger, "erasures"), receipt="{}", at=clock(), late_writes=0)
    ),
    "erasures.ask_again": lambda ledger, _, c: ledger.erasures.ask_again(
        c, [each.erasure_id for each in ledger.erasures.page(c)]
    ),
    "agents.remove": lambda ledger, _, c: ledger.agents.remove(c, AGENT),
}

#: All that a company can see of itself.
VIEWS: dict[str, Call] = {
    "agents.get": lambda ledger, _, c: ledger.agents.get(c, AGENT),
    "agents.levels": lambda ledger, _, c: ledger.agents.levels(c, [AGENT, "bob"]),
    "agents.why_paused": lambda ledger, _, c: ledger.agents.why_paused(c, AGENT),
    "agents.like": lambda ledger, _, c: ledger.agents.like(c, AGENT, by="role", level=MemoryLevel.PERSISTENT, limit=9),
    "agents.list": lambda ledger, _, c: ledger.agents.list(c),
    "agents.count": lambda ledger, _, c: ledger.agents.count(c),
    "runs.active": lambda ledger, _, c: ledger.runs.active(c, AGENT),
    "runs.asleep": lambda ledger, _, c: ledger.runs.asleep(c, limit=99),
    "runs.leased": lambda ledger, _, c: ledger.runs.leased(c, limit=99),
    "runs.failed": lambda ledger, _, c: ledger.runs.failed(c, limit=99),
    "runs.is_settled": lambda ledger, _, c: ledger.runs.is_settled(c, AGENT),
    "runs.last_done": lambda ledger, _, c: ledger.runs.last_done(c, AGENT),
    "runs.ended": lambda ledger, _, c: ledger.runs.ended(c, AGENT, "end_session", ["s"]),
    "runs.list": lambda ledger, _, c: ledger.runs.list(c),
    "runs.get": lambda ledger, _, c: [ledger.runs.get(c, item.run_id) for item in ledger.runs.list(c)],
    "runs.item": lambda ledger, _, c: [ledger.runs.item(c, run.run_id) for run in ledger.runs.list(c)],
    "companies.get": lambda ledger, _, c: ledger.companies.get(c),
    "work.leased": lambda ledger, _, c: ledger.work.leased(c),
    "companies.known": lambda ledger, _, c: _heard(lambda: ledger.companies.known(c)),
    "companies.served": lambda ledger, _, c: _heard(lambda: ledger.companies.served(c)),
    "companies.paused": lambda ledger, _, c: ledger.companies.paused(c),
    "ticks.last": lambda ledger, _, c: ledger.ticks.last(c),
    "dead_letters.count": lambda ledger, _, c: ledger.dead_letters.count(c),
    "dead_letters.ids": lambda ledger, _, c: ledger.dead_letters.ids(c),
    "dead_letters.list": lambda ledger, _, c: ledger.dead_letters.list(c),
    "dead_letters.older": lambda ledger, clock, c: ledger.dead_letters.older(c, before=clock() + timedelta(days=400)),
    "archive.count": lambda ledger, _, c: ledger.archive.count(c, AGENT),
    "archive.replaced_by": lambda ledger, _, c: [
        str(each) for each in ledger.archive.replaced_by(c, AGENT, dataclasses.replace(LIFT, lineage=OF_LIFT))
    ],
    "archive.find": lambda ledger, _, c: str(ledger.archive.find(c, AGENT, LIFT.entry.id)),
    "archive.search": lambda ledger, _, c: [str(each) for each in ledger.archive.search(c, AGENT, LIFTS)],
    "journal.protected_by_undo": lambda ledger, _, c: ledger.journal.protected_by_undo(c, AGENT),
    "journal.open_of": lambda ledger, _, c: [
        journal_entry.booking_id for journal_entry in ledger.journal.open_of(c, AGENT)
    ],
    "lineage.agent_of": lambda ledger, _, c: ledger.lineage.agent_of(c, MEMORY),
    "lineage.archived": lambda ledger, _, c: ledger.lineage.archived(c, AGENT, [LIFT.entry.id]),
    "lineage.derivations": lambda ledger, _, c: ledger.lineage.derivations(c, AGENT),
    "lineage.learned": lambda ledger, _, c: ledger.lineage.learned(c, AGENT),
    "lineage.held": lambda ledger, _, c: [str(each) for each in ledger.lineage.held(c, AGENT)],
    "runs.restores_of": lambda ledger, _, c: ledger.runs.restores_of(c, "m"),
    "lineage.models": lambda ledger, _, c: ledger.lineage.models(c, "run"),
    "lineage.moves": lambda ledger, _, c: ledger.lineage.moves(c, AGENT, [MEMORY]),
    "shared_log.history": lambda ledger, _, c: [str(line) for line in ledger.shared_log.history(c, FACT.entry.id)],
    "shared_log.lines": lambda ledger, _, c: [str(line) for line in ledger.shared_log.lines(c)],
    "shared_log.standing": lambda ledger, _, c: ledger.shared_log.standing(c),
    "org.count": lambda ledger, _, c: ledger.org.count(c),
    "org.facts": lambda ledger, _, c: ledger.org.facts(c),
    "org.view": lambda ledger, _, c: ledger.org.view(c),
    "org.head": lambda ledger, _, c: ledger.org.head(c, "tea"),
    "org.newest": lambda ledger, _, c: ledger.org.newest(c),
    "org.operations": lambda ledger, _, c: ledger.org.operations(c, "tea"),
    "org.search": lambda ledger, _, c: ledger.org.search(c, dict.fromkeys(TERMS, 1.0)),
    "org.snapshot_at": lambda ledger, clock, c: ledger.org.snapshot_at(c, clock() + timedelta(days=400)),
    "org.standing": lambda ledger, _, c: ledger.org.standing(c, ["tea"]),
    "org.pending": lambda ledger, _, c: ledger.org.pending(c),
    "audit.page": lambda ledger, _, c: ledger.audit.page(c),
    "org.spread": lambda ledger, _, c: ledger.org.spread(c, TERMS),
    "approvals.count": lambda ledger, _, c: ledger.approvals.count(c),
    "approvals.count_waiting": lambda ledger, _, c: ledger.approvals.count_waiting(c),
    "approvals.get": lambda ledger, _, c: ledger.approvals.get(c, "one"),
    "approvals.page": lambda ledger, _, c: ledger.approvals.page(c),
    "approvals.unsettled": lambda ledger, _, c: ledger.approvals.unsettled(c),
    "answers.unanswered": lambda ledger, _, c: ledger.answers.unanswered(c, ""),
    "answers.get": lambda ledger, _, c: ledger.answers.get(c, QUESTION),
    "answers.item": lambda ledger, _, c: ledger.answers.item(c, QUESTION),
    "syntheses.get": lambda ledger, _, c: ledger.syntheses.get(c, PART),
    "syntheses.item": lambda ledger, _, c: ledger.syntheses.item(c, PART),
    "model_servers.learnt": lambda ledger, _, c: ledger.model_servers.learnt(c, "m", server="s"),
    "usage.failing": lambda ledger, _, c: ledger.usage.failing(c, without="p"),
    "compressions.get": lambda ledger, _, c: ledger.compressions.get(c, COMPRESSION),
    "compressions.item": lambda ledger, _, c: _heard(lambda: ledger.compressions.item(c, COMPRESSION)),
    "change_finding.get": lambda ledger, _, c: ledger.change_finding.get(c, CHANGES_ID),
    "change_finding.item": lambda ledger, _, c: _heard(lambda: ledger.change_finding.item(c, CHANGES_ID)),
    "note_writing.get": lambda ledger, _, c: ledger.note_writing.get(c, NOTES),
    "note_writing.item": lambda ledger, _, c: _heard(lambda: ledger.note_writing.item(c, NOTES)),
    "syntheses.away": lambda ledger, _, c: ledger.syntheses.away(c),
    "syntheses.of_run": lambda ledger, _, c: ledger.syntheses.of_run(c, f"night of {COMPANY}"),
    "experiences.count": lambda ledger, _, c: ledger.experiences.count(c, AGENT),
    "experiences.get": lambda ledger, _, c: ledger.experiences.get(c, AGENT, EXPERIENCE.id),
    "experiences.has_raw": lambda ledger, _, c: ledger.experiences.has_raw(c, AGENT),
    "experiences.page": lambda ledger, _, c: ledger.experiences.page(c, AGENT),
    "experiences.raw": lambda ledger, _, c: ledger.experiences.raw(c, AGENT),
    "trajectories.count": lambda ledger, _, c: ledger.trajectories.count(c),
    "trajectories.count_added": lambda ledger, _, c: ledger.trajectories.count_added(
        c, since=EVER.since, until=EVER.until
    ),
    "trajectories.stream_added": lambda ledger, _, c: list(
        ledger.trajectories.stream_added(c, since=EVER.since, until=EVER.until)
    ),
    "trajectories.get": lambda ledger, _, c: ledger.trajectories.get(c, TRAJECTORY.id),
    "trajectories.page": lambda ledger, _, c: ledger.trajectories.page(c),
    "trajectories.stream": lambda ledger, _, c: list(ledger.trajectories.stream(c, agent_id=AGENT)),
    "trajectories.quality_rank": lambda ledger, _, c: ledger.trajectories.quality_rank(c, AGENT, 9.0, since=FIRST),
    "trajectories.failures_before": lambda ledger, _, c: ledger.trajectories.failures_before(
        c, TRAJECTORY.model_copy(update={"ended_at": LATEST}), limit=9
    ),
    "patterns.shared": lambda ledger, _, c: list(ledger.patterns.shared(c, EVER)),
    "patterns.tally": lambda ledger, _, c: ledger.patterns.tally(c, EVER),
    "lessons.get": lambda ledger, _, c: ledger.lessons.get(c, TRAJECTORY.id),
    "lessons.of_pattern": lambda ledger, clock, c: ledger.lessons.of_pattern(
        c, PatternKind.FAILURE, "disk", since=FIRST, until=clock() + timedelta(days=400), limit=9
    ),
    "lessons.taught": lambda ledger, _, c: ledger.lessons.taught(c, AGENT, [MEMORY]),
    "lessons.item": lambda ledger, _, c: ledger.lessons.item(c, TRAJECTORY.id),
    "skill_cycles.item": lambda ledger, _, c: ledger.skill_cycles.item(c, CYCLE_ID),
    "work.open": lambda ledger, _, c: ledger.work.open(c, EvolvePayload.task),
    "turns.unanswered": lambda ledger, _, c: ledger.turns.unanswered(c),
    "lessons.outcomes": lambda ledger, _, c: ledger.lessons.outcomes(c),
    "lessons.page": lambda ledger, _, c: ledger.lessons.page(c, AGENT),
    "lessons.unpropagated": lambda ledger, _, c: ledger.lessons.unpropagated(c, AGENT, limit=9),
    "skill_cycles.get": lambda ledger, _, c: ledger.skill_cycles.get(c, CYCLE_ID),
    "skill_cycles.last_finished": lambda ledger, _, c: ledger.skill_cycles.last_finished(c),
    "skill_cycles.page": lambda ledger, _, c: ledger.skill_cycles.page(c),
    "spending.of": lambda ledger, clock, c: ledger.spending.of(c, AGENT, clock().date()),
    "spending.waiting": lambda ledger, clock, c: ledger.spending.waiting(c, clock().date()),
    "usage.first_day": lambda ledger, _, c: ledger.usage.first_day(c),
    "usage.report": lambda ledger, clock, c: ledger.usage.report(
        c, UsageBy.AGENT, since=clock().date() - timedelta(days=9), until=clock().date() + timedelta(days=9)
    ),
    "skills.applications": lambda ledger, _, c: ledger.skills.applications(c, [MEMORY]),
    "skills.votes": lambda ledger, _, c: ledger.skills.votes(c, [MEMORY], since=FIRST),
    "skills.versions": lambda ledger, _, c: ledger.skills.versions(c),
    "skills.changes": lambda ledger, _, c: ledger.skills.changes(c),
    "skills.count": lambda ledger, _, c: ledger.skills.count(c),
    "skills.get": lambda ledger, _, c: ledger.skills.get(c, "old"),
    "skills.page": lambda ledger, _, c: ledger.skills.page(c),
    "skills.stream": lambda ledger, _, c: list(ledger.skills.stream(c)),
    **reindexing_calls.VIEWS,
    **access_calls.VIEWS,
    **memory_calls.VIEWS,
    "erasures.get": lambda ledger, _, c: _heard(lambda: ledger.erasures.get(c, _held(ledger, "erasures")[0])),
    "erasures.item": lambda ledger, _, c: _heard(lambda: ledger.erasures.item(c, _held(ledger, "erasures")[0])),
    "erasures.page": lambda ledger, _, c: ledger.erasures.page(c),
    "erasures.watch": lambda ledger, _, c: ledger.erasures.watch(c, [AGENT]).known,
    "hidden.of": lambda ledger, _, c: ledger.hidden.of(c),
    **conversation_calls.VIEWS,
    **webhook_calls.VIEWS,
    **finetuning_calls.VIEWS,
    "recorded_queries.of": lambda ledger, _, c: ledger.recorded_queries.of(c, AGENT, since=FIRST),
    "uses.of": lambda ledger, _, c: ledger.uses.of(c, AGENT, [MEMORY]),
    "consolidation_groups.of_run": lambda ledger, _, c: ledger.consolidation_groups.of_run(c, f"night of {COMPANY}"),
    "consolidation_groups.pairs": lambda ledger, _, c: ledger.consolidation_groups.pairs(c, AGENT),
    "consolidation_groups.pair_counts": lambda ledger, _, c: ledger.consolidation_groups.pair_counts(
        c, AGENT, PAIR_RUN
    ),
    "consolidation_groups.gate_counts": lambda ledger, _, c: ledger.consolidation_groups.gate_counts(
        c, f"night of {COMPANY}"
    ),
    "consolidation_groups.protected_by_tests": lambda ledger, _, c: ledger.consolidation_groups.protected_by_tests(
        c, f"night of {COMPANY}"
    ),
    "consolidation_groups.kept_for_tests": lambda ledger, _, c: ledger.consolidation_groups.kept_for_tests(c, AGENT),
    "consolidation_groups.judged": lambda ledger, _, c: ledger.consolidation_groups.judged(
        c, AGENT, [_group(c).group_key], states=GroupState
    ),
}

#: Calls whose company stands in what they are given.
INSIDE = {
    "agents.claim_due",
    "agents.put",
    "runs.create",
    "dead_letters.put",
    "journal.prepare",
    "consolidation_groups.note",
    "consolidation_groups.decide_pair",
    "spending.reserve",
    "skills.apply",
    "turns.record",
}

#: Writes after which every view is looked at: one by one that takes half a minute, and one company's rows do not heal.
TOGETHER = sized(25, thorough=1)


def test_every_call_of_the_ledger_that_names_a_company_is_tried(ledger: Ledger) -> None:
    parts = {name: part for name, part in vars(ledger).items() if not name.startswith("_")}
    named = {
        f"{name}.{call}"
        for name, part in parts.items()
        for call, method in inspect.getmembers(part, inspect.ismethod)
        if not call.startswith("_") and "company" in inspect.signature(method).parameters
    }
    # Of several companies at once, each with a figure of its own.
    assert named | INSIDE | {"measures.of"} == WRITES.keys() | VIEWS.keys()


def _begin(ledger: Ledger, clock: StoppedClock) -> str:
    """Give the first company rows of every kind, and return the id of a run with a journal."""
    ledger.shared_log.publish(COMPANY, FACT)
    run_id = _journaled(ledger, COMPANY)
    for name in ("collection_pointers.adopt", "collection_pointers.begin", "reindexes.claim", "reindex_marks.mark",
                 "reindex_marks.take", "finetune_runs.start", "finetune_runs.claim"):  # fmt: skip
        WRITES[name](ledger, clock, COMPANY)
    for name in (
        "agents.register",
        "runs.create",
        "dead_letters.put",
        "ticks.note",
        "uses.count",
        "recorded_queries.record",
        "skills.put",
        "skills.supersede",
        "skills.apply",
        "journal.hold",
        "archive.put",
        "answers.claim_question",
        "syntheses.claim",
        "consolidation_groups.note",
        "consolidation_groups.decide_pair",
        "approvals.file",
        "org.publish",
        "experiences.append",
        "trajectories.append",
        "skill_cycles.plan",
        "skill_cycles.claim",
        "lessons.claim",
        "spending.reserve",
        *access_calls.BEGUN,
        *conversation_calls.BEGUN,
        *memory_calls.BEGUN,
        *webhook_calls.BEGUN,
        "erasures.request",
        "erasures.claim",
    ):
        WRITES[name](ledger, clock, COMPANY)
    return run_id


@pytest.mark.slow(because="a hundred writes, and eighty views after every few")
@pytest.mark.timeout(900)
@settings(max_examples=examples(2), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_a_company_does_changes_nothing_of_another(
    ledger: Ledger, clock: StoppedClock, data: st.DataObject
) -> None:
    run_id = _begin(ledger, clock)
    before = {name: view(ledger, clock, COMPANY) for name, view in VIEWS.items()}

    # Somebody's agent must be there before it can be paused, and until all is done.
    others = sorted(WRITES.keys() - {"agents.remove"})
    names = ["agents.register", *data.draw(st.permutations(others)), "agents.remove"]
    for start in range(0, len(names), TOGETHER):
        together = names[start : start + TOGETHER]
        for name in together:
            WRITES[name](ledger, clock, OTHER)
        assert {each: view(ledger, clock, COMPANY) for each, view in VIEWS.items()} == before, together
    assert ledger.journal.undoable(run_id)


def _of_tomorrow(value: Any) -> Any:
    """Return JSON with a key in each object that no release knows."""
    match value:
        case dict():
            return {name: _of_tomorrow(each) for name, each in value.items()} | {"of_tomorrow": 1}
        case list():
            return [_of_tomorrow(each) for each in value]
        case str() if value.startswith('{"'):
            return json.dumps(_of_tomorrow(json.loads(value)))
        case bytes() if value.startswith(b'{"'):
            return json.dumps(_of_tomorrow(json.loads(value))).encode()
        case _:
            return value


def test_rows_with_keys_of_a_later_release_are_read(ledger: Ledger, clock: StoppedClock) -> None:
    _begin(ledger, clock)
    before = {name: view(ledger, clock, COMPANY) for name, view in VIEWS.items()}
    changed = set[str]()
    for database, tables in ((ledger.work._database, metadata), (ledger.journal._database, journal_metadata)):
        for table in tables.sorted_tables:
            for row in database.rows(select(table)):
                new = {name: _of_tomorrow(value) for name, value in row.items()}
                new = {name: value for name, value in new.items() if value != row[name]}
                if new:
                    which = equals(table, **{column.name: row[column.name] for column in table.primary_key})
                    assert database.change(update(table).where(which).values(new)) == 1
                    changed |= {f"{table.name}.{name}" for name in new}
    assert len(changed) > 20, changed
    for name, view in VIEWS.items():
        assert (view(ledger, clock, COMPANY) is None) == (before[name] is None), name

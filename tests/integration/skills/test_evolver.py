"""The evolver over a real ledger: its proposals, their figures, and the patterns that it skips."""

import logging
from datetime import timedelta
from typing import Any

import pytest
from support.ledger_records import COMPANY, StoppedClock, finish_lesson, open_lesson
from support.lessons import lesson
from support.skill_cycles import BACKGROUND, CHAIN, DISK, Fleet, accounted, pattern_of

from memcore.errors import MemoryConnectionError
from memcore.ledger.agents import AgentSpec
from memcore.ledger.learning.bounds import lower_bound, upper_bound
from memcore.ledger.learning.skills import SkillSource
from memcore.ledger.ledger import Ledger
from memcore.ledger.organization.audit import Confirmation
from memcore.models.approval import ApprovalRisk, ApprovalState
from memcore.models.distrust import DistrustRule
from memcore.models.execution import Turn
from memcore.models.memory import LATEST, ConsolidationInterval
from memcore.models.origin import Origin
from memcore.procedural.records import written
from memcore.skills import survey
from memcore.skills.publication import ORG_PROMOTION, lesson_of
from memcore.skills.report import CycleStage, EvolverReport
from memcore.telemetry.events import Event

REFUND = lesson(
    discovery="Refunds go through the invoice.",
    condition="A customer asks for a refund of an invoice.",
    action="Search the invoice, then write the refund against its number.",
    confidence=0.95,
)


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("memcore.skills")]


async def test_a_cycle_tells_how_far_it_is_and_nothing_of_what_it_reads(fleet: Fleet) -> None:
    fleet.fail("abcd")
    reported: list[tuple[str, float | None]] = []
    await fleet.evolver().run(fleet.cycle(), on_progress=lambda stage, fraction: reported.append((stage, fraction)))
    # All executions are read twice.
    number_of_reads = 2 * (4 + len(BACKGROUND))
    assert reported == [
        (CycleStage.SEARCHING, None),
        *((CycleStage.REPLAYING, number / number_of_reads) for number in range(1, number_of_reads + 1)),
        (CycleStage.FILING, 0.0),
    ]


async def test_what_several_agents_learned_from_a_failure_waits_for_a_person(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    text = fleet.fail("abcd")
    fleet.succeed("a", "well", task_type="disk")
    report = await fleet.run()
    assert (report.proposals_emitted, report.patterns_found, report.trajectories_analyzed) == (
        1,
        1,
        5 + len(BACKGROUND),
    )
    (filed,) = fleet.proposed()
    proposal = filed.proposal
    assert (filed.state, proposal.action, proposal.risk) == (
        ApprovalState.PENDING, ORG_PROMOTION, ApprovalRisk.MEDIUM,
    )  # fmt: skip
    # Graded: the lift of four failures in four executions of this kind over none in forty-nine others.
    confidence = 1 - upper_bound(0, 1 + len(BACKGROUND)) / lower_bound(4, 4)
    assert proposal.figures == {
        "agents": 4, "occurrences": 4, "confidence": round(confidence, 4), "precision": 1.0, "recall": 1.0,
        "agents_covered": 4, "votes": 0.0, "lesson_confidence": text.confidence,
    }  # fmt: skip
    assert proposal.details["cycle_id"] == "cycle"
    assert proposal.details["pattern_id"] == pattern_of("disk")
    assert proposal.details["scope"] == "org"
    assert lesson_of(filed) == text.model_copy(update={"confidence": confidence})
    assert events(caplog) == [
        Event.SKILL_EVOLVER_CYCLE_START,
        Event.SKILL_EVOLVER_PROPOSAL_EMITTED,
        Event.SKILL_EVOLVER_CYCLE_COMPLETE,
    ]


async def test_the_text_is_an_agents_own_and_the_title_and_the_log_have_no_word_of_it(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    text = fleet.fail(text=lesson(discovery="Zanzibar", rationale="Zanzibar", tags=["Zanzibar"]))
    await fleet.run()
    (filed,) = fleet.proposed()
    assert filed.proposal.content == written(text)
    assert "disk" not in filed.proposal.title
    assert "Zanzibar" not in filed.proposal.title
    assert not any("Zanzibar" in str(vars(record)) for record in caplog.records)


async def test_a_proposal_names_the_lessons_among_which_it_was_chosen_and_none_that_is_distrusted(
    fleet: Fleet,
) -> None:
    fleet.fail("abcd", text=lesson(confidence=0.8))
    fleet.execute("worst", "a", category="disk", task_type="disk", task_title=DISK, text=REFUND)
    word = Confirmation(actor="grace", confirm=True, reason="its host was taken over")
    distrusts = fleet.ledger.distrusts
    distrust = distrusts.add(COMPANY, DistrustRule(agent_id="a", session_id="s-9"), word)
    distrusts.reach(COMPANY, distrust.distrust_id, "a", ["worst"])
    await fleet.run()
    (filed,) = fleet.proposed()
    assert lesson_of(filed).action == lesson().action
    # Of each agent the surest lesson is looked at, and that of the first one is of what is distrusted.
    assert sorted(each["lesson_id"] for each in filed.proposal.details["sources"]) == [
        "disk-b-1",
        "disk-c-2",
        "disk-d-3",
    ]


async def test_a_withdrawn_skill_keeps_no_candidate_of_its_pattern_back_and_takes_no_place(fleet: Fleet) -> None:
    text = fleet.fail("abcd")
    key = Origin(principals=("bad",))
    source = SkillSource(agent_id="a", lesson_id="l", memory_id="m", origin=key, created_at=fleet.clock())
    fleet.stand(text, pattern_id=pattern_of("disk"), sources=(source,))
    assert (await fleet.run()).skipped_known == 1
    word = Confirmation(actor="grace", confirm=True, reason="its host was taken over")
    distrust = fleet.ledger.distrusts.add(COMPANY, DistrustRule(principal="bad"), word)
    report = await fleet.run("later", max_org_entries=1)
    assert (report.proposals_emitted, report.supersessions, report.skipped_full) == (1, 0, 0)
    fleet.ledger.distrusts.lift(COMPANY, distrust.distrust_id, word)
    assert fleet.ledger.skills.count(COMPANY, seen=fleet.ledger.hidden.of(COMPANY).seen_skills) == 1


async def test_a_chain_that_does_better_than_the_rest_can_be_promoted_too(fleet: Fleet) -> None:
    more: dict[str, Any] = {"task_title": "Refund of an invoice for a customer", "task_type": "refund"}
    fleet.succeed("abcdef" * 3, "refund", CHAIN, text=REFUND, **more)
    for agent in "abc":
        fleet.execute(f"badly-{agent}", agent, category="odd", turns=(Turn(tools=("search_web",)),), **more)
    report = await fleet.run()
    assert report.proposals_emitted == 1
    (filed,) = fleet.proposed()
    assert lesson_of(filed) == REFUND.model_copy(update={"confidence": lower_bound(18, 18)})
    # It fits the failures too, which went another way.
    assert (filed.proposal.figures["precision"], filed.proposal.figures["recall"]) == (1.0, 1.0)


async def test_what_too_few_agents_show_is_counted_and_left(fleet: Fleet) -> None:
    fleet.fail("ababab")
    report = await fleet.run()
    assert (report.skipped_below_agent_threshold, report.proposals_emitted) == (1, 0)
    assert (await fleet.run(min_agents_seen_pattern=2)).proposals_emitted == 1


async def test_what_is_not_sure_enough_is_counted_and_left(fleet: Fleet) -> None:
    fleet.fail("abcd")
    fleet.succeed("abcdefgh", "well", task_type="disk", task_title="Count the stars")
    fleet.fail("efghefgh", task_type="walk", task_title="Walk the dogs")
    report = await fleet.run()
    assert (report.skipped_low_confidence, report.proposals_emitted) == (1, 0)
    assert (await fleet.run(min_confidence_for_org_promotion=0.3)).proposals_emitted == 1


async def test_without_a_lesson_nothing_is_made_up(fleet: Fleet) -> None:
    for agent in "abcd":
        fleet.execute(f"t-{agent}", agent, category="disk", task_title=DISK)
    open_lesson(fleet.ledger, COMPANY, "a", "t-a")
    finish_lesson(fleet.ledger, COMPANY, "t-a", "stored", confidence=0.9, text='{"unknown": "form"}')
    report = await fleet.run()
    assert (report.skipped_without_lesson, report.proposals_emitted) == (1, 0)


async def test_a_condition_that_fits_the_past_badly_is_proposed_to_nobody(fleet: Fleet) -> None:
    fleet.fail("abcd")
    # Everybody's imports: the condition does not tell the failures from them.
    fleet.succeed("abcdef", "well", task_type="import", task_title=DISK)
    fleet.succeed("abcdef", "more", task_title="Walk the dogs", task_type="walk")
    report = await fleet.run()
    assert (report.skipped_by_replay, report.proposals_emitted) == (1, 0)
    assert (await fleet.run(min_precision=0.4)).proposals_emitted == 1


async def test_a_condition_that_fits_the_failures_of_few_agents_alone_is_proposed_to_nobody(fleet: Fleet) -> None:
    fleet.fail("ab")
    for agent in "cdef":
        fleet.execute(f"d-{agent}", agent, category="disk", task_type="disk", task_title="Compile the kernel")
    report = await fleet.run()
    assert (report.patterns_found, report.skipped_by_replay) == (1, 1)


async def test_the_surest_come_first_and_a_cycle_proposes_only_so_many(fleet: Fleet) -> None:
    words = ["alpha", "beta", "gamma", "delta"]
    for number, word in enumerate(words):
        text = lesson(condition=f"{word}{word} happens", action=f"{word} {word}s")
        fleet.fail("abcd", word, text=text, task_title=f"{word}{word} happens", task_description=word)
        fleet.succeed("abcd"[:number], f"well-{word}", task_type=word, task_title=f"{word}{word}")
    report = await fleet.run(max_proposals_per_cycle=2, min_confidence_for_org_promotion=0.5)
    assert (report.patterns_found, report.proposals_emitted, report.postponed) == (4, 2, 2)
    assert {each.proposal.details["pattern_id"] for each in fleet.proposed()} == {
        pattern_of("alpha"), pattern_of("beta"),
    }  # fmt: skip
    # The next cycle goes on where this one stopped.
    later = await fleet.run("later", max_proposals_per_cycle=2, min_confidence_for_org_promotion=0.5)
    assert (later.proposals_emitted, later.skipped_known, later.postponed) == (2, 2, 0)


async def test_a_cycle_tries_only_so_many_on_the_past_the_surest(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.fail("abcde", "unfit", text=lesson(condition="Something that nobody met"))
    fleet.fail("abcd", "disk")
    fleet.succeed("a", "well", task_type="disk")
    monkeypatch.setattr(survey, "MAX_BACKTESTS", 1)
    report = await fleet.run()
    assert (report.skipped_by_replay, report.postponed, accounted(report)) == (1, 1, 2)


async def test_what_ended_outside_of_the_window_is_not_looked_at(fleet: Fleet) -> None:
    fleet.fail("abcd", ago=timedelta(days=31))
    report = await fleet.run()
    assert (report.trajectories_analyzed, report.patterns_found) == (len(BACKGROUND), 0)
    fleet.fail("abcd", "late", ago=timedelta(0))
    assert (await fleet.run()).patterns_found == 0


async def test_every_pattern_is_in_exactly_one_count(fleet: Fleet) -> None:
    fleet.fail("abcd", "one")
    fleet.fail("ab", "few", task_title="Talk")
    kettle = lesson(condition="The kettle whistles", action="Pour the tea")
    fleet.fail("abcd", "unsure", task_title="The kettle whistles", text=kettle)
    fleet.fail("efghefgh", "unsure", task_title="Walk the dogs", task_type="walk", text=kettle)
    fleet.fail("abcd", "same")
    for agent in "abcd":
        fleet.execute(f"untaught-{agent}", agent, category="untaught", task_type="untaught")
    fleet.fail("abcd", "unfit", task_title="Talk", text=lesson(condition="Something that nobody met"))
    report = await fleet.run()
    assert report.patterns_found == accounted(report) == 6
    assert report.model_dump(exclude={"cycle_id", "window_start", "window_end"}, exclude_defaults=True) == {
        "trajectories_analyzed": 30 + len(BACKGROUND), "patterns_found": 6, "proposals_emitted": 1,
        "skipped_below_agent_threshold": 1, "skipped_low_confidence": 1, "skipped_without_lesson": 1,
        "skipped_by_replay": 1, "skipped_known": 1,
    }  # fmt: skip


async def test_switched_off_it_reads_nothing_and_says_so(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    fleet.fail("abcd")
    cycle = fleet.cycle()
    assert await fleet.evolver(enabled=False).run(cycle) == EvolverReport(
        cycle_id=cycle.cycle_id, window_start=cycle.window_start, window_end=cycle.window_end
    )
    assert fleet.proposed() == []
    assert events(caplog) == [Event.SKILL_EVOLVER_DISABLED]


async def test_a_ledger_that_fails_is_told_and_raised(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_args: object, **_more: object) -> None:
        raise MemoryConnectionError("the ledger cannot be read")

    monkeypatch.setattr(fleet.ledger.trajectories, "count", refuse)
    with pytest.raises(MemoryConnectionError):
        await fleet.run()
    assert events(caplog) == [Event.SKILL_EVOLVER_CYCLE_FAILED]


async def test_the_company_next_door_teaches_nothing(fleet: Fleet, ledger: Ledger) -> None:
    fleet.fail("abcd")
    for each in ledger.trajectories.page(COMPANY):
        ledger.trajectories.append("globex", each)
    ledger.trajectories.expire(COMPANY, before=LATEST)
    assert (await fleet.run()).trajectories_analyzed == 0


async def test_an_engine_that_plays_ten_agents_that_nobody_added_gets_no_proposal(
    ledger: Ledger, clock: StoppedClock
) -> None:
    hostile = Fleet(ledger, clock, adds_agents=False)
    for word in ("disk", "device"):
        hostile.fail("abcdefghij" * 9, word)
    hostile.work()
    ledger.agents.register(COMPANY, "abcdefghij", interval=ConsolidationInterval.DAILY)
    report = await hostile.run()
    counts = (report.trajectories_analyzed, report.trajectories_unregistered, report.patterns_found)
    assert counts == (0, 180 + len(BACKGROUND), 0)
    for agent in "abcdefgh":
        ledger.agents.put(AgentSpec(company=COMPANY, agent_id=agent))
    assert (await hostile.run()).proposals_emitted == 1


async def test_an_application_that_helped_makes_it_surer(fleet: Fleet) -> None:
    fleet.fail("abcd")
    assert (await fleet.run(min_confidence_for_org_promotion=0.95)).skipped_low_confidence == 1
    fleet.apply("m-disk-a-0", "a", "success")
    raised = await fleet.run(min_confidence_for_org_promotion=0.95)
    assert (raised.proposals_emitted, fleet.proposed()[0].proposal.figures["votes"]) == (1, 1.0)


async def test_lessons_that_failed_those_who_applied_them_are_not_proposed(fleet: Fleet) -> None:
    fleet.fail("abcd")
    for number, agent in enumerate("abcd"):
        fleet.apply(f"m-disk-{agent}-{number}", agent, "failure")
    assert (await fleet.run()).skipped_low_confidence == 1

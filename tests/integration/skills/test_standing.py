"""Candidates against published skills and pending proposals: contradictions, then better ones, then repeats."""

import logging
from typing import Any

import pytest
from support.ledger_records import COMPANY, make_fact
from support.lessons import ANSWER, lesson
from support.skill_cycles import DISK, Fleet, accounted, pattern_of

from memcore.ledger.ledger import Ledger
from memcore.models.approval import MAX_SUPERSEDED, Superseded
from memcore.procedural.records import LessonText
from memcore.skills.report import MAX_LISTED, Conflict
from memcore.telemetry.events import Event

OTHERWISE = "Leave everything alone and wake the person on call."


def published(fleet: Fleet, content: str) -> str:
    """Publish a text, and return the id under which a skill of it would stand."""
    fact = make_fact(content)
    fleet.ledger.shared_log.publish(COMPANY, fact)
    return fact.entry.id


def weaker(**changed: Any) -> LessonText:
    return lesson(**{"confidence": 0.5, **changed})


async def test_a_contradiction_is_not_proposed_but_counted_logged_and_listed(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    fleet.fail()
    fleet.stand(weaker(action=OTHERWISE), skill_id="old")
    report = await fleet.run()
    assert (report.conflicts, report.proposals_emitted) == (1, 0)
    assert report.conflict_list == (Conflict(pattern_id=pattern_of("disk"), standing_id="old"),)
    (warned,) = [each for each in caplog.records if each.message == Event.SKILL_EVOLVER_CONFLICT_DETECTED]
    assert vars(warned)["standing_id"] == "old"


async def test_a_contradiction_counts_before_an_improvement(fleet: Fleet) -> None:
    fleet.fail()
    fleet.stand(weaker(), skill_id=published(fleet, "agrees"))
    fleet.stand(weaker(action=OTHERWISE), skill_id="contradicts")
    report = await fleet.run()
    assert (report.conflicts, report.supersessions, report.proposals_emitted) == (1, 0, 0)


async def test_what_is_better_in_full_is_proposed_in_the_old_ones_place(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    fleet.fail()
    old = fleet.stand(weaker(), skill_id=published(fleet, "what stood there"))
    report = await fleet.run()
    assert (report.proposals_emitted, report.supersessions) == (1, 1)
    (filed,) = fleet.proposed()
    assert filed.proposal.supersedes == (Superseded(id=old, content="what stood there", owner="approvals"),)
    (superseded,) = [each for each in caplog.records if each.message == Event.ORG_SKILL_SUPERSEDED]
    assert vars(superseded)["skill_id"] == old


async def test_what_covers_another_case_in_part_is_proposed_beside_it(fleet: Fleet) -> None:
    fleet.fail()
    fleet.stand(weaker(condition="The login fails because the token is too old."))
    report = await fleet.run()
    assert (report.proposals_emitted, report.supersessions) == (1, 0)


async def test_what_a_skill_says_already_is_not_proposed_again_under_another_pattern(fleet: Fleet) -> None:
    fleet.fail()
    fleet.stand(lesson(confidence=1.0))
    report = await fleet.run()
    assert (report.skipped_known, report.proposals_emitted) == (1, 0)


async def test_a_skill_that_no_longer_stands_is_no_rival(fleet: Fleet) -> None:
    fleet.fail()
    fleet.stand(weaker(action=OTHERWISE), skill_id="old")
    fleet.stand(weaker(condition="x", action="y"), skill_id="young")
    assert fleet.ledger.skills.supersede(COMPANY, "old", by="young")
    assert (await fleet.run()).proposals_emitted == 1


async def test_of_two_patterns_that_say_the_same_the_surer_one_is_proposed(fleet: Fleet) -> None:
    fleet.fail("abcd", "disk")
    fleet.fail("abcd", "device", task_title=DISK)
    fleet.succeed("a", "well", task_type="device")
    report = await fleet.run()
    assert (report.proposals_emitted, report.skipped_known) == (1, 1)
    assert fleet.proposed()[0].proposal.details["pattern_id"] == pattern_of("disk")


async def test_of_two_patterns_that_contradict_each_other_the_second_is_a_conflict_with_the_proposal(
    fleet: Fleet,
) -> None:
    fleet.fail("abcd", "disk")
    fleet.fail("abcd", "device", text=lesson(action=OTHERWISE))
    fleet.succeed("a", "well", task_type="device")
    report = await fleet.run()
    assert (report.proposals_emitted, report.conflicts) == (1, 1)
    (filed,) = fleet.proposed()
    assert report.conflict_list == (Conflict(pattern_id=pattern_of("device"), standing_id=filed.approval_id),)


async def test_what_a_proposal_of_an_earlier_cycle_says_waits_until_somebody_decides(fleet: Fleet) -> None:
    fleet.fail("abcd", "device")
    fleet.succeed("a", "well", task_type="device")
    await fleet.run("first")
    fleet.fail("abcd", "disk")
    report = await fleet.run("second")
    assert (report.skipped_known, report.proposals_emitted) == (2, 0)


class TestOwnSkill:
    """The pattern's own skill stands; both texts are tried on the same executions."""

    BETTER = lesson(condition=f"{ANSWER['condition']} It is full.", action=f"{ANSWER['action']} Slowly.")

    async def test_the_same_text_is_not_proposed_again_however_sure_it_has_become(self, fleet: Fleet) -> None:
        fleet.fail()
        fleet.stand(weaker(), pattern_id=pattern_of("disk"), skill_id=published(fleet, "own"))
        assert (await fleet.run()).skipped_known == 1

    async def test_a_better_text_takes_the_place_of_a_skill_that_helps(self, fleet: Fleet) -> None:
        # The old one names a part of the case: it says nothing of failures without a device, which have no type either.
        sure = lesson(condition="device", action=ANSWER["action"], confidence=0.99)
        own = fleet.stand(sure, pattern_id=pattern_of("disk"), skill_id=published(fleet, "own"))
        text = lesson(condition="No space left on the device or on the disk")
        fleet.fail("abcdefgh", text=text, task_type=None, task_title="No space left on the disk")
        fleet.fail("ij", text=text, task_type=None, task_title="device")
        for agent in "abcdefgh":
            fleet.apply(own, agent, "success")
        report = await fleet.run()
        assert (report.proposals_emitted, report.supersessions) == (1, 1)

    async def test_a_better_text_that_is_hardly_surer_is_left(self, fleet: Fleet) -> None:
        fleet.fail(text=self.BETTER)
        fleet.stand(weaker(), pattern_id=pattern_of("disk"), skill_id=published(fleet, "own"))
        assert (await fleet.run()).skipped_known == 1

    async def test_a_skill_that_fails_those_who_apply_it_gives_way_to_another_text(self, fleet: Fleet) -> None:
        fleet.fail(text=self.BETTER)
        own = fleet.stand(weaker(), pattern_id=pattern_of("disk"), skill_id=published(fleet, "own"))
        for agent in "ab":
            fleet.apply(own, agent, "failure")
        report = await fleet.run()
        assert (report.proposals_emitted, report.supersessions) == (1, 1)

    async def test_another_word_for_it_is_no_contradiction(self, fleet: Fleet) -> None:
        fleet.fail()
        fleet.stand(weaker(action=OTHERWISE), pattern_id=pattern_of("disk"), skill_id=published(fleet, "own"))
        report = await fleet.run()
        assert (report.skipped_known, report.conflicts) == (1, 0)


async def test_a_full_organisation_gets_no_more_proposals(fleet: Fleet) -> None:
    fleet.stand(weaker(condition="The login fails.", action="Renew it."))
    fleet.fail("abcd", "disk")
    report = await fleet.run(max_org_entries=1)
    assert (report.skipped_full, report.proposals_emitted, accounted(report)) == (1, 0, 1)
    assert (await fleet.run(max_org_entries=2)).proposals_emitted == 1


async def test_proposals_that_wait_count_too(fleet: Fleet) -> None:
    for word in ("alpha", "beta"):
        fleet.fail("abcd", word, text=lesson(condition=f"{word} stops", action=f"do {word}s"), task_title=f"{word}")
    report = await fleet.run(max_org_entries=1)
    assert (report.proposals_emitted, report.skipped_full) == (1, 1)


async def test_what_takes_the_place_of_another_needs_no_more_capacity(fleet: Fleet) -> None:
    fleet.fail()
    fleet.stand(weaker(), skill_id=published(fleet, "old"))
    assert (await fleet.run(max_org_entries=1)).proposals_emitted == 1


async def test_a_skill_that_was_taken_back_meanwhile_is_not_superseded(fleet: Fleet, ledger: Ledger) -> None:
    fleet.fail()
    fleet.stand(weaker(), skill_id="never published")
    assert not ledger.shared_log.history(COMPANY, "never published")
    report = await fleet.run()
    assert (report.proposals_emitted, report.supersessions) == (1, 0)


async def test_a_skill_of_a_form_that_cannot_be_read_stops_nothing(fleet: Fleet) -> None:
    fleet.fail()
    found = fleet.ledger.skills.get(COMPANY, fleet.stand(weaker(action=OTHERWISE)))
    assert found is not None
    fleet.ledger.skills.put(COMPANY, found.model_copy(update={"skill_id": "odd", "text": "{}"}))
    report = await fleet.run()
    assert [each.standing_id for each in report.conflict_list] == [found.skill_id]


async def test_a_proposal_takes_the_place_of_only_so_many_and_a_report_lists_only_so_many(fleet: Fleet) -> None:
    fleet.fail()
    for number in range(MAX_SUPERSEDED + 1):
        fleet.stand(weaker(), skill_id=published(fleet, f"text {number}"))
    assert (await fleet.run()).supersessions == MAX_SUPERSEDED
    for number in range(MAX_LISTED + 1):
        fleet.stand(weaker(condition="The gearbox grinds.", action=f"act{number} so{number}"), skill_id=f"g-{number}")
    fleet.fail("abcd", "gears", task_title="Gearbox", text=lesson(condition="The gearbox grinds.", action=OTHERWISE))
    report = await fleet.run("second")
    assert (report.conflicts, len(report.conflict_list)) == (1, MAX_LISTED)

"""The evolver's cycles from the command line: asking for one, and what they came to."""

from datetime import UTC, datetime, timedelta

from support.command_line import CommandLine
from support.ledger_records import finish_cycle
from support.running_stack import StackAddress, wait_until

from memcore.ledger.learning.skill_cycles import Cycle
from memcore.ledger.work_items import WorkState
from memcore.skills.report import Conflict, EvolverReport
from ops.cli.session import ledger_of


def finished(stack: StackAddress, *, conflict: Conflict) -> Cycle:
    """Put a cycle into the ledger that a person must look at, later than all others."""
    company = stack.settings.company
    with ledger_of(stack.settings) as ledger:
        at = datetime.now(UTC) + timedelta(days=1)
        cycle = ledger.skill_cycles.plan(company, origin="scheduled", planned_at=at, window=timedelta(days=7))
        assert cycle is not None
        report = EvolverReport(
            cycle_id=cycle.cycle_id,
            window_start=cycle.window_start,
            window_end=cycle.window_end,
            trajectories_analyzed=4711,
            patterns_found=17,
            proposals_emitted=5,
            conflicts=1,
            conflict_list=(conflict,),
        )
        finish_cycle(ledger, company, cycle.cycle_id, report.model_dump(mode="json"))
    return cycle


def test_a_cycle_is_asked_for_and_its_report_is_printed(memtend: CommandLine) -> None:
    answer = memtend.ok("skills", "evolve", "--json")
    cycle = answer.value
    assert "set memory.procedural.evolver.enabled" in answer.err, "this stack's evolver is off"
    assert cycle["origin"] == "manual"
    assert cycle["finished_at"] >= cycle["planned_at"] == cycle["window_end"]
    assert cycle["report"]["cycle_id"] == cycle["cycle_id"]
    assert cycle["report"]["proposals_emitted"] == 0
    listed = memtend.ok("skills", "cycles", "--limit", "100", "--json").value
    assert cycle in listed
    out = memtend.ok("skills", "evolve").out
    assert "trajectories_analyzed" in out
    assert "finished_at" in out


def test_a_cycle_need_not_be_waited_for(memtend: CommandLine) -> None:
    cycle_id = memtend.ok("skills", "evolve", "--no-wait", "--json").value["cycle_id"]

    def is_finished() -> bool:
        found = memtend.ok("skills", "cycles", "--limit", "100", "--json").value
        return any(each["finished_at"] for each in found if each["cycle_id"] == cycle_id)

    wait_until(is_finished, what="the cycle to be finished")


def test_a_cycle_waits_while_maintenance_is_paused_and_goes_on_at_once_afterwards(
    memtend: CommandLine, stack: StackAddress
) -> None:
    company = stack.settings.company
    memtend.ok("pause")
    try:
        answer = memtend.ok("skills", "evolve", "--json")
        assert "maintenance is paused" in answer.err
        cycle_id = answer.value["cycle_id"]
        with ledger_of(stack.settings) as ledger:

            def waits() -> bool:
                cycle = ledger.skill_cycles.get(company, cycle_id)
                return cycle is not None and cycle.state is WorkState.WAITING

            wait_until(waits, what="the cycle to wait")
    finally:
        memtend.ok("resume")

    with ledger_of(stack.settings) as ledger:

        def is_finished() -> bool:
            cycle = ledger.skill_cycles.get(company, cycle_id)
            return cycle is not None and cycle.finished_at is not None

        wait_until(is_finished, what="the cycle to go on")


def test_the_list_says_what_came_of_each_and_names_what_a_person_must_look_at(
    memtend: CommandLine, stack: StackAddress
) -> None:
    cycle = finished(stack, conflict=Conflict(pattern_id="pattern-a", standing_id="skill-b"))
    (newest,) = memtend.ok("skills", "cycles", "--limit", "1", "--json").value
    assert newest["cycle_id"] == cycle.cycle_id
    assert newest["report"]["conflict_list"] == [{"pattern_id": "pattern-a", "standing_id": "skill-b"}]
    out = memtend.ok("skills", "cycles", "--limit", "1").out
    for said in ("scheduled", "4711", "17", "a person must look at these", "pattern-a", "skill-b"):
        assert said in out

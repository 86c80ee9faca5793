"""The logs of a run, at the default level: when it began and how it ended, and no line for each message."""

from support.command_line import CommandLine
from support.memories import new_agent
from support.running_stack import StackAddress, wait_until


def lines(stack: StackAddress, run_id: str) -> list[str]:
    return [line for line in stack.log("worker-night").splitlines() if f"run_id={run_id}" in line]


def test_start_and_end_of_a_run_are_in_the_log(stack: StackAddress, memtend: CommandLine) -> None:
    agent = new_agent()
    memtend.ok("store", agent, "The lift is out of order.")
    run_id = memtend.ok("maintain", agent, "--wait", "--json").value["run_id"]
    wait_until(lambda: len(lines(stack, run_id)) >= 2, what="the lines of the run")
    events = [line.split()[2] for line in lines(stack, run_id)]
    assert (events[0], events[-1]) == ("consolidation.maintenance.start", "consolidation.maintenance.complete")
    log = stack.log("worker-night")
    assert "received" not in log
    assert "succeeded in" not in log

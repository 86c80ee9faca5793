"""The organisation's skills as a person sees them: what stands, what each says, how often it helped."""

from typing import Any, get_args

from support.command_line import CommandLine
from support.lessons import lesson
from support.memories import new_agent
from support.running_stack import StackAddress, wait_until

from memcore import MemoryClient, ids
from memcore.config.learning import ApprovalsConfig
from memcore.jobs import ApplicationOutcome
from memcore.skills.publication import ORG_PROMOTION, promotion, superseded_skill
from ops.cli.session import ledger_of

#: It must not reach a terminal as it is.
ESCAPE = "\x1b[31m"


def proposed(stack: StackAddress, name: str, *instead_of: str) -> str:
    """File a skill as the evolver does; its discovery is the name."""
    company = stack.settings.company
    with ledger_of(stack.settings) as ledger:
        proposal = promotion(
            lesson(discovery=f"{name} {ESCAPE}"),
            title="A skill for all agents",
            pattern_id=f"pattern of {name}",
            cycle_id="cycle-1",
            figures={"agents": 4, "precision": 0.75},
            supersedes=[superseded_skill(ledger.shared_log, company, each) for each in instead_of],
        )
        approval_id = ids.approval_id(company=company, action=ORG_PROMOTION, cause=name)
        assert ledger.approvals.file(company, approval_id, proposal, lasts=ApprovalsConfig().lasts)
    return approval_id


def approved(memtend: CommandLine, stack: StackAddress, name: str, *instead_of: str) -> str:
    approval_id = proposed(stack, name, *instead_of)
    skill_id: str = memtend.ok("approvals", "approve", approval_id, "--by", "Ada", "--json").value["effect"]
    return skill_id


def listed(memtend: CommandLine, *more: str) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in memtend.ok("skills", "list", "--limit", "128", *more, "--json").value}


def shown(memtend: CommandLine, skill_id: str) -> dict[str, Any]:
    found: dict[str, Any] = memtend.ok("skills", "show", skill_id, "--json").value
    return found


def barges(memtend: CommandLine) -> list[str]:
    """The texts on barges that all agents find: others may have published on other things."""
    found = memtend.ok("shared", "search", "barge", "--json").value
    return [each["id"] for each in found if "barge" in each["text"]]


def test_a_skill_is_approved_found_superseded_and_taken_back(memtend: CommandLine, stack: StackAddress) -> None:
    old = approved(memtend, stack, "The barge sinks")
    assert barges(memtend) == [old]
    new = approved(memtend, stack, "The barge floats", old)
    assert barges(memtend) == [new]
    rows = listed(memtend)
    assert (rows[old]["state"], rows[old]["superseded_by"], rows[new]["state"]) == ("superseded", new, "active")
    assert old in listed(memtend, "--state", "superseded")
    assert new not in listed(memtend, "--state", "superseded")
    whole = shown(memtend, new)
    assert (whole["supersedes"], whole["memory_id"], whole["approved_by"]) == ([old], new, "Ada")
    assert (whole["pattern_id"], whole["cycle_id"]) == ("pattern of The barge floats", "cycle-1")
    assert whole["figures"] == {"agents": 4, "precision": 0.75}
    assert whole["lesson"] == lesson(discovery=f"The barge floats {ESCAPE}").model_dump(mode="json")
    assert shown(memtend, old)["memory_id"] is None

    memtend.ok("approvals", "undo", whole["approval_id"], "--by", "Bob")
    (back,) = barges(memtend)
    assert back not in {old, new}
    assert (shown(memtend, back)["id"], shown(memtend, old)["memory_id"]) == (old, back)
    rows = listed(memtend)
    assert (rows[old]["state"], rows[new]["state"]) == ("active", "retired")


def test_what_a_terminal_would_obey_is_printed_as_text(memtend: CommandLine, stack: StackAddress) -> None:
    skill_id = approved(memtend, stack, "The kayak turns")
    for out in (memtend.ok("skills", "list").out, memtend.ok("skills", "show", skill_id).out):
        assert "The kayak turns \\x1b[31m" in out
        assert "\x1b" not in out
    out = memtend.ok("skills", "show", skill_id).out
    for text in ("[discovery]", "[activation]\nWhen: ", "Because: ", "[execution]\n1. Look at the disk in the shell."):
        assert text in out


def test_an_id_that_names_no_skill_is_told(memtend: CommandLine) -> None:
    answer = memtend("skills", "show", "none")
    assert (answer.code, answer.out) == (1, "")
    assert "skill_id: 'none' is no skill; see `memtend skills list`" in answer.err


def test_what_agents_tell_of_a_skill_is_counted_beside_it(memtend: CommandLine, stack: StackAddress) -> None:
    skill_id = approved(memtend, stack, "The gondola rocks")
    assert listed(memtend)[skill_id]["applications"] == 0
    agent = new_agent("rower")
    with MemoryClient.from_settings(stack.settings) as client:
        for number, outcome in enumerate(get_args(ApplicationOutcome)):
            for _ in range(2):
                assert client.applied(agent, skill_id, outcome, task_id=f"task-{number}") is not None

    def is_counted() -> bool:
        return bool(listed(memtend)[skill_id]["applications"] == 2)

    wait_until(is_counted, what="the applications to be counted")
    found = shown(memtend, skill_id)
    assert (found["applications"], found["successes"]) == (2, 1)
    assert found["last_applied_at"] >= found["published_at"]

"""Maintenance from the command line: what it would do, what it did, taking it back, holding it up."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.command_line import CommandLine
from support.maintenance_fixture import FILLER
from support.memories import new_agent
from support.running_stack import StackAddress, wait_until

from memcore.ledger.work_items import WorkState
from ops.cli.maintenance.maintain import EXIT_HELD

#: Long before any retention ends; the tests' agents keep working memories for one day.
OLD = (datetime.now(UTC) - timedelta(days=300)).isoformat()

#: Old enough to be merged.
MERGED = (datetime.now(UTC) - timedelta(days=120)).isoformat()

#: Each strategy that asks a model, ready to, with its questions about four memories: one of all, or one of each.
DUAL = "{enabled: true, summarization_model: small, dense_threshold: 1.0}"
ASKING = [("strategy: llm", 1), (f"strategy: dual_mode, archival: {{dual_mode: {DUAL}}}", 4)]


def fill(memtend: CommandLine, agent: str, *, old: int, new: int) -> None:
    """Bring in memories of which the old ones are past their retention."""
    memtend.ok("agents", "add", agent, "--interval", "never", "--retain", "working=1")
    lines = [
        {"agent_id": agent, "category": "working", "content": f"{agent} old note {n}", "created_at": OLD}
        for n in range(old)
    ]
    lines += [{"agent_id": agent, "category": "semantic", "content": f"{agent} fact {n}"} for n in range(new)]
    memtend.ok("import", "-", stdin="\n".join(map(json.dumps, lines)).encode())


def fill_with_old(memtend: CommandLine, agent: str, **categories: int) -> None:
    """Bring in memories of each category that say the same and are old enough to be merged."""
    memtend.ok("agents", "add", agent, "--interval", "never")
    lines = [
        {"agent_id": agent, "category": category, "content": f"{agent} met Ada{'!' * n} {FILLER}", "created_at": MERGED}
        for category, count in categories.items()
        for n in range(count)
    ]
    memtend.ok("import", "-", stdin="\n".join(map(json.dumps, lines)).encode())


def live(memtend: CommandLine, agent: str) -> int:
    return len(memtend.ok("search", agent, "--limit", "1000", "--json").value)


def test_a_dry_run_tells_what_would_go_and_removes_nothing(memtend: CommandLine) -> None:
    agent = new_agent()
    fill(memtend, agent, old=3, new=9)
    plan = memtend.ok("maintain", agent, "--dry-run", "--json").value
    assert (plan["live"], plan["removed"]) == (12, 3)
    assert "12 memories live; a run would remove 3" in memtend.ok("maintain", agent, "--dry-run").out
    assert live(memtend, agent) == 12
    assert memtend.ok("runs", "list", "--agent", agent, "--json").value == []


def test_a_dry_run_tells_what_would_be_merged_with_what(memtend: CommandLine) -> None:
    agent = new_agent()
    fill_with_old(memtend, agent, episodic=5, social=1)
    plan = memtend.ok("maintain", agent, "--dry-run", "--json").value
    (group,) = plan["groups"]
    assert (group["category"], group["namespace"]) == ("episodic", "default")
    assert (group["removed"], group["summaries"]) == (5, 1)
    assert (plan["removed"], plan["summaries"], plan["questions"], plan["archived"]) == (5, 1, 0, 5)
    plain = memtend.ok("maintain", agent, "--dry-run").out
    assert "would remove 5 and make 1 summaries" in plain
    assert "episodic" in plain
    assert "social" not in plain
    run = memtend.ok("maintain", agent, "--json").value
    assert (run["counts"]["consolidated"], run["counts"]["summaries"]) == (5, 1)


@pytest.mark.parametrize(("strategy", "questions"), ASKING)
def test_a_dry_run_tells_what_a_model_would_be_asked(
    memtend: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str, questions: int
) -> None:
    agent = new_agent()
    fill_with_old(memtend, agent, episodic=5)
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"memory: {{level: persistent, consolidation: {{{strategy}}}}}", encoding="utf-8")
    monkeypatch.setenv("MEMTEND_POLICY_PATH", str(policy))

    without = memtend.ok("maintain", agent, "--dry-run", "--json").value
    assert without["removed"] == 0
    assert "needs a language model; set MEMTEND_LLM_URL" in without["waits"]
    assert "would wait before it consolidates" in memtend.ok("maintain", agent, "--dry-run").out

    monkeypatch.setenv("MEMTEND_LLM_URL", "http://127.0.0.1:9/v1")  # Nobody answers there, and nobody is asked.
    plan = memtend.ok("maintain", agent, "--dry-run", "--json").value
    assert (plan["removed"], plan["summaries"], plan["archived"], plan["questions"]) == (4, 1, 4, questions)
    assert plan["waits"] is None
    assert f"would be asked {questions} questions" in memtend.ok("maintain", agent, "--dry-run").out


def test_a_run_removes_what_is_old_and_an_undo_brings_it_back_and_can_be_undone(memtend: CommandLine) -> None:
    agent = new_agent()
    fill(memtend, agent, old=3, new=9)
    run = memtend.ok("maintain", agent, "--json").value
    assert run["state"] == "done"
    assert run["origin"] == "manual"
    assert live(memtend, agent) == 9
    shown = memtend.ok("runs", "show", run["run_id"], "--json").value
    removed = [memory_id for journal_entry in shown["bookings"] for memory_id in journal_entry["removed"]]
    assert len(set(removed)) == 3
    assert shown["undoable"] is True
    assert "retention" in memtend.ok("runs", "show", run["run_id"]).out
    plan = memtend.ok("runs", "undo", run["run_id"], "--dry-run", "--json").value
    assert (sorted(plan["restored"]), plan["removed"], plan["skipped"]) == (sorted(removed), [], [])
    assert "3 memories would return, 0 would go" in memtend.ok("runs", "undo", run["run_id"], "--dry-run").out
    assert live(memtend, agent) == 9
    undone = memtend.ok("runs", "undo", run["run_id"], "--json").value
    assert (undone["kind"], undone["state"], undone["undo_of"]) == ("undo", "done", run["run_id"])
    assert live(memtend, agent) == 12
    plan = memtend.ok("runs", "undo", run["run_id"], "--dry-run", "--json").value
    assert {each["reason"] for each in plan["skipped"]} == {"decided since"}
    assert "skipped" in memtend.ok("runs", "undo", run["run_id"], "--dry-run").out
    unknown = memtend("runs", "undo", "nothing", "--dry-run")
    assert (unknown.code, unknown.err) == (
        2,
        "memtend: undo_of: names no run of this company that is still known (memory.records)\n",
    )
    memtend.ok("runs", "undo", undone["run_id"])
    assert live(memtend, agent) == 9
    listed = memtend.ok("runs", "list", "--agent", agent, "--json").value
    assert [each["kind"] for each in listed] == ["undo", "undo", "maintenance"]
    assert agent in memtend.ok("runs", "list").out


def fill_over_the_limit(memtend: CommandLine, agent: str, *, memories: int) -> None:
    """Bring in memories of an agent that may keep ten, and one that is past its retention."""
    memtend.ok("agents", "add", agent, "--interval", "never", "--max-memories", "10", "--retain", "working=1")
    lines = [{"agent_id": agent, "category": "semantic", "content": f"{agent} fact {n}"} for n in range(memories)]
    lines.append({"agent_id": agent, "category": "working", "content": f"{agent} old note", "created_at": OLD})
    memtend.ok("import", "-", stdin="\n".join(map(json.dumps, lines)).encode())


def test_a_run_that_would_take_most_is_held_until_a_person_releases_it(memtend: CommandLine) -> None:
    agent = new_agent()
    fill_over_the_limit(memtend, agent, memories=60)
    plan = memtend.ok("maintain", agent, "--dry-run", "--json").value
    assert (plan["live"], plan["removed"], plan["is_held"]) == (61, 51, True)
    assert f"it would be held after retention: {plan['reason']}" in memtend.ok("maintain", agent, "--dry-run").out
    assert not memtend.ok("maintain", agent, "--dry-run", "--allow-large", "--json").value["is_held"]
    answer = memtend("maintain", agent, "--json")
    held = answer.value
    assert answer.code == 3
    assert (held["state"], held["step"], held["reason"]) == ("held", "consolidation", plan["reason"])
    assert (held["counts"]["planned"], held["counts"]["retention"]) == (50, 1)
    assert f"memtend runs release {held['run_id']}" in answer.err
    assert live(memtend, agent) == 60
    assert memtend.ok("status", "--json").value["held"] >= 1
    assert "memtend runs list --state held" in memtend.ok("status").out
    mend = next(each["mend"] for each in memtend("doctor", "--json").value if each["check"] == "held runs")
    assert all(f"`memtend runs {each}" in mend for each in ("list --state held`", "release RUN`", "dismiss RUN`"))

    again = memtend("maintain", agent, "--json").value
    assert [each["run_id"] for each in held_runs(memtend, agent)] == [again["run_id"]]
    refused = memtend("runs", "release", held["run_id"])
    assert (refused.code, "the run is dismissed; only a held run" in refused.err) == (2, True)
    held_plan = memtend.ok("runs", "show", again["run_id"], "--json").value["plan"]
    shown = memtend.ok("runs", "show", again["run_id"]).out
    assert "plan: 60 memories would become 10\n" in shown
    assert "enforcement: 50 memories go" in shown
    assert all(f"- {each}\n-   {agent}" in shown for each in held_plan["evicted"])
    assert f"memtend runs release {again['run_id']} --plan {held_plan['version']}" in shown
    other = memtend("runs", "release", again["run_id"], "--plan", "another")
    assert (other.code, "plan: has changed since it was shown" in other.err) == (1, True)
    assert memtend("runs", "release", "--all", "--plan", "another").code == 2
    release = ("runs", "release", again["run_id"], "--plan", held_plan["version"])
    (released,) = memtend.ok(*release, "--by", "ada", "--json").value
    assert (released["consolidated"], released["enforced"], released["released"]) == (0, 50, True)
    # far sooner than the sweep, which leaves a queued run alone for two minutes
    wait_until(lambda: state_of(memtend, again["run_id"]) == "done", what="the released run")
    assert live(memtend, agent) == 10


def held_runs(memtend: CommandLine, agent: str) -> list[dict[str, object]]:
    return list(memtend.ok("runs", "list", "--state", "held", "--agent", agent, "--json").value)


def state_of(memtend: CommandLine, run_id: str) -> str:
    return str(memtend.ok("runs", "show", run_id, "--json").value["state"])


def test_a_held_run_is_dismissed_and_says_by_whom(memtend: CommandLine) -> None:
    agent = new_agent()
    fill_over_the_limit(memtend, agent, memories=40)
    run_id = memtend("maintain", agent, "--json").value["run_id"]
    dismissed = memtend.ok("runs", "dismiss", run_id, "--by", "ada", "--json").value
    assert (dismissed["state"], dismissed["reason"]) == ("dismissed", "dismissed by person:ada")
    assert held_runs(memtend, agent) == []
    assert live(memtend, agent) == 40
    again = memtend("runs", "dismiss", run_id)
    assert (again.code, "the run is dismissed" in again.err) == (2, True)
    assert memtend("runs", "dismiss", "nothing").code == 1


def test_all_held_runs_are_released_once_a_person_says_yes(memtend: CommandLine) -> None:
    agents = [new_agent(), new_agent()]
    for agent in agents:
        fill_over_the_limit(memtend, agent, memories=40)
        assert memtend("maintain", agent).code == 3
    asked = memtend("runs", "release", "--all")
    assert (asked.code, "say --yes" in asked.err) == (2, True)
    assert all(agent in asked.out for agent in agents)
    assert all(len(held_runs(memtend, agent)) == 1 for agent in agents)
    rows = {each["agent_id"]: each for each in memtend.ok("runs", "release", "--all", "--yes", "--json").value}
    assert all((rows[agent]["enforced"], rows[agent]["released"]) == (30, True) for agent in agents)
    wait_until(lambda: [live(memtend, agent) for agent in agents] == [10, 10], what="the released runs")
    again = memtend.ok("runs", "release", "--all", "--yes", "--json").value
    assert not [each for each in again if each["agent_id"] in agents]
    for both in ((), ("some-run", "--all")):
        answer = memtend("runs", "release", *both)
        assert (answer.code, "name the run, or say --all" in answer.err) == (2, True)


@pytest.fixture
def proposing(memtend: CommandLine, stack: StackAddress) -> Iterator[None]:
    """Let the company's runs propose; workers read the file of its own policy again within seconds."""
    policy = stack.home / "policies" / "default.yaml"
    policy.parent.mkdir(exist_ok=True)
    policy.write_text("memory: {consolidation: {apply: propose, strategy: simple, group_max_entries: 2}}")
    wait_until(lambda: _proposes(memtend), what="workers that propose")
    yield
    policy.unlink()
    wait_until(lambda: not _proposes(memtend), what="workers that merge again")


def _proposes(memtend: CommandLine) -> bool:
    agent = new_agent()
    fill_with_old(memtend, agent, episodic=5)
    return memtend("maintain", agent).code == EXIT_HELD


@pytest.mark.usefixtures("proposing")
def test_a_proposal_is_shown_and_decided_group_by_group(memtend: CommandLine) -> None:
    agent = new_agent()
    memtend.ok("agents", "add", agent, "--interval", "never")
    old = {"agent_id": agent, "category": "episodic", "created_at": MERGED}
    lines = [{**old, "content": f"{agent} met \x1b[31mAda{'!' * n}\n+ a fake line\n{FILLER}"} for n in range(7)]
    memtend.ok("import", "-", stdin="\n".join(map(json.dumps, lines)).encode())
    assert "would propose 3 groups of 6 memories" in memtend.ok("maintain", agent, "--dry-run").out
    answer = memtend("maintain", agent, "--json")
    run_id = answer.value["run_id"]
    assert (answer.code, answer.value["step"]) == (3, "adoption")
    assert f"`memtend runs diff {run_id}`, then `memtend runs adopt {run_id}`" in answer.err
    assert (live(memtend, agent), memtend.ok("status", "--json").value["held"] >= 1) == (7, True)

    shown = memtend.ok("runs", "diff", run_id, "--json").value
    assert [(each["group"], each["state"], len(each["sources"])) for each in shown["groups"]] == [
        (place, "proposed", 2) for place in (1, 2, 3)
    ]
    assert all("Consolidated episodic memories" in each["summary"] for each in shown["groups"])
    plain = memtend.ok("runs", "diff", run_id).out
    assert "group 1, proposed: 2 episodic memories, simple" in plain
    assert "\x1b" not in plain
    assert "\n+ a fake line" not in plain

    refused = memtend("runs", "release", run_id)
    assert (refused.code, "use `memtend runs adopt`" in refused.err) == (2, True)
    released = memtend.ok("runs", "release", "--all", "--yes", "--json").value
    assert agent not in [each["agent_id"] for each in released]
    rows = memtend.ok("runs", "dismiss", run_id, "--group", "1", "--by", "ada", "--json").value
    assert [each["state"] for each in rows] == ["dismissed", "proposed", "proposed"]
    wait_until(lambda: state_of(memtend, run_id) == "held", what="the run to be held again")
    memtend.ok("runs", "adopt", run_id, "--group", "2", "--group", "3", "--by", "ada")
    wait_until(lambda: state_of(memtend, run_id) == "done", what="the adopted groups")
    assert live(memtend, agent) == 5
    groups = memtend.ok("runs", "diff", run_id, "--json").value["groups"]
    assert [(each["state"], each["decided_by"], each["summary"]) for each in groups] == [
        (state, "person:ada", None) for state in ("dismissed", "adopted", "adopted")
    ]
    assert "decided by person:ada" in memtend.ok("runs", "diff", run_id).out
    again = memtend("runs", "adopt", run_id, "--group", "2")
    assert (again.code, "the run is done" in again.err) == (2, True)
    memtend.ok("runs", "undo", run_id)
    assert live(memtend, agent) == 7
    assert memtend("runs", "diff", "nothing").code == 1


def test_a_state_that_no_run_has_is_refused_with_those_that_there_are(memtend: CommandLine) -> None:
    answer = memtend("runs", "list", "--state", "asleep")
    assert answer.code == 2
    assert all(f"'{state}'" in answer.err for state in WorkState)


def test_a_large_run_can_be_allowed_beforehand(memtend: CommandLine) -> None:
    agent = new_agent()
    fill_over_the_limit(memtend, agent, memories=60)
    assert memtend.ok("maintain", agent, "--allow-large", "--json").value["state"] == "done"
    assert live(memtend, agent) == 10


def test_a_paused_agent_rests_and_a_resumed_one_goes_on_at_once(memtend: CommandLine) -> None:
    agent = new_agent()
    fill(memtend, agent, old=2, new=8)
    memtend.ok("agents", "pause", agent)
    answer = memtend.ok("maintain", agent, "--json")
    assert "maintenance is paused" in answer.err
    run_id = answer.value["run_id"]
    wait_until(
        lambda: (
            memtend("runs", "show", run_id, "--json").code == 0
            and "paused" in (memtend.ok("runs", "show", run_id, "--json").value["reason"] or "")
        ),
        what="the run to be given back",
    )
    assert live(memtend, agent) == 10
    memtend.ok("agents", "resume", agent)
    wait_until(lambda: memtend.ok("runs", "show", run_id, "--json").value["state"] == "done", what="the resumed run")
    assert live(memtend, agent) == 8


def test_pausing_all_is_told_by_status_and_doctor_and_ends_with_resume(memtend: CommandLine) -> None:
    agent = new_agent()
    fill(memtend, agent, old=2, new=8)
    memtend.ok("pause")
    try:
        assert memtend.ok("status", "--json").value["paused"] is True
        assert "PAUSED" in memtend.ok("status").out
        doctor = memtend("doctor", "--json")
        assert doctor.code == 1
        switch = next(each for each in doctor.value if each["check"] == "kill switch")
        assert (switch["ok"], switch["mend"]) == (False, "`memtend resume`")
        run_id = memtend.ok("maintain", agent, "--json").value["run_id"]
        wait_until(lambda: memtend("runs", "show", run_id).code == 0, what="the run's row")
        assert live(memtend, agent) == 10
    finally:
        memtend.ok("resume")
    wait_until(lambda: memtend.ok("runs", "show", run_id, "--json").value["state"] == "done", what="the resumed run")
    assert live(memtend, agent) == 8


def test_without_waiting_the_run_is_named_at_once(memtend: CommandLine) -> None:
    agent = new_agent()
    fill(memtend, agent, old=1, new=9)
    run_id = memtend.ok("maintain", agent, "--no-wait", "--json").value["run_id"]
    wait_until(lambda: memtend("runs", "show", run_id).code == 0, what="the run's row")


def test_another_policy_is_tried_and_nothing_is_removed(memtend: CommandLine, tmp_path: Path) -> None:
    agent = new_agent()
    fill_with_old(memtend, agent, episodic=4)
    policy = tmp_path / "short.yaml"
    policy.write_text("memory: {consolidation: {strategy: none, retention: {default_retention_days: 90}}}")
    (found,) = memtend.ok("whatif", "--policy", str(policy), "--agent", agent, "--json").value
    assert found["live"] == 4
    assert (found["now"]["expired"], found["then"]["expired"], found["then"]["after"]) == (0, 4, 0)
    said = memtend.ok("whatif", "--policy", str(policy), "--agent", agent).out
    assert f"1 agents: after the next run {found['now']['after']} memories fewer would be there under it" in said
    assert "no question is recorded" in said
    policy.write_text("memory: {consolidation: {gate: {max_loss: 0.5}}}")
    said = memtend.ok("whatif", "--policy", str(policy), "--agent", agent).out
    assert "1 agents: after the next run as many memories would be there under it" in said
    assert live(memtend, agent) == 4
    sampled = memtend.ok("whatif", "--policy", str(policy), "--sample", "1", "--json").value
    assert len(sampled) == 1


def test_a_policy_that_is_wrong_or_an_agent_that_nobody_knows_is_said(memtend: CommandLine, tmp_path: Path) -> None:
    policy = tmp_path / "wrong.yaml"
    policy.write_text("memory: {consolidation: {max_memories_per_agent: -1}}")
    wrong = memtend("whatif", "--policy", str(policy), "--agent", "nobody")
    assert (wrong.code != 0, "max_memories_per_agent" in wrong.err) == (True, True), wrong
    policy.write_text("memory: {}")
    unknown = memtend("whatif", "--policy", str(policy), "--agent", "nobody")
    assert (unknown.code, "nobody" in unknown.err) == (1, True), unknown

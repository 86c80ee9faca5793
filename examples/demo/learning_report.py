"""What the demo prints of what the fleet learns: traces, lessons, the evolver's cycle, one approval, one search."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from examples.demo.fleet import ITS_QUESTION, NEWCOMER, SHARED_FAILURE, traces
from examples.demo.learning import Learning
from examples.demo.report import shortened, show_usage
from memcore.approvals import diff_of
from memcore.ledger.learning.lessons import Lesson
from memcore.models.approval import Approval
from memcore.models.memory import MemoryEntry
from memcore.procedural.records import read
from memcore.skills.report import EvolverReport
from ops.cli.console import say

#: Who approves in the demo, and who comes too late; both work at the invented company.
_APPROVER = "Odile"
_LATECOMER = "Rafael"

#: The task in which the newcomer does as the skill says.
_ITS_TASK = "archivist-wiki"

#: Skills shown for the search.
_RESULTS = 2


def show_learning(learning: Learning, now: datetime) -> dict[str, list[str]]:
    """Let the fleet learn, print it step by step, and return the ids of the memories that came of it, by agent."""
    learning.await_cycle_of_today()
    kept = learning.store_traces(traces(now))
    say(f"\nwhat the fleet learns: {sum(map(len, kept.values()))} tasks of {len(kept)} agents were told to the queue")
    lessons = learning.lessons(kept)
    _show_kept(learning, kept, lessons)
    report = learning.evolve()
    _show_cycle(report)
    before = learning.search(NEWCOMER, ITS_QUESTION, limit=_RESULTS)
    proposals = learning.proposals()
    if proposals:
        _show_proposal(learning, proposals, before, since=report.window_start)
    else:
        say("  no proposal waits for a person; the counts above say why")
    made = defaultdict(list, kept)
    for lesson in lessons:
        made[lesson.agent_id] += [lesson.memory_id] if lesson.memory_id else []
    return dict(made)


def _show_kept(learning: Learning, kept: Mapping[str, Sequence[str]], lessons: Sequence[Lesson]) -> None:
    demo = learning.demo
    memories = sum(len(set(ids) & set(demo.live(agent_id))) for agent_id, ids in kept.items())
    trajectories = demo.ledger.trajectories.count(demo.company)
    outcomes = Counter(lesson.outcome or "waiting" for lesson in lessons)
    stored_traces = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    say(
        f"  they left {memories} memories, {trajectories} trajectories and {len(lessons)} lessons: "
        f"{stored_traces or 'none'}"
    )
    show_usage(demo, "system:memory:propose:")


def _show_cycle(report: EvolverReport) -> None:
    say(
        f"\nthe evolver looked at {report.trajectories_analyzed} executions since {report.window_start:%Y-%m-%d} "
        f"and found {report.patterns_found} patterns:"
    )
    counts = report.model_dump(exclude={"window_start", "window_end", "trajectories_analyzed", "patterns_found"})
    for name, count in counts.items():
        if isinstance(count, int) and count:
            say(f"  {count} {name}")


def _show_proposal(
    learning: Learning, proposals: Sequence[Approval], before: Sequence[MemoryEntry], *, since: datetime
) -> None:
    first = proposals[0]
    say(f"\n{len(proposals)} skills wait for a person; the one that most agents have shown:")
    say(f"  {first.proposal.title}")
    say(f"  {' '.join(f'{name}={figure}' for name, figure in first.proposal.figures.items())}")
    for line in diff_of(first):
        say(f"  {shortened(line)}")
    skill_id = _decide(learning, first, _APPROVER)
    if skill_id is None:
        return
    _decide(learning, first, _LATECOMER)
    _show_search(learning, before, since=since)
    _show_application(learning, skill_id)


def _show_search(learning: Learning, before: Sequence[MemoryEntry], *, since: datetime) -> None:
    met = learning.failures(NEWCOMER, SHARED_FAILURE, since=since)
    say(f"\n{NEWCOMER}, who met {SHARED_FAILURE} {met} times, is asked: {ITS_QUESTION}")
    say(f"  before the approval: {len(before)} skills of others; after it:")
    for entry in learning.search(NEWCOMER, ITS_QUESTION, limit=_RESULTS):
        lesson = read(entry.content) or {"discovery": entry.content}
        say(f"  {entry.relevance_score or 0.0:.3f}  {entry.id}  {shortened(str(lesson['discovery']))}")
        for number, step in enumerate(lesson.get("execution_steps", ()), start=1):
            say(f"         {number}. {shortened(step)}")


def _show_application(learning: Learning, skill_id: str) -> None:
    counted = learning.apply(NEWCOMER, skill_id, task_id=_ITS_TASK)
    stored_traces = f"applications: {counted.applications}, successes: {counted.successes}"
    say(f"  {NEWCOMER} did as it says, and it helped; {stored_traces}")
    listed = learning.type("skills", "list")
    say(f"\n$ {listed.line}")
    for line in (listed.printed or listed.reported).splitlines():
        say(f"  {line.rstrip()}")


def _decide(learning: Learning, approval: Approval, by: str) -> str | None:
    """Type the approval, print what came of it, and return the skill's id; None when it was refused."""
    typed = learning.type("approvals", "approve", approval.approval_id, "--by", by)
    say(f"\n$ {typed.line}")
    if typed.code:
        say(f"  refused, exit code {typed.code}: {typed.reported}")
        return None
    facts = dict(line.split(maxsplit=1) for line in typed.printed.splitlines())
    skill_id = facts["effect"]
    say(f"  {facts['state']} by {facts['decided_by']}: every agent finds it as {skill_id}")
    return skill_id

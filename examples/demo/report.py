"""What the demo prints: the run, the searches, where a summary comes from, a lesson, the undo, the accounts."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from examples.demo.balance import Balance
from examples.demo.fleet import FleetQuestion
from examples.demo.fleet_night import FleetDemo
from memcore.ledger.consolidation_groups import GroupState
from memcore.ledger.llm_usage import UsageBy
from memcore.ledger.runs import Run
from memcore.models.memory_test import Outcome, listed_names
from ops.cli.console import say, show_rows

#: Results shown for each example search.
_RESULTS = 3

#: Characters of a memory's text in a line.
_SHOWN_CHARS = 110


def show_run(runs: Mapping[str, Run], balances: Mapping[str, Balance]) -> None:
    """Print a row for each agent; a run that the removal guard holds says why below the table."""
    show_rows(
        (
            {
                "agent": agent_id,
                "stored": balances[agent_id].stored.total(),
                "created": balances[agent_id].tally.created.total(),
                "expired": run.counts.get("expired", 0) + run.counts.get("retention", 0),
                "consolidated": run.counts.get("consolidated", 0),
                "enforced": run.counts.get("enforced", 0),
                "live": balances[agent_id].live.total(),
                "run": str(run.state),
            }
            for agent_id, run in runs.items()
        ),
        columns=("agent", "stored", "created", "expired", "consolidated", "enforced", "live", "run"),
        as_json=False,
    )
    for agent_id, run in runs.items():
        if run.reason:
            say(f"{agent_id}: {run.state}: {run.reason}")


def show_refused(demo: FleetDemo, runs: Mapping[str, Run]) -> None:
    """Print a group that the gate refused, with its figures."""
    groups = demo.ledger.consolidation_groups
    refused = [
        each for run in runs.values() for each in groups.of_run(demo.company, run.run_id, state=GroupState.REFUSED)
    ]
    say(f"\nthe gate refused {len(refused)} groups, because prompts would have answered less")
    for group in refused[:1]:
        of = f"{len(group.source_ids)} memories of {group.agent_id}"
        say(f"  one is of {of}: of {group.found_before} answers their summary would have left {group.found_after}")


def show_tests(demo: FleetDemo, runs: Mapping[str, Run], *, registered: int) -> None:
    """Print for which memory tests the gate left memories as they are, and what came of all after the runs."""
    groups = demo.ledger.consolidation_groups
    kept = [
        name
        for run in runs.values()
        for each in groups.of_run(demo.company, run.run_id, state=GroupState.REFUSED)
        for name in each.tests or ()
    ]
    broken = f"{len(kept)}: {listed_names(kept)}; so their memories stayed" if kept else "none"
    say(f"\n{registered} memory tests were registered; summaries would have broken {broken}")
    asked = demo.tests_after(runs.values())
    failed = [each.name for each in asked if each.outcome is not Outcome.PASSED]
    said = f", {len(failed)} failed: {listed_names(failed)}" if failed else ""
    say(f"  asked after the runs, {len(asked) - len(failed)} passed{said}")


def show_searches(demo: FleetDemo, questions: Iterable[FleetQuestion]) -> None:
    """Print the best matches of each question, with their scores."""
    for question in questions:
        say(f"\n{question.agent_id} is asked: {question.text}")
        for entry in demo.search(question, limit=_RESULTS):
            say(f"  {entry.relevance_score or 0.0:.3f}  {entry.created_at:%Y-%m-%d}  {shortened(entry.content)}")


def show_undo(demo: FleetDemo, run: Run, stored: Iterable[str]) -> None:
    """Take a run back and print what returned and what went."""
    before = demo.balance(run.agent_id, stored).live.total()
    undone = demo.undo(run)
    after = demo.balance(run.agent_id, stored).live.total()
    say(f"\nundo of {run.agent_id}'s maintenance run {run.run_id}:")
    say(
        f"  {undone.counts.get('restored', 0)} memories came back, {undone.counts.get('removed', 0)} summaries went, "
        f"{undone.counts.get('skipped', 0)} were skipped: {before} live before, {after} after"
    )


def show_why(demo: FleetDemo, run: Run) -> str:
    """Print where one of a run's summaries comes from, where the full text of its originals is now; return its id."""
    entries = demo.ledger.journal.journal_entries(run.run_id)
    summary = next((record for journal_entry in entries for record in journal_entry.incoming), None)
    if summary is None:
        return ""
    memory_history = demo.why(summary.entry.id)
    say(f"\nwhy does {run.agent_id} have {summary.entry.id}? It was made of:")
    for original in map(memory_history.find, memory_history.memory.made_of[:_RESULTS]):
        if original is not None:
            say(f"  {original.memory_id}  full text in: {original.text_in}")
    more = len(memory_history.memory.made_of) - _RESULTS
    if more > 0:
        say(f"  and {more} more")
    return summary.entry.id


def show_lesson(demo: FleetDemo, agent_id: str, *, model: str) -> list[str]:
    """Print what an agent learned from what it went through and what asking for it took; return the memory's id.

    Args:
        demo: the running stack.
        agent_id: who.
        model: who compressed it, for people.
    """
    lesson = demo.lesson(agent_id)
    say(f"\nwhat {agent_id} went through was compressed by a language model ({model}):")
    if lesson is None:
        say("  no lesson came of it; the experience stays as it was")
        return []
    say(f"  {shortened(' / '.join(json.loads(lesson.content)['strategic_decisions']))}")
    show_usage(demo, "system:memory:compress:")
    return [lesson.id]


def show_usage(demo: FleetDemo, purpose: str) -> None:
    """Print what questions took whose purpose begins with these words, as the account has it."""
    today = datetime.now(UTC).date()
    asked = demo.ledger.usage.report(demo.company, UsageBy.PURPOSE, since=today - timedelta(days=1), until=today)
    for row in asked:
        if row.key and row.key.startswith(purpose):
            reported = f"{row.prompt_tokens} tokens read, {row.completion_tokens} written"
            say(f"  {row.key}: {row.calls} asked, {reported}")


def show_balances(balances: Mapping[str, Balance]) -> bool:
    """Print each account; return whether all are exact."""
    for agent_id, account in balances.items():
        say(f"  {agent_id:<10} {account.equation()}")
    return all(account.is_exact for account in balances.values())


def shortened(text: str) -> str:
    """Return as much of a text as stands in a line."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 3] + "..."

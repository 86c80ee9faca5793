"""``memtend runs``: list maintenance runs, undo one; release or dismiss held ones, adopt what they propose."""

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memcore.client.client import MemoryClient
from memcore.errors import MemoryInputError
from memcore.ledger.consolidation_groups import ConsolidationGroup
from memcore.ledger.runs import Run, RunStep
from memcore.ledger.work_items import WorkState
from memcore.maintenance.consolidation.proposals import ShownGroup
from memcore.models.memory_test import listed_names
from memcore.service.runs import GroupInfo, Release, found_run, planned_removals
from ops.cli.console import cell, say, show_json, warn
from ops.cli.session import Command, Commands, JsonCommand, await_run

if TYPE_CHECKING:
    from memcore.ledger.ledger import Ledger
    from memcore.maintenance.plan import HeldPlan

app = Commands("runs", "Runs: list, show, undo, release, diff, adopt, dismiss.")

#: Groups of a plan that are printed with their texts.
_GROUPS_SHOWN = 20

RunArgument = Annotated[str, typer.Argument(help="The run's id.")]
Groups = Annotated[list[int] | None, typer.Option("--group", help="A group's number; several times, or all.")]
By = Annotated[str | None, typer.Option("--by", help="Your name; it is kept in the audit.")]


@app.command("list")
def list_runs(
    command: JsonCommand,
    agent: Annotated[str | None, typer.Option(help="Only this agent's.")] = None,
    state: Annotated[WorkState | None, typer.Option(help="Only those of this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Most rows, newest first.")] = 20,
) -> None:
    """Show runs, newest first."""
    found = command.run(lambda service: service.runs.list(agent_id=agent, state=state, limit=limit))
    columns = ("run_id", "agent_id", "kind", "origin", "state", "planned_at", "finished_at", "counts")
    command.show_rows(found, *columns)


@app.command("show")
def show(command: JsonCommand, run_id: RunArgument) -> None:
    """Show one run: its state, its counts, and the ids that it moved; of a held one its plan."""
    with command.service() as (service, runner):
        detail = runner.run(service.runs.detail(run_id))
        held = runner.run(service.runs.plan_to_release(detail.run))
        merges = () if held is None else held.merges[:_GROUPS_SHOWN]
        wanted = [each for merge in merges for each in (*merge.members, merge.kept) if each is not None]
        wanted += () if held is None else held.evicted
        texts = runner.run(service.memories.texts(detail.run.agent_id, wanted)) if wanted else {}
    facts = {**dict(detail.run), "undoable": detail.undoable, "archived": detail.archived}
    journal_entries: list[dict[str, Any]] = [dict(each) for each in detail.entries]
    made = detail.summaries
    if command.as_json:
        show_json({**facts, "bookings": journal_entries, "summaries": made, "plan": held})
        return
    command.show_facts(facts)
    say("")
    rows = ({**each, "removed": len(each["removed"]), "added": len(each["added"])} for each in journal_entries)
    command.show_rows(rows, "seq", "reason", "state", "removed", "added")
    for summary_id, originals in made.items():
        say("")
        say(f"summary {summary_id} of {len(originals)} memories; `memtend why` tells what became of each")
        for memory_id in originals:
            say(f"  {memory_id}")
    if held is not None:
        _show_held(run_id, held, texts)


def _show_held(run_id: str, held: "HeldPlan", texts: Mapping[str, str]) -> None:
    plan = held.plan
    say(f"\nplan: {plan.live} memories would become {plan.after}{'; no word is lost' if plan.is_lossless else ''}")
    for number, merge in enumerate(held.merges[:_GROUPS_SHOWN], start=1):
        say(f"\ngroup {number}: {len(merge.members)} memories become one, {cell(merge.rule)}")
        for memory_id in merge.members:
            _show_text("-", memory_id, texts.get(memory_id))
        if merge.kept is not None:
            _show_text("=", merge.kept, texts.get(merge.kept))
    if (more := len(held.merges) - _GROUPS_SHOWN) > 0:
        say(f"\nand {more} more groups; --json has them all")
    for step in (each for each in plan.steps if each.removed and each.step is not RunStep.CONSOLIDATION):
        say(f"\n{step.step}: {step.removed} memories go, among them {cell(step.examples)}")
    for memory_id in held.evicted:
        _show_text("-", memory_id, texts.get(memory_id))
    say(f"\nto let it: memtend runs release {cell(run_id)} --plan {held.version}")


@app.command("undo")
def undo(
    command: JsonCommand,
    run_id: RunArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what the undo would do.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the undo has ended.")] = True,
) -> None:
    """Undo a run: restore what it removed, and remove what it created. An undo can be undone."""
    if dry_run:
        _show_undo_plan(command, run_id)
        return
    with command.service() as (service, runner):
        undo_id = runner.run(service.runs.undo(run_id)).job_id
        show_ended(command, service.client.blocking, undo_id, wait=wait)


@app.command("release")
def release(
    command: JsonCommand,
    run_id: Annotated[str | None, typer.Argument(help="The run's id.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that the removal guard holds.")] = False,
    plan: Annotated[str | None, typer.Option(help="Only this version of its plan, which `runs show` prints.")] = None,
    by: By = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --all: do not ask.")] = False,
) -> None:
    """Approve what a held run's plan showed, or all of them; a run whose plan has grown since is held again."""
    if (run_id is not None) == every:
        raise MemoryInputError("run_id", "name the run, or say --all")
    if every and plan is not None:
        raise MemoryInputError("plan", "is that of one run; name the run")
    with command.service() as (service, runner):
        rows: Sequence[Release]
        if run_id is not None:
            rows = [runner.run(service.runs.release(run_id, plan=plan, by=by))]
        else:
            held = runner.run(service.runs.held())
            if not yes and held:
                _ask(command, held)
            rows = runner.run(service.runs.release_all(held, by=by))
    command.show_rows(rows, "run_id", "agent_id", "consolidated", "enforced", "released", "reason")


@app.command("diff")
def diff(command: JsonCommand, run_id: RunArgument) -> None:
    """Show the groups that a run proposes or the gate refused: memories, proposed summary, the gate's figures."""
    with command.service() as (service, runner):
        run = runner.run(service.runs.get(run_id))
        groups = runner.run(service.runs.groups(run_id))
    if command.as_json:
        named = {name: getattr(run, name) for name in ("run_id", "agent_id", "state", "reason")}
        show_json({**named, "groups": [group.model_dump(mode="json") for group in groups]})
        return
    say(f"run {cell(run.run_id)} of {cell(run.agent_id)} is {run.state}: {cell(run.reason or 'no group waits')}")
    for group in groups:
        show_group(group)


def show_group(group: ShownGroup) -> None:
    """Print a group with its texts; each line of a text has the sign of its memory."""
    say(f"\ngroup {group.group}, {group.state}: {len(group.sources)} {group.category} memories, {cell(group.strategy)}")
    if group.probes is not None:
        figures = f"{group.found_before} before and {group.found_after} after"
        say(f"gate: of {group.probes} questions the agent answers {figures}")
    if group.tests:
        say(f"gate: it would break the memory tests {cell(listed_names(group.tests))}")
    if group.has_changed:
        say("it can no longer be adopted: a memory of it has changed, or is gone")
    if group.decided_by or group.reason:
        say(f"decided by {cell(group.decided_by)}: {cell(group.reason)}")
    for memory in group.sources:
        _show_text("-", memory.id, memory.content, memory.created_at)
    if group.kept:
        _show_text("=", group.kept.id, group.kept.content, group.kept.created_at)
    if group.summary is not None:
        _show_text("+", group.summary_id, group.summary)


def _show_text(sign: str, memory_id: str | None, text: str | None, at: datetime | None = None) -> None:
    say(f"{sign} {cell(memory_id)} {cell(at) if at else ''}".rstrip())
    # Each line has its sign: a memory must not look like a line of this command.
    for line in (text or "").splitlines():
        say(f"{sign}   {cell(line)}")


@app.command("adopt")
def adopt(command: JsonCommand, run_id: RunArgument, group: Groups = None, by: By = None) -> None:
    """Adopt groups that a held run proposes: a worker replaces their memories, if they are still as shown."""
    places = tuple(group) if group else None
    _show_decided(command, command.run(lambda service: service.runs.adopt(run_id, groups=places, by=by)))


@app.command("dismiss")
def dismiss(command: JsonCommand, run_id: RunArgument, group: Groups = None, by: By = None) -> None:
    """Decide against a held run, or groups of it: it removes nothing more. The agent's next run looks again.

    The same memories are not proposed again while a dismissed group is kept, for consolidation.journal_days.
    """
    with command.service() as (service, runner):
        if group:
            _show_decided(command, runner.run(service.runs.dismiss_groups(run_id, groups=tuple(group), by=by)))
            return
        run = runner.run(service.runs.dismiss(run_id, by=by))
    command.show_facts({"run_id": run.run_id, "agent_id": run.agent_id, "state": str(run.state), "reason": run.reason})


def _show_decided(command: JsonCommand, groups: Sequence[ConsolidationGroup]) -> None:
    command.show_rows(map(GroupInfo.of, groups), "group", "state", "memories")


def _ask(command: JsonCommand, held: Sequence[Run]) -> None:
    if not command.as_json:
        command.show_rows(map(planned_removals, held), "run_id", "agent_id", "consolidated", "enforced")
    if command.as_json or not sys.stdin.isatty():
        raise MemoryInputError("yes", f"would release {len(held)} runs; say --yes")
    typer.confirm(f"Release {len(held)} runs?", abort=True, err=True)


def _show_undo_plan(command: JsonCommand, run_id: str) -> None:
    plan = command.run(lambda service: service.runs.plan_undo(run_id))
    if command.as_json:
        show_json(plan.model_dump(mode="json"))
        return
    counts = f"{len(plan.restored)} memories would return, {len(plan.removed)} would go"
    say(f"{counts}, {len(plan.skipped)} would be left as they are")
    rows = [{"memory_id": each, "undo": "returns", "reason": None} for each in plan.restored]
    rows += [{"memory_id": each, "undo": "goes", "reason": None} for each in plan.removed]
    rows += [{"memory_id": each, "undo": "holds again", "reason": None} for each in plan.reinstated]
    rows += [{"memory_id": each, "undo": "is superseded", "reason": None} for each in plan.superseded]
    rows += [{"memory_id": each.memory_id, "undo": "skipped", "reason": str(each.reason)} for each in plan.skipped]
    if rows:
        command.show_rows(rows, "memory_id", "undo", "reason")


def is_paused(command: Command, agent_id: str) -> bool:
    """Return whether an agent's runs wait for somebody to resume maintenance, after saying so."""
    with command.service() as (service, runner):
        if not runner.run(service.agents.is_paused(agent_id)):
            return False
    warn("maintenance is paused: the run waits until it is resumed")
    return True


class _ModelWait:
    """Says once for each change that a run waits for a language model."""

    def __init__(self, ledger: "Ledger", company: str, run_id: str) -> None:
        self._ledger, self._company, self._run_id = ledger, company, run_id
        self._said, self._since = "", datetime.now(UTC)

    def look(self) -> None:
        """Say what is new."""
        parts = self._ledger.syntheses.of_run(self._company, self._run_id)
        if not parts:
            self._since = datetime.now(UTC)
        if waiting := [part for part in parts if part.is_open]:
            since = min(part.away_since or self._since for part in waiting)
            reason = next((f": {part.reason}" for part in waiting if part.reason), "")
            sentence = f"{len(waiting)} of {len(parts)} questions wait for the language model since "
            sentence += f"{since:%Y-%m-%d %H:%M:%S} UTC{reason}"
            if sentence != self._said:
                self._said = sentence
                warn(sentence)


def show_ended(command: JsonCommand, client: MemoryClient, run_id: str, *, wait: bool) -> Run | None:
    """Wait until a run has ended, show it, and return it; without waiting only its id is shown.

    While it waits for a language model, standard error says so, and since when.
    """
    if not wait:
        command.show_facts({"run_id": run_id})
        return None
    with command.ledger() as ledger:
        await_run(client, run_id, look=_ModelWait(ledger, command.company, run_id).look)
        run = found_run(ledger.runs.get(command.company, run_id))
    command.show_facts(dict(run))
    return run

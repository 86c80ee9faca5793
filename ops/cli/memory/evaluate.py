"""``memtend eval``: whether a memory works for your own questions, and whether another policy works better."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.progress import Progress, TaskID

from memcore.backends.factory import create_worker_backend
from memcore.client.client import MemoryClient
from memcore.config.loader import effective_policy
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.evaluation.asking import (
    HEADLINES,
    MEASURES,
    AskedAt,
    Asking,
    Difference,
    Judged,
    Kept,
    Measured,
    as_stored,
    differences,
    in_words,
    store,
    summary,
)
from memcore.evaluation.dataset import Dataset, Format, read_dataset
from memcore.evaluation.maintained import DailyMaintenance, MaintenanceDone, read_days
from memcore.models.base import Frozen
from ops.cli.console import AsJson, say, show_json, show_rows
from ops.cli.session import Commands, await_stored

app = Commands()

#: Tokens of a prompt where none are named.
_BUDGET = 1_000

#: Keys of a policy that say where an installation's data is: an evaluation has its own.
_PLACES = ("vector_store", "history_store")


class AfterDays(Frozen):
    """What one policy made of the questions after days of maintenance, beside before and beside the first policy."""

    days: int
    done: MaintenanceDone
    measures: tuple[Measured, ...]
    beside_before: tuple[Difference, ...]
    beside_first: tuple[Difference, ...] = ()


class PolicyResult(Frozen):
    """What one policy made of the questions, and how far it is from the first one; then after days of maintenance."""

    policy: str
    measures: tuple[Measured, ...]
    beside_first: tuple[Difference, ...] = ()
    after: tuple[AfterDays, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The answers to all questions after some days; before the first, nothing is done."""

    days: int
    judged: list[Judged]
    done: MaintenanceDone = field(default_factory=MaintenanceDone)


@dataclass(frozen=True)
class _EvalCommand:
    """It needs no installation, and touches none."""

    as_json: AsJson = False


@app.command("eval")
def evaluate(
    command: _EvalCommand,
    file: Annotated[Path, typer.Argument(help="Memories and questions; docs/how-to/evaluate.md has the formats.")],
    form: Annotated[
        Format | None, typer.Option("--format", help="What the file is; else its name says jsonl or csv.")
    ] = None,
    policies: Annotated[
        list[Path] | None,
        typer.Option("--policy", help="A policy to evaluate, several times to compare; else the starter policy."),
    ] = None,
    budget: Annotated[int, typer.Option(min=1, max=1_000_000, help="Tokens of a prompt.")] = _BUDGET,
    after: Annotated[
        str | None,
        typer.Option("--nights", help="Simulate so many days of maintenance and ask again after each, such as 1,7,30."),
    ] = None,
    kinds: Annotated[bool, typer.Option("--kinds", help="Give each kind of question apart, too.")] = False,
) -> None:
    """Store memories in a throw-away stack, ask questions whose answers you know, and say how it went."""
    days = () if after is None else read_days(after)
    dataset = read_dataset(file, form)
    named: list[tuple[str, Policy | None]] = [(str(path), effective_policy(path)) for path in policies or ()]
    named = named or [("starter", None)]
    asked = [_asked(dataset, name, policy, days, budget=budget, is_silent=command.as_json) for name, policy in named]
    results = [_result(name, each, asked[0]) for (name, _), each in zip(named, asked, strict=True)]
    if command.as_json:
        show_json(results)
        return
    for result in results:
        _show(result, has_kinds=kinds)


def _result(name: str, asked: Sequence[_Asked], first: Sequence[_Asked]) -> PolicyResult:
    before, *later = asked
    return PolicyResult(
        policy=name,
        measures=tuple(summary(before.judged)),
        beside_first=_beside(before, first[0]),
        after=tuple(
            AfterDays(
                days=each.days,
                done=each.done,
                measures=tuple(summary(each.judged)),
                # How long a search takes depends on what was searched before it.
                beside_before=tuple(apart for apart in _beside(each, before) if apart.measure != "milliseconds"),
                beside_first=_beside(each, other),
            )
            for each, other in zip(later, first[1:], strict=True)
        ),
    )


def _beside(asked: _Asked, other: _Asked) -> tuple[Difference, ...]:
    return () if asked is other else tuple(differences(other.judged, asked.judged))


def _asked(
    dataset: Dataset, name: str, policy: Policy | None, days: Sequence[int], *, budget: int, is_silent: bool
) -> list[_Asked]:
    # The supervisor and Celery take a second to import, and a file may be wrong.
    from workers.stack.running import throwaway_stack  # noqa: PLC0415  # see above

    text = None if policy is None else yaml.safe_dump(_without_places(policy))
    with throwaway_stack(text) as stack, Progress(disable=is_silent or not sys.stderr.isatty()) as progress:
        bar = progress.add_task(f"{name}: storing", total=len(dataset.questions) * (len(days) + 1))
        with MemoryClient.from_settings(stack.settings) as client:
            ids = store(dataset, client, lambda receipt: await_stored(client, receipt))
        return asyncio.run(_asked_after(dataset, stack.settings, ids, days, _Shown(progress, bar, name), budget=budget))


@dataclass(frozen=True)
class _Shown:
    """How far an evaluation is, for a person."""

    progress: Progress
    bar: TaskID
    name: str

    def begin(self, what: str) -> None:
        self.progress.update(self.bar, description=f"{self.name}: {what}")

    def advance(self) -> None:
        self.progress.update(self.bar, advance=1)


async def _asked_after(
    dataset: Dataset,
    settings: Settings,
    ids: Mapping[str, Mapping[str, str]],
    days: Sequence[int],
    shown: _Shown,
    *,
    budget: int,
) -> list[_Asked]:
    policy, clock = effective_policy(settings.policy_path), AskedAt(dataset)
    backend = create_worker_backend(settings, policy, clock=clock)
    async with AsyncExitStack() as opened:
        await backend.connect()
        opened.push_async_callback(backend.disconnect)

        async def ask(kept: Mapping[str, Mapping[str, Kept]]) -> list[Judged]:
            asking, judged = Asking(backend, policy, clock, budget=budget, kept=kept), list[Judged]()
            # The first search of a process loads what it needs, which is no question's time.
            await asking.ask(dataset.questions[0])
            for question in dataset.questions:
                clock.set(question)
                judged.append(await asking.ask(question))
                shown.advance()
            return judged

        shown.begin("asking")
        found = [_Asked(days=0, judged=await ask(as_stored(ids)))]
        if not days:
            return found
        maintenance = await DailyMaintenance.opened(opened, settings, policy, backend, clock)
        for day in range(1, max(days) + 1):
            shown.begin(f"day {day}")
            await maintenance.run_day(day)
            if day in days:
                judged = await ask(maintenance.kept(ids))
                found.append(_Asked(days=day, judged=judged, done=await maintenance.done()))
        return found


def _without_places(policy: Policy) -> dict[str, Any]:
    written: dict[str, Any] = policy.model_dump(mode="json", exclude_unset=True)
    storage = written.get("memory", {}).get("storage", {})
    for name in _PLACES:
        storage.pop(name, None)
    return written


def _show(result: PolicyResult, *, has_kinds: bool) -> None:
    say(f"policy: {result.policy}")
    _show_measures(result.measures, has_kinds=has_kinds)
    if result.beside_first:
        say("beside the first policy, the same questions paired:")
        _show_differences(result.beside_first)
    for each in result.after:
        say(f"{result.policy} {_later(each.days)}: {done_in_words(each.done)}")
        _show_measures(each.measures, has_kinds=has_kinds)
        say("beside before, the same questions paired:")
        _show_differences(each.beside_before)
        if each.beside_first:
            say(f"beside the first policy, {_later(each.days)}:")
            _show_differences(each.beside_first)
    for each in result.after:
        for difference in each.beside_before:
            if difference.measure in HEADLINES:
                say(f"{_later(each.days)}: {in_words(difference)}")


def _show_measures(measures: Sequence[Measured], *, has_kinds: bool) -> None:
    rows = [
        {
            "kind": each.kind or "all",
            "measure": each.measure,
            "mean": each.mean,
            "95 % interval": _within(each.low, each.high),
            "questions": each.questions,
            "what": MEASURES[each.measure][0],
        }
        for each in measures
        if has_kinds or each.kind is None
    ]
    columns = ("measure", "mean", "95 % interval", "questions", "what")
    show_rows(rows, columns=("kind", *columns) if has_kinds else columns, as_json=False)


def _show_differences(differences: Sequence[Difference]) -> None:
    rows = [
        {
            "measure": each.measure,
            "difference": each.mean,
            "95 % interval": _within(each.low, each.high),
            "verdict": each.verdict,
        }
        for each in differences
    ]
    show_rows(rows, columns=("measure", "difference", "95 % interval", "verdict"), as_json=False)


def _within(low: float, high: float) -> str:
    return f"{low:.3f} to {high:.3f}"


def _later(days: int) -> str:
    return f"after {days} day{'s' * (days != 1)}"


def done_in_words(done: MaintenanceDone) -> str:
    """Return in a sentence what maintenance has done."""
    said = (
        f"{done.merged} memories were merged into {done.summaries}, {done.removed} were removed, {done.archived} are "
        f"in the archive, {done.live} are live"
    )
    said += f"; groups that the gate refused: {done.refused}" if done.refused else ""
    said += f"; runs that wait for a person: {done.held}" if done.held else ""
    said += f"; failed runs: {done.failed}" if done.failed else ""
    return said + (f" ({done.reason})" if done.reason else "")

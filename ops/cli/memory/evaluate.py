"""``memtend eval``: whether a memory works for your own questions, and whether another policy works better."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from memcore.backends.factory import create_worker_backend
from memcore.client.client import MemoryClient
from memcore.config.loader import effective_policy
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.embedding.factory import create_embedder
from memcore.embedding.selection import SERVERS
from memcore.evaluation.asking import (
    MEASURES,
    AskedAt,
    Asking,
    Difference,
    Judged,
    Kept,
    Measured,
    as_stored,
    store,
)
from memcore.evaluation.dataset import Dataset, Format, read_dataset
from memcore.evaluation.maintained import DailyMaintenance, read_days
from memcore.evaluation.results import Asked, PolicyResult, done_in_words, later
from ops.cli.console import AsJson, say, show_json, show_rows
from ops.cli.memory.evaluation_report import check_report, write_report
from ops.cli.progress import Bar, progress_bar
from ops.cli.session import Commands, await_stored

app = Commands()

#: Tokens of a prompt where none are named.
_BUDGET = 1_000

#: Keys of a policy that say where an installation's data is: an evaluation has its own.
_PLACES = ("vector_store", "history_store")


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
    embedders: Annotated[
        list[str] | None,
        typer.Option("--embedder", help="An embedder for each policy, several times to compare, such as minilm."),
    ] = None,
    budget: Annotated[int, typer.Option(min=1, max=1_000_000, help="Tokens of a prompt.")] = _BUDGET,
    after: Annotated[
        str | None,
        typer.Option("--nights", help="Simulate so many days of maintenance and ask again after each, such as 1,7,30."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page of it, an HTML file that needs nothing else.")
    ] = None,
    kinds: Annotated[bool, typer.Option("--kinds", help="Give each kind of question apart, too.")] = False,
) -> None:
    """Store memories in a throw-away stack, ask questions whose answers you know, and say how it went."""
    days = () if after is None else read_days(after)
    check_report(report)
    dataset = read_dataset(file, form)
    named = [*policies_with(policies or (), embedders or ())]
    asked = [_asked(dataset, name, policy, days, budget=budget, is_silent=command.as_json) for name, policy in named]
    results = [PolicyResult.of(name, each, asked[0]) for (name, _), each in zip(named, asked, strict=True)]
    if report is not None:
        write_report(report, dataset, results, asked, budget=budget)
    if command.as_json:
        show_json(results)
        return
    for result in results:
        _show(result, has_kinds=kinds)
    for result in results:
        for verdict in result.verdicts():
            say(verdict)


def policies_with(paths: Sequence[Path], embedders: Sequence[str]) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    """Yield name and content of each policy to evaluate, with each embedder; None is the starter policy."""
    named: list[tuple[str, Mapping[str, Any] | None]] = [
        (str(path), _without_places(effective_policy(path))) for path in paths
    ]
    for name, written in named or [("starter", None)]:
        if not embedders:
            yield name, written
        for embedder in embedders:
            if embedder not in SERVERS:
                # Loaded, to say at once which is unknown or not installed.
                create_embedder(embedder)
            memory = {"level": "persistent"} if written is None else written.get("memory", {})
            chosen = {"memory": {**memory, "embedder": {"provider": embedder}}}
            yield f"{name} with {embedder}", {**(written or {}), **chosen}


def _asked(
    dataset: Dataset, name: str, policy: Mapping[str, Any] | None, days: Sequence[int], *, budget: int, is_silent: bool
) -> list[Asked]:
    # The supervisor and Celery take a second to import, and a file may be wrong.
    from workers.stack.running import throwaway_stack  # noqa: PLC0415  # see above

    text = None if policy is None else yaml.safe_dump(dict(policy))
    total = len(dataset.questions) * (len(days) + 1)
    with throwaway_stack(text) as stack, progress_bar(f"{name}: storing", total=total, is_silent=is_silent) as bar:
        with MemoryClient.from_settings(stack.settings) as client:
            ids = store(dataset, client, lambda receipt: await_stored(client, receipt))
        return asyncio.run(_asked_after(dataset, stack.settings, ids, days, name, bar, budget=budget))


async def _asked_after(
    dataset: Dataset,
    settings: Settings,
    ids: Mapping[str, Mapping[str, str]],
    days: Sequence[int],
    name: str,
    bar: Bar,
    *,
    budget: int,
) -> list[Asked]:
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
                bar.advance()
            return judged

        bar.show(what=f"{name}: asking")
        found = [Asked(days=0, judged=await ask(as_stored(ids)))]
        if not days:
            return found
        maintenance = await DailyMaintenance.opened(opened, settings, policy, backend, clock)
        for day in range(1, max(days) + 1):
            bar.show(what=f"{name}: day {day}")
            await maintenance.run_day(day)
            if day in days:
                judged = await ask(maintenance.kept(ids))
                found.append(Asked(days=day, judged=judged, done=await maintenance.done()))
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
        say(f"{result.policy} {later(each.days)}: {done_in_words(each.done)}")
        _show_measures(each.measures, has_kinds=has_kinds)
        say("beside before, the same questions paired:")
        _show_differences(each.beside_before)
        if each.beside_first:
            say(f"beside the first policy, {later(each.days)}:")
            _show_differences(each.beside_first)


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

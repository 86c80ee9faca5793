"""``memtend eval``: whether a memory works for your own questions, and whether another policy works better."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.progress import Progress

from memcore.backends.factory import create_worker_backend
from memcore.client.client import MemoryClient
from memcore.config.loader import effective_policy
from memcore.config.policy import Policy
from memcore.evaluation.asking import (
    MEASURES,
    AskedAt,
    Asking,
    Difference,
    Judged,
    Measured,
    differences,
    store,
    summary,
)
from memcore.evaluation.dataset import Dataset, Format, read_dataset
from memcore.models.base import Frozen
from ops.cli.console import AsJson, say, show_json, show_rows
from ops.cli.session import Commands, await_stored

app = Commands()

#: Tokens of a prompt where none are named.
_BUDGET = 1_000

#: Keys of a policy that say where an installation's data is: an evaluation has its own.
_PLACES = ("vector_store", "history_store")


class PolicyResult(Frozen):
    """What one policy made of the questions, and how far it is from the first one."""

    policy: str
    measures: tuple[Measured, ...]
    beside_first: tuple[Difference, ...] = ()


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
    kinds: Annotated[bool, typer.Option("--kinds", help="Give each kind of question apart, too.")] = False,
) -> None:
    """Store memories in a throw-away stack, ask questions whose answers you know, and say how it went."""
    dataset = read_dataset(file, form)
    named: list[tuple[str, Policy | None]] = [(str(path), effective_policy(path)) for path in policies or ()]
    named = named or [("starter", None)]
    answers = [_answers(dataset, name, policy, budget=budget, is_silent=command.as_json) for name, policy in named]
    results = [
        PolicyResult(
            policy=name,
            measures=tuple(summary(judged)),
            beside_first=tuple(differences(answers[0], judged)) if place else (),
        )
        for place, ((name, _), judged) in enumerate(zip(named, answers, strict=True))
    ]
    if command.as_json:
        show_json(results)
        return
    for result in results:
        _show(result, has_kinds=kinds)


def _answers(dataset: Dataset, name: str, policy: Policy | None, *, budget: int, is_silent: bool) -> list[Judged]:
    # The supervisor and Celery take a second to import, and a file may be wrong.
    from workers.stack.running import throwaway_stack  # noqa: PLC0415  # see above

    text = None if policy is None else yaml.safe_dump(_without_places(policy))
    with throwaway_stack(text) as stack, Progress(disable=is_silent or not sys.stderr.isatty()) as progress:
        bar = progress.add_task(f"{name}: storing", total=len(dataset.questions))
        with MemoryClient.from_settings(stack.settings) as client:
            ids = store(dataset, client, lambda receipt: await_stored(client, receipt))
        progress.update(bar, description=f"{name}: asking")
        clock = AskedAt(dataset)
        own = effective_policy(stack.settings.policy_path)
        backend = create_worker_backend(stack.settings, own, clock=clock)
        judged: list[Judged] = []
        with asyncio.Runner() as runner:
            runner.run(backend.connect())
            try:
                asking = Asking(backend, own, clock, budget=budget, ids=ids)
                # The first search of a process loads what it needs, which is no question's time.
                runner.run(asking.ask(dataset.questions[0]))
                for question in dataset.questions:
                    clock.set(question)
                    judged.append(runner.run(asking.ask(question)))
                    progress.update(bar, advance=1)
            finally:
                runner.run(backend.disconnect())
    return judged


def _without_places(policy: Policy) -> dict[str, Any]:
    written: dict[str, Any] = policy.model_dump(mode="json", exclude_unset=True)
    storage = written.get("memory", {}).get("storage", {})
    for name in _PLACES:
        storage.pop(name, None)
    return written


def _show(result: PolicyResult, *, has_kinds: bool) -> None:
    say(f"policy: {result.policy}")
    rows = [
        {
            "kind": each.kind or "all",
            "measure": each.measure,
            "mean": each.mean,
            "95 % interval": _within(each.low, each.high),
            "questions": each.questions,
            "what": MEASURES[each.measure][0],
        }
        for each in result.measures
        if has_kinds or each.kind is None
    ]
    columns = ("measure", "mean", "95 % interval", "questions", "what")
    show_rows(rows, columns=("kind", *columns) if has_kinds else columns, as_json=False)
    if result.beside_first:
        say("beside the first policy, the same questions paired:")
        beside = [
            {
                "measure": each.measure,
                "difference": each.mean,
                "95 % interval": _within(each.low, each.high),
                "verdict": each.verdict,
            }
            for each in result.beside_first
        ]
        show_rows(beside, columns=("measure", "difference", "95 % interval", "verdict"), as_json=False)


def _within(low: float, high: float) -> str:
    return f"{low:.3f} to {high:.3f}"

"""``memtend models``: whether the language model that is configured can be used."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from memcore.llm.check import ModelCheck
from ops.cli.console import cell, say, warn
from ops.cli.session import Commands, CompanyCommand

app = Commands("models", "Language models: check.")


@app.command("check")
def check(
    command: CompanyCommand,
    model: Annotated[str | None, typer.Option(help="Another model than memory.llm.model.")] = None,
) -> None:
    """Ask the language model one real question; show how fast it answers and what was learnt. Exit 1 when it fails."""
    if not command.as_json:
        warn(f"waits for the language model since {datetime.now(UTC):%H:%M:%S} UTC")
    found = command.run(lambda service: service.models.check(model))
    if command.as_json:
        command.show_facts(found)
    else:
        _show(command, found)
    if not found.has_form:
        warn(f"{cell(found.problem)}\nnext: {found.next_step}")
        if found.offered:
            warn(f"the server offers: {cell(found.offered)}")
        raise typer.Exit(1)


def _show(command: CompanyCommand, found: ModelCheck) -> None:
    facts = found.model_dump(exclude={"has_form", "learnt", "problem", "next_step", "offered"}, exclude_none=True)
    learnt = "; ".join(found.learnt) or "nothing: it takes every question as it is"
    command.show_facts({**facts, "learnt": learnt} if found.has_form else facts)
    if found.has_form:
        say("\nit answers in the form that was asked for")

"""``memtend wiki``: export experience as Markdown files."""

from typing import Annotated

import typer

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.wiki import WikiExport, WikiExporter
from ops.cli.console import AsJson, show_rows
from ops.cli.session import HomeOption, backend_of, ledger_of, policy_of, settings_of

app = typer.Typer(help="The wiki: experience as Markdown files.", no_args_is_help=True)

AgentOption = Annotated[list[str] | None, typer.Option("--agent", help="Whose; may be given several times.")]
AllOption = Annotated[bool, typer.Option("--all", help="Every agent that is known.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only count what would be written.")]


# Without this a group of one command is that command.
@app.callback()
def _group() -> None:
    pass


@app.command("export")
def export(
    agent: AgentOption = None,
    everyone: AllOption = False,
    dry_run: DryRunOption = False,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Write the experience of agents as Markdown files; each agent's folder is replaced atomically."""
    if bool(agent) == everyone:
        raise MemoryInputError("agent", "name agents with --agent, or take all of them with --all")
    settings = settings_of(home)
    config = policy_of(settings).memory.consolidation.wiki_export
    with ledger_of(settings) as ledger, backend_of(settings) as (backend, runner):
        exporter = WikiExporter(backend, ledger, config, home=settings.home, company=settings.company)
        agents = list(exporter.agents() if everyone else dict.fromkeys(agent or ()))
        for each in agents:
            # An export of an unknown agent would leave a folder.
            if ledger.agents.get(settings.company, each) is None:
                raise MemoryNotFoundError(f"agent: {each!r} is not known; `memtend agents list` says who is")
        done: list[WikiExport] = []
        if dry_run:
            done += [runner.run(exporter.plan(each)) for each in agents]
        else:
            done += runner.run(exporter.export(agents))
    show_rows(
        (each.model_dump() for each in done),
        columns=("agent_id", "raw_count", "compressed_count", "failed_count", "is_published", "reason"),
        as_json=as_json,
    )
    if config.enabled and not dry_run and not all(each.is_published for each in done):
        raise typer.Exit(1)


def add_to(parent: typer.Typer) -> None:
    """Put the group on the command line."""
    parent.add_typer(app, name="wiki")

"""``memtend wiki``: export experience as Markdown files."""

from typing import Annotated

import typer

from memcore.errors import MemoryInputError, MemoryNotFoundError
from memcore.wiki import WikiExport, WikiExporter
from ops.cli.session import Commands, JsonCommand

app = Commands("wiki", "The wiki: experience as Markdown files.")


@app.command("export")
def export(
    command: JsonCommand,
    agent: Annotated[list[str] | None, typer.Option(help="Whose; may be given several times.")] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Every agent that is known.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be written.")] = False,
) -> None:
    """Write the experience of agents as Markdown files; each agent's folder is replaced atomically."""
    if bool(agent) == everyone:
        raise MemoryInputError("agent", "name agents with --agent, or take all of them with --all")
    settings = command.settings
    config = command.policy.memory.consolidation.wiki_export
    with command.ledger() as ledger, command.backend() as (backend, runner):
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
    columns = ("agent_id", "raw_count", "compressed_count", "failed_count", "is_published", "reason")
    command.show_rows((each.model_dump() for each in done), *columns)
    if config.enabled and not dry_run and not all(each.is_published for each in done):
        raise typer.Exit(1)

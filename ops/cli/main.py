"""``memtend``: every command, and one sentence instead of a traceback when something is wrong."""

import sys
from importlib import import_module
from typing import Annotated

import typer

from memcore.operational import report_error

#: The commands of each module. Only the requested one is imported: all together take a second.
MODULES = {
    "running.processes": ("up", "worker", "beat"),
    "running.servers": ("serve", "mcp"),
    "running.keys": ("keys",),
    "running.databases": ("migrate", "vectors"),
    "running.status": ("status", "pause", "resume", "config"),
    "running.top": ("top",),
    "running.companies": ("companies",),
    "running.webhooks": ("webhooks",),
    "running.doctor": ("doctor",),
    "memory.memories": ("store", "search", "ask", "conflicts", "supersede", "both-hold", "reinstate"),
    "memory.changes": ("get", "list", "update", "forget", "history"),
    "maintenance.maintain": ("maintain", "end"),
    "maintenance.whatif": ("whatif",),
    "memory.transfer": ("import", "export"),
    "memory.agents": ("agents",),
    "maintenance.runs": ("runs",),
    "memory.why": ("why",),
    "running.dead": ("dead",),
    "memory.shared": ("shared",),
    "memory.approvals": ("approvals",),
    "memory.skills": ("skills",),
    "memory.org": ("org",),
    "running.usage": ("audit", "usage"),
    "running.models": ("models",),
    "memory.archive": ("archive",),
    "memory.erase": ("erase",),
    "memory.distrust": ("distrust",),
    "memory.memory_tests": ("test",),
    "maintenance.reindex": ("reindex",),
    "maintenance.embedder": ("embedder",),
    "maintenance.finetune": ("finetune",),
    "memory.wiki": ("wiki",),
    "memory.evaluate": ("eval",),
    "memory.conversation": ("conversation",),
}


def build(command: str | None = None) -> typer.Typer:
    """Return the command line with the module of one command, or with all modules for anything else."""
    app = typer.Typer(name="memtend", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
    # The callback keeps the command's name on the line even when it is the only command.
    app.callback()(_nothing)
    for place in [place for place, names in MODULES.items() if command in names] or MODULES:
        app.add_typer(import_module(f"ops.cli.{place}").app)
    return app


def run() -> None:
    """Run the command line; the entry point of the ``memtend`` script."""
    try:
        build(sys.argv[1] if len(sys.argv) > 1 else None)(standalone_mode=True)
    except Exception as error:  # noqa: BLE001  # a defect is raised again
        sys.exit(report_error(error, prefix="memtend: "))


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version  # noqa: PLC0415  # for this alone

        from ops.cli.console import say  # noqa: PLC0415  # see above

        say(f"memtend {version('memtend')}")
        raise typer.Exit


def _nothing(
    *,
    version: Annotated[  # its callback does all
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """The run context of an agent fleet: long-term memories, kept findable, small and safe."""


if __name__ == "__main__":
    run()

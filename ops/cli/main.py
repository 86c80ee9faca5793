"""``memtend``: every command, and one sentence instead of a traceback when something is wrong."""

import sys
from importlib import import_module

import typer

from memcore.operational import report_error

#: The module of each command. Only the requested one is imported: all together take a second.
MODULES = {
    "up": "running.processes",
    "worker": "running.processes",
    "beat": "running.processes",
    "migrate": "running.databases",
    "status": "running.status",
    "doctor": "running.doctor",
    "store": "memory.memories",
    "search": "memory.memories",
    "maintain": "maintenance.maintain",
    "end": "memory.end",
    "pause": "running.status",
    "resume": "running.status",
    "import": "memory.transfer",
    "export": "memory.transfer",
    "agents": "memory.agents",
    "runs": "maintenance.runs",
    "why": "memory.why",
    "dead": "running.dead",
    "shared": "memory.shared",
    "approvals": "memory.approvals",
    "skills": "memory.skills",
    "org": "memory.org",
    "audit": "running.usage",
    "usage": "running.usage",
    "archive": "memory.archive",
    "reindex": "maintenance.reindex",
    "finetune": "maintenance.finetune",
    "wiki": "memory.wiki",
    "vectors": "running.databases",
    "config": "running.status",
}


def build(command: str | None = None) -> typer.Typer:
    """Return the command line with the module of one command, or with all modules for anything else."""
    app = typer.Typer(
        name="memtend",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    # The callback keeps the command's name on the line even when it is the only command.
    app.callback()(_nothing)
    for place in dict.fromkeys([MODULES[command]] if command in MODULES else MODULES.values()):
        app.add_typer(import_module(f"ops.cli.{place}").app)
    return app


def run() -> None:
    """Run the command line; the entry point of the ``memtend`` script."""
    try:
        build(sys.argv[1] if len(sys.argv) > 1 else None)(standalone_mode=True)
    except Exception as error:  # noqa: BLE001  # a defect is raised again
        sys.exit(report_error(error, prefix="memtend: "))


def _nothing() -> None:
    """The run context of an agent fleet: long-term memories, kept findable, small and safe."""


if __name__ == "__main__":
    run()

"""``memtend skills``: what agents taught each other, and the evolver that looks for it."""

import typer

from ops.cli.skill_cycles import cycles, evolve
from ops.cli.skill_views import list_skills, show_skill

app = typer.Typer(help="Skills of the organisation: list, show, and the evolver's cycles.", no_args_is_help=True)

app.command("list")(list_skills)
app.command("show")(show_skill)
app.command("evolve")(evolve)
app.command("cycles")(cycles)


def add_to(root: typer.Typer) -> None:
    """Put the group on the command line."""
    root.add_typer(app, name="skills")

"""``memtend skills``: what agents taught each other, and the evolver that looks for it."""

import typer

app = typer.Typer(help="Skills of the organisation: the evolver's cycles.", no_args_is_help=True)


def add_to(root: typer.Typer) -> None:
    """Put the group on the command line."""
    root.add_typer(app, name="skills")

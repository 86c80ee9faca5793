"""``memtend config``: the policy in force, and where each value comes from."""

import os
from pathlib import Path
from typing import Annotated

import typer

from memcore.config.explain import explain
from memcore.config.home_folder import home_folder
from memcore.config.loader import effective_policy
from ops.cli.console import AsJson, say, show_rows
from ops.cli.session import HomeOption

app = typer.Typer(help="Configuration: show.", no_args_is_help=True)


@app.command("show")
def show(
    policy: Annotated[
        Path | None, typer.Option(help="A policy file; else that of MEMTEND_POLICY_PATH, else the data folder's.")
    ] = None,
    home: HomeOption = None,
    as_json: AsJson = False,
) -> None:
    """Show every value of the memory policy and where it comes from; needs no running stack."""
    named = os.environ.get("MEMTEND_POLICY_PATH")
    own = home_folder(os.environ, home) / "policy.yaml"
    loaded = effective_policy(policy or (Path(named) if named else own if own.exists() else None))
    show_rows(
        ({"key": each.key, "value": each.value, "origin": str(each.origin)} for each in explain(loaded)),
        columns=("key", "value", "origin"),
        as_json=as_json,
    )
    if not as_json:
        for warning in loaded.warnings:
            say(f"warning: {warning}")


def add_to(parent: typer.Typer) -> None:
    """Put the commands on the command line."""
    parent.add_typer(app, name="config")

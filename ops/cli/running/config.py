"""``memtend config``: the policy in force, and where each value comes from."""

import os
from pathlib import Path
from typing import Annotated

import typer

from memcore.config.explain import explain
from memcore.config.home_folder import home_folder
from memcore.config.loader import effective_policy
from ops.cli.console import say
from ops.cli.session import Commands, JsonCommand

app = Commands("config", "Configuration: show.")


@app.command("show")
def show(
    command: JsonCommand,
    policy: Annotated[
        Path | None, typer.Option(help="A policy file; else that of MEMTEND_POLICY_PATH, else the data folder's.")
    ] = None,
) -> None:
    """Show every value of the memory policy and where it comes from; needs no running stack."""
    named = os.environ.get("MEMTEND_POLICY_PATH")
    own = home_folder(os.environ, command.home) / "policy.yaml"
    loaded = effective_policy(policy or (Path(named) if named else own if own.exists() else None))
    rows = ({"key": each.key, "value": each.value, "origin": str(each.origin)} for each in explain(loaded))
    command.show_rows(rows, "key", "value", "origin")
    if not command.as_json:
        for warning in loaded.warnings:
            say(f"warning: {warning}")

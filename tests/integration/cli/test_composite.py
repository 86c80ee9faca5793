"""A policy with routes on the command line: what is in force, and which routes the doctor says no worker takes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memcore.config.settings import Settings
from ops.cli.console import HealthCheck, safely
from ops.cli.main import build
from ops.cli.running.health_checks import store

POLICY = """
memory:
  backend: composite
  composite: {routes: {work: mem0}, default: inmemory}
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


def test_the_routes_are_shown_with_their_origin(policy: Path) -> None:
    done = CliRunner().invoke(build(), ["config", "show", "--policy", str(policy), "--json"])
    shown = {row["key"]: (row["value"], row["origin"]) for row in json.loads(done.stdout)}
    assert shown["memory.backend"] == ("composite", "file")
    assert shown["memory.composite.routes"] == ({"work": "mem0"}, "file")
    assert shown["memory.composite.default"] == ("inmemory", "file")


def test_the_doctor_says_which_route_no_worker_takes_and_where_to_change_it(policy: Path, tmp_path: Path) -> None:
    settings = Settings(
        broker_url="redis://127.0.0.1:1",
        database_url=f"sqlite:///{tmp_path}/never.db",
        qdrant_url="http://127.0.0.1:1",
        policy_path=policy,
        home=tmp_path,
    )
    (finding,) = safely(HealthCheck(name="store", group="store", take=store), settings)
    assert not finding.ok
    assert finding.seen.startswith("memory.composite.default: 'inmemory' keeps memories inside one process")
    assert finding.mend == "change policy.yaml or the settings"

"""The chart's files without Helm: its values, their schema, and what both repeat of the code."""

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator
from support.helm_chart import CHART
from support.repository import ROOT

from memcore.config.loader import load_policy
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.jobs import Queue
from workers.groups import GROUPS

VALUES: Mapping[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA: Mapping[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
HELPERS = (CHART / "templates" / "_helpers.tpl").read_text(encoding="utf-8")

#: Settings that the chart sets itself, and the one for a Docker engine, which a cluster has not.
OWN = {"MEMTEND_HOME", "MEMTEND_POLICY_PATH", "MEMTEND_FINE_TUNE_IMAGE"}

#: What a setting may hold that is a secret: every address of a server with a password, every key, every webhook.
SECRET = re.compile(r"_KEY$|_WEBHOOK$|^MEMTEND_(BROKER|RESULT|DATABASE|JOURNAL|HISTORY|QDRANT|FLOWER)_URL$")


def with_value(path: str, value: object) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(json.dumps(VALUES))
    *parents, name = path.split(".")
    inner = values
    for parent in parents:
        inner = inner[parent]
    inner[name] = value
    return values


def problems(values: Mapping[str, Any]) -> list[str]:
    return [error.json_path for error in Draft7Validator(SCHEMA).iter_errors(values)]


def test_the_schema_is_one_and_takes_the_values_that_the_chart_has() -> None:
    Draft7Validator.check_schema(SCHEMA)
    assert problems(VALUES) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("serve.replica", 2),
        ("serve.replicas", -1),
        ("connections.broker.secret", ""),
        ("connections.broker.url", "redis://:password@broker"),
        ("settings.MEMTEND_DATABASE_URL", "postgresql://memtend:password@ledger/memtend"),
        ("settings.MEMTEND_LLM_API_KEY", "a key"),
        ("settings.MEMTEND_TICK_SECONDS", 10),
        ("serve.ingress.enabled", True),
        ("keda.enabled", True),
        ("keda.prometheus", "http://name:password@prometheus"),
        ("image.digest", "latest"),
        ("policy.companies", {"../acme": "memory: {}"}),
        ("networkPolicy.ports", []),
    ],
)
def test_the_schema_refuses_what_is_wrong(path: str, value: object) -> None:
    assert problems(with_value(path, value)) != []


def test_every_setting_is_a_value_or_comes_from_a_secret() -> None:
    known = {f"MEMTEND_{name.upper()}" for name in Settings.model_fields}
    named = SCHEMA["properties"]["settings"]["propertyNames"]["enum"]
    # Those of OpenTelemetry are its own.
    plain = {name for name in named if not name.startswith("OTEL_")}
    from_secrets = re.search(r"\$variables := dict(.*?)\}\}", HELPERS, re.DOTALL)
    assert from_secrets is not None
    pairs = re.findall(r'"(\w+)" "([A-Z_]+)"', from_secrets[1])
    secret = {f"MEMTEND_{variable}" for _, variable in pairs}
    assert {name for name, _ in pairs} == VALUES["connections"].keys()
    assert not plain & secret
    assert plain | secret | OWN == known
    assert not {name for name in plain if SECRET.search(name)}
    assert {name for name in secret if SECRET.search(name)} == secret


def test_every_queue_counts_for_the_group_that_takes_it() -> None:
    patterns = dict(re.findall(r'^ +"(\w+)" "(memory.*)"$', HELPERS, re.MULTILINE))
    assert patterns.keys() == VALUES["workers"].keys()
    for name, pattern in patterns.items():
        group = GROUPS["night" if name == "maintenance" else name]
        assert {queue for queue in Queue if re.fullmatch(pattern, queue)} == set(group.queues), name


def test_every_group_of_workers_is_one_of_the_chart() -> None:
    names = {"night" if name == "maintenance" else name for name in VALUES["workers"]}
    assert names == GROUPS.keys()
    off = {name for name, values in VALUES["workers"].items() if not values["enabled"]}
    assert off == {name for name, group in GROUPS.items() if group.on_demand}


def test_the_policy_of_the_chart_is_that_of_the_defaults() -> None:
    assert load_policy(VALUES["policy"]["file"]) == Policy()


def test_the_chart_belongs_to_this_release() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert chart["appVersion"] == project["version"]
    assert VALUES["image"]["tag"] == ""

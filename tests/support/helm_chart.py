"""The chart as Helm renders it: Helm's own library runs in the environment of ``make chart``, in a process of its own.

There is no rendering here. Where the tools are missing, the tests that ask for them are skipped; ``make chart`` sets
``MEMTEND_TEST_HELM``, and then they fail instead.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import yaml

from support.repository import ROOT

CHART = ROOT / "docker" / "helm" / "memtend"

#: The environment of ``make chart``.
PYTHON = ROOT / "build" / "shipping" / "bin" / "python"

#: The release of Kubernetes whose schemas are asked, and the namespace of what is rendered.
KUBERNETES, NAMESPACE = "1.37", "agents"

#: Reads values as JSON; writes what Helm says: findings of its linter, manifests, what the schemas have against them.
_PROGRAM = """
import json, sys
import yaml, kubernetes_validate
from helm_python import chart

path, namespace, release = sys.argv[1:]
values = json.load(sys.stdin)
said = {"error": None, "lint": [], "manifests": {}, "invalid": []}
try:
    said["lint"] = chart.lint(path, values, strict=True)["messages"]
    with chart.Chart.load(path) as loaded:
        said["manifests"] = loaded.render(values, name="memtend", namespace=namespace)
except Exception as error:
    said["error"] = str(error)
for name, text in said["manifests"].items():
    for each in yaml.safe_load_all(text if name.endswith(".yaml") else ""):
        if each and "." not in each["apiVersion"].partition("/")[0].removesuffix(".k8s.io"):
            try:
                kubernetes_validate.validate(each, release, strict=True)
            except kubernetes_validate.ValidationError as error:
                said["invalid"].append(f"{name}: {error.message}")
print(json.dumps(said))
"""

Manifest = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """What Helm made of the chart.

    Attributes:
        error: what Helm refused, None where it rendered.
        lint: findings above "info" of ``helm lint --strict``.
        invalid: what Kubernetes' schemas have against a manifest.
        objects: the manifests, in the order of the files.
    """

    error: str | None
    lint: tuple[str, ...]
    invalid: tuple[str, ...]
    objects: tuple[Manifest, ...]

    def of_kind(self, kind: str) -> dict[str, Manifest]:
        """Return the objects of a kind by their names."""
        return {each["metadata"]["name"]: each for each in self.objects if each["kind"] == kind}

    def pods(self) -> dict[str, Manifest]:
        """Return the pod of each Deployment and Job, by the component that it is."""
        templates = [each["spec"]["template"] for each in self.objects if each["kind"] in {"Deployment", "Job"}]
        return {each["metadata"]["labels"]["app.kubernetes.io/component"]: each["spec"] for each in templates}

    def labels(self) -> dict[str, Mapping[str, str]]:
        """Return the labels of the pods of each Deployment and Job, by its name."""
        owners = {**self.of_kind("Deployment"), **self.of_kind("Job")}
        return {name: each["spec"]["template"]["metadata"]["labels"] for name, each in owners.items()}


def rendered(values: Mapping[str, Any]) -> Rendered:
    """Return what Helm makes of the chart with these values; skips the test where Helm is missing."""
    if not any(PYTHON.parents[1].glob("lib/python*/site-packages/helm_python")):
        if os.environ.get("MEMTEND_TEST_HELM"):
            pytest.fail(f"there is no Helm in {PYTHON.parent}")
        pytest.skip("Helm is missing: make chart installs it")
    return _rendered(json.dumps(values, sort_keys=True))


@cache
def _rendered(values: str) -> Rendered:
    done = subprocess.run(
        [PYTHON, "-c", _PROGRAM, CHART, NAMESPACE, KUBERNETES],
        check=True,
        capture_output=True,
        input=values,
        text=True,
        timeout=600,
    )
    said = json.loads(done.stdout)
    texts = [text for name, text in sorted(said["manifests"].items()) if name.endswith(".yaml")]
    return Rendered(
        error=said["error"],
        lint=tuple(each["error"] for each in said["lint"] if each["severity"] > 1),
        invalid=tuple(said["invalid"]),
        objects=tuple(each for text in texts for each in yaml.safe_load_all(text) if each),
    )

"""What ships can be checked: pinned hashes, a list of parts, an audit, and a release that is signed."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.repository import ROOT

DOCKER = ROOT / "docker"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LISTS = sorted(DOCKER.glob("requirements-*.txt"))

#: What the image of the workers installs.
EXTRAS = frozenset({"worker", "postgres"})

#: The tool that `make sbom` runs, where it is installed.
CYCLONEDX = ROOT / "build" / "shipping" / "bin" / "cyclonedx-py"


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(path: Path) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)(?:\[[\w,-]+\])?==([^\s;]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {canonical(name): version for name, version in found}


def workflow(name: str) -> Mapping[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))
    return loaded


def steps(name: str) -> Iterator[Mapping[str, Any]]:
    for job in workflow(name)["jobs"].values():
        yield from job["steps"]


def recipe(target: str) -> list[list[str]]:
    """Return the commands that make would run for a target; it runs none."""
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", target],  # noqa: S607  # make, wherever it is
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [shlex.split(line) for line in done.stdout.replace("\\\n", " ").splitlines()]


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_every_pin_has_hashes_and_no_list_names_an_index(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[\w.-]+(?:\[[\w,-]+\])?==)", text, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(pins(path)) > 20
    assert [block.split()[0] for block in blocks if not re.search(r"--hash=sha256:[0-9a-f]{64}\b", block)] == []
    assert "//" not in text
    assert {line.strip().split("=")[0] for line in text.splitlines() if line.lstrip().startswith("-")} == {"--hash"}


def test_the_image_installs_the_versions_that_the_tests_ran_with() -> None:
    tested, installed = pins(ROOT / "constraints.txt"), pins(DOCKER / "requirements-worker.txt")
    other = {name: version for name, version in installed.items() if tested.get(name) != version}
    assert other == {}


def test_the_image_installs_everything_that_its_extras_ask_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    extras = {*EXTRAS, "engine"}
    for extra in extras:
        wanted += project["project"]["optional-dependencies"][extra]
    names = {canonical(re.split(r"[\s\[<>=!~;]", each)[0]) for each in wanted} - {"memtend"}
    installed = pins(DOCKER / "requirements-worker.txt")
    assert names <= installed.keys()
    # And what those ask for, as far as this environment has them, without extras and other systems.
    for name in names:
        for each in requires(name) or ():
            needed, _, marker = each.partition(";")
            if not marker.strip():
                assert canonical(re.split(r"[\s\[<>=!~(]", needed)[0]) in installed, f"{name} needs {needed}"


def test_the_image_takes_nothing_without_its_hash() -> None:
    text = (DOCKER / "worker.Dockerfile").read_text(encoding="utf-8")
    (third_party,) = re.findall(r"pip install .*-r (\S+)", text)
    assert re.search(r"pip install --require-hashes --only-binary=:all: -r " + re.escape(third_party), text)
    assert f"COPY docker/{third_party} ./" in text
    # Everything else that it installs is the tree itself.
    assert re.findall(r"pip install (.*?)(?: &&| \\|$)", text, re.MULTILINE)[1:] == ["--no-deps --no-build-isolation ."]
    assert f"!docker/{third_party}\n" in (ROOT / ".dockerignore").read_text(encoding="utf-8")


def test_the_tools_are_those_that_their_list_asks_for() -> None:
    assert pins(DOCKER / "requirements-shipping.in").items() <= pins(DOCKER / "requirements-shipping.txt").items()


@pytest.mark.parametrize("target", ["audit", "chart", "dist", "hashes", "sbom"])
def test_the_target_exists_and_says_what_it_does(target: str) -> None:
    assert recipe(target)
    assert re.search(rf"^{target}:.*  ## \w.*\.$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_audit_asks_for_what_the_image_installs() -> None:
    (audit,) = [command for command in recipe("audit") if command and command[0].endswith("pip-audit")]
    assert audit[1:] == ["--require-hashes", "--disable-pip", "-r", "docker/requirements-worker.txt"]
    assert any("make audit" in step.get("run", "") for step in steps("ci.yml"))


def test_the_list_of_parts_is_valid_and_names_what_is_installed(tmp_path: Path) -> None:
    if not CYCLONEDX.exists():
        pytest.skip("the tool is missing: make sbom installs it")
    (command,) = [words for words in recipe("sbom") if words and words[0].endswith("cyclonedx-py")]
    # The command of the target, about the tools' own environment: the image's takes minutes to install.
    written = tmp_path / "memtend.cdx.json"
    command[command.index("-o") + 1], command[-1] = str(written), str(CYCLONEDX.with_name("python"))
    subprocess.run([*command, "--validate"], cwd=ROOT, check=True, capture_output=True, timeout=600)
    parts = json.loads(written.read_text(encoding="utf-8"))
    assert (parts["bomFormat"], parts["metadata"]["component"]["name"]) == ("CycloneDX", "memtend")
    listed = {canonical(each["name"]): each["version"] for each in parts["components"]}
    tools = pins(DOCKER / "requirements-shipping.in")
    # Helm is one of them where it has a wheel.
    assert {name for name in tools if listed.get(name) != tools[name]} <= {"helm-python-sdk"}
    assert all(each["purl"].startswith("pkg:pypi/") for each in parts["components"])
    assert parts["dependencies"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_valid_and_takes_no_action_that_can_change(path: Path) -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", path],
        check=False,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout
    loaded = workflow(path.name)
    assert loaded["permissions"] == {"contents": "read"}
    for action in re.findall(r"uses: (.+)", path.read_text(encoding="utf-8")):
        assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_only_a_tag_of_a_version_is_released_and_what_is_released_is_signed() -> None:
    release = workflow("release.yml")
    # PyYAML reads the key "on" as true.
    assert release[True] == {"push": {"tags": ["v[0-9]+.[0-9]+.[0-9]+"]}}
    used = [step["uses"].partition("@")[0] for step in steps("release.yml") if "uses" in step]
    assert {"actions/attest-build-provenance", "actions/attest-sbom"} <= set(used)
    build = release["jobs"]["build"]
    assert build["permissions"] == {"contents": "read", "id-token": "write", "attestations": "write"}
    run = " ".join(step.get("run", "") for step in build["steps"])
    assert re.search(r"make .*\baudit\b.*\bdist\b", run)
    (sbom,) = [step["with"] for step in build["steps"] if "attest-sbom" in step.get("uses", "")]
    assert any(sbom["sbom-path"] in command for command in recipe("sbom"))
    # No step holds a secret of ours: the runner's identity signs.
    assert "secrets." not in (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")

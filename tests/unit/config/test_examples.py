from pathlib import Path
from typing import Any

import pytest
import yaml

from memcore.config.explain import Origin, explain
from memcore.config.loader import load_policy
from memcore.config.maintenance import ConsolidationStrategyType

EXAMPLES = sorted((Path(__file__).parent / "examples").glob("*.yaml"))


def flatten(tree: dict[str, Any], under: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= flatten(value, f"{under}{key}.") if isinstance(value, dict) else {under + key: value}
    return flat


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_key_of_an_example_takes_effect_as_written(path: Path) -> None:
    written = flatten(yaml.safe_load(path.read_text()))

    effective = {setting.key: setting for setting in explain(load_policy(path))}

    assert {key: effective[key].value for key in written} == written
    assert {key for key, setting in effective.items() if setting.origin is Origin.FILE} == set(written)


def test_there_are_the_seven_examples_of_the_guides() -> None:
    assert len(EXAMPLES) == 7


def test_the_research_lab_gets_the_dual_mode_that_it_enables() -> None:
    policy = load_policy(next(path for path in EXAMPLES if path.stem == "guide_research_lab"))

    assert policy.memory.consolidation.strategy == ConsolidationStrategyType.DUAL_MODE


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_warned_of_its_folder_and_of_an_archive_that_is_off_and_of_nothing_else(path: Path) -> None:
    warnings = load_policy(path).warnings

    written = flatten(yaml.safe_load(path.read_text()))
    ignored = ["memory.storage.data_dir"]
    if written.get("memory.consolidation.archival.enabled") is False:
        ignored.append("memory.consolidation.archival.enabled")
    assert [warning.partition(" ")[0] for warning in warnings] == [key for key in written if key in ignored]

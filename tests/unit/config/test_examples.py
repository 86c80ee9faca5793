from pathlib import Path
from typing import Any

import pytest
import yaml

from memcore.config.explain import Origin, explain
from memcore.config.loader import load_policy

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


def test_the_research_lab_is_told_that_its_dual_mode_needs_a_strategy() -> None:
    policy = load_policy(next(path for path in EXAMPLES if path.stem == "guide_research_lab"))

    assert policy.warnings == (
        (
            "memory.consolidation.archival.dual_mode.enabled has no effect: "
            "strategy is condense; set memory.consolidation.strategy to dual_mode"
        ),
    )


@pytest.mark.parametrize("path", [path for path in EXAMPLES if "lab" not in path.stem], ids=lambda path: path.stem)
def test_the_other_examples_give_no_cause_for_a_warning(path: Path) -> None:
    assert load_policy(path).warnings == ()

"""Strategies of other packages: named in the policy, found by their entry point, refused by name when there is none."""

from importlib.metadata import EntryPoint

import pytest
from pydantic import ValidationError

import memcore.config.maintenance as config
import memcore.maintenance.consolidation.factory as capacity
from memcore.config.maintenance import STRATEGY_GROUP, ConsolidationConfig, ConsolidationStrategyType
from memcore.errors import MemoryConfigError
from memcore.maintenance.consolidation.factory import ConsolidationDeps, build_consolidation_strategy
from memcore.maintenance.consolidation.strategy import (
    CompositeConsolidationStrategy,
    ConcatenationOp,
    HighestRelevanceSelector,
)


def first_words(deps: ConsolidationDeps) -> CompositeConsolidationStrategy:
    """What a package brings: a pair of its own."""
    return CompositeConsolidationStrategy(
        HighestRelevanceSelector(group_threshold=deps.policy.group_threshold),
        ConcatenationOp(max_entry_chars=7),
        name="first-words",
    )


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [EntryPoint("first-words", f"{__name__}:first_words", STRATEGY_GROUP)]

    def entry_points(*, group: str, name: str) -> list[EntryPoint]:
        return [each for each in found if (each.group, each.name) == (group, name)]

    # The test's module is loaded from its file and has no importable name.
    monkeypatch.setattr(EntryPoint, "load", lambda _self: first_words)
    for module in (config, capacity):
        monkeypatch.setattr(module, "entry_points", entry_points)


@pytest.mark.usefixtures("installed")
def test_a_registered_pair_is_built_by_its_name() -> None:
    policy = ConsolidationConfig(strategy="first-words", group_threshold=2)
    strategy = build_consolidation_strategy(ConsolidationDeps(policy=policy))
    assert strategy is not None
    assert strategy.name == "first-words"


@pytest.mark.usefixtures("installed")
def test_a_name_that_nobody_registered_is_refused_with_the_names_that_are_there() -> None:
    with pytest.raises(ValidationError, match=f"none, dedupe, condense, .* entry point of the group {STRATEGY_GROUP}"):
        ConsolidationConfig(strategy="second-words")


def test_a_package_that_is_gone_is_named() -> None:
    policy = ConsolidationConfig().model_copy(update={"strategy": "first-words"})
    with pytest.raises(MemoryConfigError, match="first-words is registered by no installed package"):
        build_consolidation_strategy(ConsolidationDeps(policy=policy))


def test_a_shipped_name_in_a_file_is_the_shipped_strategy() -> None:
    assert ConsolidationConfig.model_validate({"strategy": "simple"}).strategy is ConsolidationStrategyType.SIMPLE

"""Every key of every configuration model changes what can be seen, or is known to change nothing and says so when set.

How a new key is added stands at the top of tests/support/config_effects.py.
"""

import ast
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from support import config_effects_conversation as effects_of_conversation
from support import config_effects_learning as effects_of_learning
from support import config_effects_maintenance as effects_of_maintenance
from support import config_effects_retrieval as effects_of_retrieval
from support import config_effects_settings as effects_of_settings
from support import config_effects_tools as effects_of_tools
from support.config_effects import Effect, Place, policy_of, read
from support.config_effects_settings import Change
from support.ledger_records import copied_urls
from support.maintenance_fixture import SHARED_MEMORY
from support.repository import ROOT

from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.models.base import Frozen

#: How the keys of a policy show.
EFFECTS: dict[str, Effect] = {
    **effects_of_retrieval.EFFECTS,
    **effects_of_tools.EFFECTS,
    **effects_of_maintenance.EFFECTS,
    **effects_of_learning.EFFECTS,
    **effects_of_conversation.EFFECTS,
}

#: How the variables show.
CHANGES: dict[str, Change] = effects_of_settings.CHANGES

#: Keys that change nothing, with a value to which somebody might set them: loading it gives a warning that names them.
INERT: dict[str, object] = {
    "memory.storage.data_dir": "/data/memory",
    "memory.consolidation.archival.enabled": False,
    "memory.embedder.fine_tune.training_data_dir": "documents",
}

#: Keys whose effect a test shows that needs more than fits here: it must mention the key.
SHOWN_ELSEWHERE: dict[str, str] = {
    "memory.options.shared_knowledge_base": (
        "tests/integration/org/test_contexts.py"
        "::test_without_shared_knowledge_prompts_still_hold_what_the_organisation_says"
    ),
    "memory.retrieval.zoom": (
        "tests/unit/retrieval/test_archived.py::test_archived_memories_are_not_asked_for_without_zoom"
    ),
    "memory.embedder.fine_tune.base_model": (
        "tests/unit/config/test_combinations.py::test_a_checkpoint_in_use_is_named_with_its_base"
    ),
    **dict.fromkeys(
        ("memory.fine_tune.image", "memory.fine_tune.gpu_enabled", "memory.fine_tune.memory_limit"),
        "tests/integration/finetune/execution/test_docker.py::test_what_is_configured_says_where_stages_run",
    ),
}


def walk(model: type[Frozen], under: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key that a file may hold, also those of what a list or a mapping holds, and its type."""
    for name, each in model.model_fields.items():
        key = f"{under}{name}"
        sections = list(_models(each.annotation))
        is_plain = any(section is inner for section in sections for inner in _alternatives(each.annotation))
        if not is_plain:
            yield key, each.annotation
        for section in sections:
            yield from walk(section, f"{key}{'' if is_plain else '[]'}.")


def _alternatives(annotation: object) -> tuple[object, ...]:
    return get_args(annotation) if get_origin(annotation) in {Union, UnionType} else (annotation,)


def _models(annotation: object) -> Iterator[type[Frozen]]:
    if isinstance(annotation, type) and issubclass(annotation, Frozen):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _has_one_value(annotation: object) -> bool:
    return get_origin(annotation) is Literal and len(get_args(annotation)) == 1


def test_every_key_is_proved_or_known_to_change_nothing() -> None:
    keys = {key for key, annotation in walk(Policy) if not _has_one_value(annotation)}
    tables = (EFFECTS, INERT, SHOWN_ELSEWHERE)
    reported = [key for table in tables for key in table]
    assert sorted(reported) == sorted(keys), "see the top of tests/support/config_effects.py"
    assert sorted(CHANGES) == sorted(Settings.model_fields), "see the top of tests/support/config_effects_settings.py"


def test_the_walk_goes_into_whatever_holds_a_model() -> None:
    class Leaf(Frozen):
        key: int = 0

    class Root(Frozen):
        one: Leaf = Leaf()
        maybe: Leaf | None = None
        many: tuple[Leaf, ...] = ()
        named: dict[str, Leaf] | None = None
        fixed: Literal[True] = True

    assert [key for key, _ in walk(Root)] == [
        "one.key", "maybe.key", "many", "many[].key", "named", "named[].key", "fixed",
    ]  # fmt: skip
    assert [key for key, annotation in walk(Root) if _has_one_value(annotation)] == ["fixed"]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: these tests commit thousands of times, and a disk waits each time."""
    if not SHARED_MEMORY.is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as made:
        yield Path(made)


@pytest.fixture(scope="module")
def seen() -> dict[object, object]:
    """What was seen under the policies that others are compared with."""
    return {}


@pytest.mark.parametrize("key", EFFECTS)
def test_changing_a_key_changes_what_is_seen(
    key: str, folder: Path, ledger_template: Path, seen: dict[object, object]
) -> None:
    effect = EFFECTS[key]
    before, after = policy_of(effect.given), policy_of(effect.changes(key))
    written = effect.at or key
    assert read(before, written) != read(after, written), f"{key} has this value already: give another one"

    def health_check(name: str, policy: Policy) -> object:
        return effect.see(Place(folder=folder / name, template=ledger_template), policy)

    known = (effect.see, repr(effect.given))
    if known not in seen:
        seen[known] = health_check("before", before)
        assert health_check("again", before) == seen[known], (
            "what is seen must be the same twice, or a difference says nothing"
        )
    assert health_check("after", after) != seen[known]


@pytest.mark.parametrize("name", CHANGES)
def test_setting_a_variable_changes_what_is_seen(name: str, folder: Path, ledger_template: Path) -> None:
    change, health_checks = CHANGES[name], []
    for number, field in enumerate((None, None, name)):
        place = folder / str(number)
        copied_urls(ledger_template, place)
        said = repr(change.see(place, change.environ(place, field)))
        health_checks.append(said.replace(str(place), "{folder}"))
    assert health_checks[0] == health_checks[1], "what is seen must be the same twice, or a difference says nothing"
    assert health_checks[2] != health_checks[0]


@pytest.mark.parametrize("key", INERT)
def test_setting_a_key_without_effect_gives_a_warning_that_names_it(key: str) -> None:
    (warning,) = policy_of({key: INERT[key]}).warnings
    assert warning.startswith(f"{key} has no effect: ")
    page = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f"| `{key}` |")]
    assert "**No effect**" in row


@pytest.mark.parametrize("key", SHOWN_ELSEWHERE)
def test_the_test_that_shows_a_key_mentions_it(key: str) -> None:
    path, _, name = SHOWN_ELSEWHERE[key].partition("::")
    source = (ROOT / path).read_text(encoding="utf-8")
    tests = [each for each in ast.parse(source).body if getattr(each, "name", None) == name]
    assert tests, name
    assert key.rpartition(".")[2] in (ast.get_source_segment(source, tests[0]) or "")

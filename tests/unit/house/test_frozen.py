"""What must not change while files move and names get better: see support.frozen_facts for how each is read."""

from collections.abc import Callable
from importlib import import_module

import pytest
from support.frozen import Facts, differences, key_paths, require_frozen
from support.frozen_facts import commands, jobs, log_events, payloads, policy, programs, public_names, tables, variables

HERE = "tests/unit/house/test_frozen.py"

#: Modules that README and the reference name; engines import from them.
PROMISED = """
memcore.backends.factory create_engine_backend
memcore.config.loader load_policy
memcore.config.policy Policy
memcore.config.settings Settings
"""


@pytest.mark.parametrize(
    "subject",
    [commands, jobs, payloads, policy, variables, tables, programs, log_events],
    ids=lambda subject: subject.__name__,
)
def test_what_others_rely_on_is_as_it_was(subject: Callable[[], Facts]) -> None:
    require_frozen(subject.__name__, subject(), renew=HERE)


def test_public_names_may_be_added_and_none_is_lost() -> None:
    require_frozen("public_names", public_names(), renew=HERE, may_grow=True)


@pytest.mark.parametrize("line", PROMISED.split("\n")[1:-1])
def test_promised_modules_keep_their_names(line: str) -> None:
    module, name = line.split(" ")
    assert hasattr(import_module(module), name)


def test_a_difference_says_what_vanished_what_changed_and_what_is_new() -> None:
    frozen, found = {"a": "1", "b": "2", "c": "3"}, {"b": "2", "c": "4", "d": "5"}
    lines = ["  vanished: a (1)", "  changed:  c: 3 -> 4"]
    assert differences(frozen, found, may_grow=True) == lines
    assert differences(frozen, found, may_grow=False) == [*lines, "  new:      d (5)"]


def test_the_keys_of_json_are_told_by_their_paths() -> None:
    value = {"runs": [{"id": 1, "counts": {"kept": 2}}, {"error": None}]}
    paths = set(key_paths(value, "list", open_maps=frozenset({"counts"})))
    assert paths == {"list.runs", "list.runs[].id", "list.runs[].counts", "list.runs[].error"}

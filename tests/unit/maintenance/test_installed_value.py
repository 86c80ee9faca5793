"""A company's own rule, found by the entry point of its package."""

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from types import SimpleNamespace

import pytest
from support.maintenance_fixture import START, memory

from memcore.errors import MemoryConfigError
from memcore.maintenance import enforcement
from memcore.maintenance.enforcement import GROUP, Candidate, installed_value, usual_value


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    installed_value.cache_clear()
    yield
    installed_value.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    found = EntryPoints(EntryPoint(name=f"rule-{n}", value=value, group=GROUP) for n, value in enumerate(values))
    monkeypatch.setattr(enforcement, "entry_points", lambda *, group: found.select(group=group))


def test_the_shipped_rule_holds_where_nobody_has_installed_another() -> None:
    assert installed_value() is usual_value


def test_an_installed_rule_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = SimpleNamespace(value=lambda _candidate, _now: 7.0)
    monkeypatch.setitem(sys.modules, "our_rule", ours)
    install(monkeypatch, "our_rule:value")

    assert installed_value()(Candidate(entry=memory(1).entry), START) == 7.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["our_rule:value", "their_rule:value"], "named more than once"),
        (["no_such_module:value"], "cannot be loaded"),
        (["math:pi"], "names no function"),
    ],
)
def test_what_cannot_decide_is_refused_when_the_service_is_built(
    monkeypatch: pytest.MonkeyPatch, values: list[str], message: str
) -> None:
    install(monkeypatch, *values)
    with pytest.raises(MemoryConfigError, match=message):
        installed_value()

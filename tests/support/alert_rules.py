"""Alert rules: read from their file, and evaluated on scraped metrics for the forms of expression that they use.

The forms are ``metric{label="x", other=~"y.*"} > number``, ``increase(metric[1h]) > number``, of a counter that began
with the scrape, and ``absent(metric)``; a rule in another form fails here.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from support.repository import ROOT

RULES = ROOT / "docker" / "prometheus" / "alerts.yml"

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_MATCH: Mapping[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    # Prometheus anchors both ends.
    "=~": lambda value, wanted: re.fullmatch(wanted, value) is not None,
    "!~": lambda value, wanted: re.fullmatch(wanted, value) is None,
}
_SELECTOR = r"(?P<metric>[a-z_:][a-z0-9_:]*)(?:\{(?P<labels>[^}]*)\})?"
_COMPARISON = re.compile(
    rf"(?:increase\()?{_SELECTOR}(?:\[\w+\]\))?\s*(?P<compare>[<>=!]=?)\s*(?P<limit>\d+(?:\.\d+)?)"
)
_ABSENT = re.compile(rf"absent\({_SELECTOR}\)")
_LABEL = re.compile(r'(?P<name>\w+)\s*(?P<match>=~|!~|!=|=)\s*"(?P<wanted>[^"]*)"\s*,?\s*')

#: The samples of a scrape by their metrics: labels and value.
Scrape = Mapping[str, list[tuple[Mapping[str, str], float]]]


@dataclass(frozen=True)
class AlertRule:
    """One rule of the file."""

    alert: str
    expr: str

    def firing(self, scrape: Scrape) -> list[Mapping[str, str]]:
        """Return the labels of the samples for which the expression is true now; for ``absent`` one without labels."""
        if absent := _ABSENT.fullmatch(self.expr):
            return [] if list(_selected(absent, scrape)) else [{}]
        comparison = _COMPARISON.fullmatch(self.expr)
        assert comparison is not None, f"{self.alert}: {self.expr} has a form that is not evaluated here"
        compare, limit = _COMPARE[comparison["compare"]], float(comparison["limit"])
        return [labels for labels, value in _selected(comparison, scrape) if compare(value, limit)]


def alert_rules() -> list[AlertRule]:
    """Return the rules of the file."""
    read: Any = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [AlertRule(each["alert"], each["expr"]) for group in read["groups"] for each in group["rules"]]


def read_scrape(text: str) -> Scrape:
    """Return the samples of an exposition."""
    found: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def firing(scrape: Scrape) -> dict[str, list[Mapping[str, str]]]:
    """Return the alerts whose expression is true on a scrape, with the labels; ``up`` is Prometheus' own, and is 1."""
    seen: Scrape = {**scrape, "up": [({"job": "memtend"}, 1.0)]}
    found = {rule.alert: rule.firing(seen) for rule in alert_rules()}
    return {alert: labels for alert, labels in found.items() if labels}


def _selected(expression: re.Match[str], scrape: Scrape) -> Iterator[tuple[Mapping[str, str], float]]:
    wanted = [found.groupdict() for found in _LABEL.finditer(expression["labels"] or "")]
    for labels, value in scrape.get(expression["metric"], []):
        if all(_MATCH[each["match"]](labels.get(each["name"], ""), each["wanted"]) for each in wanted):
            yield labels, value

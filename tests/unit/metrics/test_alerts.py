"""Alert rules and dashboard: each names metrics and labels that ``/metrics`` has, and is in Prometheus' own form."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from support.alert_rules import RULES, AlertRule, alert_rules, firing, read_scrape
from support.repository import ROOT

from memcore.canary import LATE_AFTER, SLOW_AFTER
from memcore.jobs import Queue
from ops.metrics.exposition import Family
from ops.metrics.families import FAMILIES
from workers.health import STALE_SECONDS

PROMETHEUS = ROOT / "docker" / "prometheus" / "prometheus.yml"
DASHBOARDS = ROOT / "docker" / "grafana" / "dashboards"

#: What Prometheus adds to a histogram's name, and its own metric.
SUFFIXES = {"gauge": ("",), "counter": ("",), "histogram": ("_bucket", "_sum", "_count")}


def families() -> dict[str, Family]:
    return {f"{family.name}{suffix}": family for family in FAMILIES for suffix in SUFFIXES[family.kind]}


def dashboard_expressions() -> Iterator[str]:
    for path in DASHBOARDS.glob("*.json"):
        read: Any = json.loads(path.read_text(encoding="utf-8"))
        for panel in read["panels"]:
            yield from (target["expr"] for target in panel["targets"])


EXPRESSIONS = [*(rule.expr for rule in alert_rules()), *dashboard_expressions()]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_that_a_rule_or_the_dashboard_names_is_shown(expression: str) -> None:
    named = set(re.findall(r"\b(memtend_\w+|up)\b", expression))
    assert named
    assert named <= families().keys() | {"up"}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_label_that_a_rule_or_the_dashboard_names_is_the_metrics_own(expression: str) -> None:
    (metric, *others) = set(re.findall(r"\b(memtend_\w+)\b", expression)) or {"up"}
    assert not others
    has = {"job"} if metric == "up" else {*families()[metric].labels, "le"}
    used = set(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', expression))
    for grouped in re.findall(r"by \(([^)]*)\)", expression):
        used |= set(re.split(r"\s*,\s*", grouped))
    assert used <= has


def test_every_label_in_the_words_of_an_alert_is_its_metrics_own() -> None:
    read: Any = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    rules = [rule for group in read["groups"] for rule in group["rules"]]
    for rule in rules:
        metric = re.findall(r"\b(memtend_\w+|up)\b", rule["expr"])[0]
        words = re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])
        assert set(words) <= set(families()[metric].labels if metric != "up" else ()), rule["alert"]
        assert rule["labels"]["severity"] in {"page", "ticket"}
    assert len({rule["alert"] for rule in rules}) == len(rules)


def test_the_configuration_reads_the_rules_and_sends_the_key() -> None:
    read: Any = yaml.safe_load(PROMETHEUS.read_text(encoding="utf-8"))
    mounts = yaml.safe_load((ROOT / "compose.yml").read_text(encoding="utf-8"))["services"]["prometheus"]["volumes"]
    inside = {mount.rpartition(":ro")[0].rpartition(":")[2] for mount in mounts if mount.endswith(":ro")}
    (job,) = read["scrape_configs"]
    assert {*read["rule_files"], job["authorization"]["credentials_file"]} <= inside


def test_the_doctor_and_the_alerts_have_the_same_limits() -> None:
    limits = {rule.alert: float(rule.expr.rpartition(" ")[2]) for rule in alert_rules() if ">" in rule.expr}
    assert limits["MemtendCanaryLate"] == LATE_AFTER.total_seconds()
    assert limits["MemtendStorePathStandsStill"] == SLOW_AFTER.total_seconds()
    assert limits["MemtendHeartbeatOld"] == STALE_SECONDS


@pytest.mark.parametrize("command", ["rules", "config"])
def test_prometheus_own_tool_accepts_them(command: str) -> None:
    promtool = os.environ.get("MEMTEND_TEST_PROMTOOL") or shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool, which comes with Prometheus, on the path or named by MEMTEND_TEST_PROMTOOL")
    options = ("rules", str(RULES)) if command == "rules" else ("config", "--syntax-only", str(PROMETHEUS))
    done = subprocess.run([promtool, "check", *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("expr", "fires_for"),
    [
        ("memtend_x > 3", ["b"]),
        ("memtend_x >= 3", ["a", "b"]),
        ("memtend_x < 3", []),
        ('memtend_x{queue="a"} == 3', ["a"]),
        ('memtend_x{queue!="a"} > 0', ["b"]),
        ('memtend_x{queue=~"a|c.*"} > 0', ["a"]),
        ('memtend_x{queue!~"a.*"} > 0', ["b"]),
        ("absent(memtend_x)", []),
        ("absent(memtend_y)", [None]),
        ('absent(memtend_x{queue="c"})', [None]),
    ],
)
def test_expressions_mean_here_what_they_mean_to_prometheus(expr: str, fires_for: list[str | None]) -> None:
    scrape = read_scrape('# TYPE memtend_x gauge\nmemtend_x{queue="a"} 3\nmemtend_x{queue="b"} 4\n')
    assert [labels.get("queue") for labels in AlertRule("x", expr).firing(scrape)] == fires_for


def test_an_expression_in_another_form_is_no_quiet_rule() -> None:
    with pytest.raises(AssertionError, match="has a form"):
        AlertRule("x", "rate(memtend_x[5m]) > 1").firing({})


@pytest.mark.parametrize("queue", sorted(set(Queue) - {Queue.FINETUNE}))
def test_jobs_that_wait_for_hours_are_an_alert_on_every_queue(queue: Queue) -> None:
    """A fine-tune run waits for a worker that a person starts."""
    name = "memtend_queue_oldest_seconds"
    waiting = {
        each: firing(read_scrape(f'# TYPE {name} gauge\n{name}{{queue="{queue}"}} {each}\n')) for each in (9, 7_300)
    }
    old = {alert: [{"queue": queue}] for alert in waiting[7_300] if "QueueOld" in alert}
    assert len(old) == 1
    assert waiting[7_300] == waiting[9] | old


@pytest.mark.parametrize(("number", "is_alert"), [(100, False), (101, True)])
def test_many_suspect_memories_within_an_hour_are_an_alert(number: int, is_alert: bool) -> None:
    name = "memtend_suspect_memories_total"
    scrape = read_scrape(f'# TYPE {name} counter\n{name}{{company="acme"}} {number}\n')
    assert ("MemtendSuspectMemories" in firing(scrape)) is is_alert


@pytest.mark.parametrize(("number", "is_alert"), [(0, False), (1, True)])
def test_a_memory_test_that_failed_is_an_alert(number: int, is_alert: bool) -> None:
    name = "memtend_memory_tests_failed"
    scrape = read_scrape(f'# TYPE {name} gauge\n{name}{{company="acme"}} {number}\n')
    assert ("MemtendMemoryTestsFail" in firing(scrape)) is is_alert


def test_a_scrape_without_a_canary_is_an_alert() -> None:
    assert firing(read_scrape("")) == {"MemtendCanaryAbsent": [{}]}


def test_no_service_stands_twice_in_the_compose_file() -> None:
    # YAML's own reader takes the last one of two in silence.
    text = (ROOT / "compose.yml").read_text(encoding="utf-8").partition("\nservices:\n")[2].partition("\nnetworks:")[0]
    names = re.findall(r"^  ([\w-]+):", text, re.MULTILINE)
    assert len(names) == len(set(names)) > 5

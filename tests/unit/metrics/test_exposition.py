"""The text of the metrics, as another parser reads it."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ops.metrics.exposition import Family, Histogram, Samples
from ops.metrics.families import FAMILIES

DEPTH = Family(name="x_jobs", kind="gauge", meaning="Jobs.", labels=("queue",))
TIMES = Family(name="x_seconds", kind="histogram", meaning="Times.")


def test_values_labels_and_histograms_come_back_as_they_were() -> None:
    samples = Samples()
    hard = 'a"b\\c\nd'
    samples.set(DEPTH, 3, queue=hard)
    samples.set(DEPTH, 0.25, queue="plain")
    samples.set(DEPTH, 4, queue=hard)
    times = Histogram((0.1, 1.0))
    for seconds in (0.1, 0.5, 0.5, 7.0):
        times.observe(seconds)
    samples.show(TIMES, times)
    read = {each.name: each for each in text_string_to_metric_families(samples.text((DEPTH, TIMES)))}
    assert {each.labels["queue"]: each.value for each in read["x_jobs"].samples} == {hard: 4.0, "plain": 0.25}
    assert read["x_jobs"].documentation == "Jobs."
    assert {(each.name, each.labels.get("le")): each.value for each in read["x_seconds"].samples} == {
        ("x_seconds_bucket", "0.1"): 1.0,
        ("x_seconds_bucket", "1"): 3.0,
        ("x_seconds_bucket", "+Inf"): 4.0,
        ("x_seconds_count", None): 4.0,
        ("x_seconds_sum", None): pytest.approx(8.1),
    }


@pytest.mark.parametrize("labels", [{}, {"queue": "a", "agent": "b"}, {"agent": "b"}])
def test_a_sample_with_other_labels_than_its_family_is_a_defect(labels: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="has the labels"):
        Samples().set(DEPTH, 1, **labels)


def test_no_family_has_a_label_for_agents_or_texts() -> None:
    assert {label for family in FAMILIES for label in family.labels} == {
        *("company", "part", "queue", "group", "kind", "outcome", "reason", "job"),
        *("purpose", "direction", "stage", "route", "status"),
    }
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.density_corpus import Sample, samples

from memcore.maintenance.consolidation.density import ContentDensity, DensityClassifier
from memcore.models.memory import MemoryCategory, MemoryEntry
from memcore.telemetry.events import Event

HELD_OUT = tuple(sample for sample in samples() if sample.held_out)
JSON = '{"id": "a-1", "tags": ["x", "y"], "score": 0.83}'
CHAT = "I would love to come along, but my sister is in town and we have not seen each other since the spring."


class FullScore(DensityClassifier):
    """Finds every signal full in every text."""

    def score(self, content: str) -> float:  # noqa: ARG002  # whatever the text
        return 1.0


def classify(text: str) -> ContentDensity:
    return DensityClassifier().classify(text)


def accuracy(group: Iterable[Sample]) -> float:
    right = [classify(sample.text) == sample.density for sample in group]
    return sum(right) / len(right)


def wrong(group: Iterable[Sample]) -> int:
    """Return the errors beyond one in ten, of which a group may have one: most groups are small."""
    texts = list(group)
    return sum(classify(sample.text) != sample.density for sample in texts) - len(texts) // 10


def spoken(sample: Sample) -> str:
    return f"{sample.density} {sample.language}"


def grouped(key: Callable[[Sample], str]) -> dict[str, list[Sample]]:
    groups: dict[str, list[Sample]] = defaultdict(list)
    for sample in HELD_OUT:
        groups[key(sample)].append(sample)
    return groups


def entry(content: str, number: int = 0) -> MemoryEntry:
    return MemoryEntry(
        id=f"m{number}",
        agent_id="ada",
        category=MemoryCategory.EPISODIC,
        content=content,
        created_at=datetime(2026, 3, 1, tzinfo=UTC),
    )


def test_nine_in_ten_of_the_held_out_texts_are_classified_right(record_property: Callable[[str, object], None]) -> None:
    record_property("density", f"{accuracy(HELD_OUT):.3f} of {len(HELD_OUT)} held-out texts")
    assert accuracy(HELD_OUT) >= 0.9


@pytest.mark.parametrize("density", list(ContentDensity))
def test_nine_in_ten_of_each_side_are_classified_right(density: ContentDensity) -> None:
    assert accuracy(sample for sample in HELD_OUT if sample.density == density) >= 0.9


def test_nine_in_ten_of_the_texts_that_set_a_trap_are_classified_right() -> None:
    assert accuracy(sample for sample in HELD_OUT if sample.trap) >= 0.9


@pytest.mark.parametrize("kind", sorted(grouped(lambda sample: sample.kind)))
def test_every_kind_of_text_is_told_apart(kind: str) -> None:
    assert wrong(grouped(lambda sample: sample.kind)[kind]) <= 1


@pytest.mark.parametrize("group", sorted(grouped(spoken)))
def test_every_language_is_told_apart_on_both_sides(group: str) -> None:
    assert wrong(grouped(spoken)[group]) <= 1


def test_a_threshold_of_zero_takes_everything_for_dense() -> None:
    assert {DensityClassifier(0.0).classify(text) for text in ("", "  ", CHAT, JSON)} == {ContentDensity.DENSE}


def test_a_threshold_of_one_takes_everything_for_sparse_even_a_full_score() -> None:
    assert {DensityClassifier(1.0).classify(text) for text in ("", CHAT, JSON)} == {ContentDensity.SPARSE}
    assert FullScore(1.0).classify(CHAT) is ContentDensity.SPARSE
    assert FullScore(0.999).classify(CHAT) is ContentDensity.DENSE


@pytest.mark.parametrize(
    ("signal", "weight", "text"),
    [
        ("code", 0.30, '"we came late", she said, "and nobody saw it"'),
        ("structured", 0.25, "  a line that is indented and says nothing else"),
        ("identifiers", 0.20, "they gave maxRetryCount a name that nobody understood"),
        ("numeric", 0.10, "in 1987 they had a house and a dog there"),
        ("line structure", 0.15, "\n" * 10),
    ],
)
def test_each_signal_alone_has_its_weight(signal: str, weight: float, text: str) -> None:
    assert DensityClassifier().score(text) == pytest.approx(weight), signal


@pytest.mark.parametrize("threshold", [-0.01, 1.01, float("nan"), float("inf")])
def test_a_threshold_outside_zero_to_one_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match=r"dense_threshold must be 0\.0 to 1\.0"):
        DensityClassifier(threshold)


def test_a_score_at_the_threshold_is_dense() -> None:
    score = DensityClassifier().score(JSON)
    assert DensityClassifier(score).classify(JSON) is ContentDensity.DENSE
    assert DensityClassifier(min(1.0, score + 1e-9)).classify(JSON) is ContentDensity.SPARSE


@given(st.text(max_size=400))
def test_any_text_has_a_score_and_always_the_same(text: str) -> None:
    score = DensityClassifier().score(text)
    assert 0.0 <= score <= 1.0
    assert DensityClassifier().score(text) == score


@given(st.lists(st.sampled_from([CHAT, JSON]), max_size=8), st.floats(0.0, 1.0))
def test_a_batch_says_of_each_memory_what_it_says_alone_in_the_order_given(texts: list[str], threshold: float) -> None:
    classifier = DensityClassifier(threshold)
    entries = [entry(text, number) for number, text in enumerate(texts)]
    assert classifier.classify_batch(entries) == tuple((each, classifier.classify(each.content)) for each in entries)


def test_a_batch_logs_counts_and_no_text(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        DensityClassifier().classify_batch([entry(CHAT), entry(JSON), entry(CHAT)])
    (record,) = caplog.records
    assert record.message == Event.CONSOLIDATION_DENSITY_CLASSIFIED
    assert (record.__dict__["dense"], record.__dict__["sparse"]) == (1, 2)
    assert "sister" not in str(record.__dict__)

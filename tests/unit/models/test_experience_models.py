from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from memcore.models.experience import CompressedExperience, DetailedExperience
from memcore.models.memory import COMPRESSED_TAG, DETAILED_TAG, MemoryMetadata

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40).filter(str.strip)
ids = texts.map(str.strip)


def tagged(tag: str) -> st.SearchStrategy[MemoryMetadata]:
    others = st.lists(ids, max_size=3)
    return others.map(lambda more: MemoryMetadata(tags=(*more, tag), confidence=0.5))


detailed = st.builds(
    DetailedExperience,
    id=ids,
    agent_id=ids,
    prompt=texts,
    output=texts,
    verification_feedback=st.none() | texts,
    reasoning_trace=st.lists(texts, max_size=4).map(tuple),
    metadata=tagged(DETAILED_TAG),
    created_at=st.just(NOON),
    source_task_id=st.none() | ids,
)
compressed = st.builds(
    CompressedExperience,
    id=ids,
    agent_id=ids,
    strategic_decisions=st.lists(ids, min_size=1, max_size=3).map(tuple),
    applicable_contexts=st.lists(ids, max_size=3).map(tuple),
    source_artifact_ids=st.lists(ids, min_size=1, max_size=3).map(tuple),
    compression_ratio=st.floats(min_value=0.0, max_value=1.0, exclude_min=True),
    compressor_version=ids,
    metadata=tagged(COMPRESSED_TAG),
    created_at=st.just(NOON),
)


def detail(**changes: Any) -> DetailedExperience:
    fields = {"id": "d", "agent_id": "ada", "prompt": "count them", "output": "three", "created_at": NOON}
    return DetailedExperience(**fields | changes)


def compression(**changes: Any) -> CompressedExperience:
    fields = {
        "id": "c",
        "agent_id": "ada",
        "strategic_decisions": ("count twice",),
        "source_artifact_ids": ("d",),
        "compression_ratio": 0.5,
        "compressor_version": "v1",
        "created_at": NOON,
    }
    return CompressedExperience(**fields | changes)


@given(detailed)
def test_a_detailed_experience_is_the_same_after_a_round_trip(value: DetailedExperience) -> None:
    assert DetailedExperience.model_validate(value.model_dump()) == value
    assert DetailedExperience.model_validate_json(value.model_dump_json()) == value


@given(compressed)
def test_a_compressed_experience_is_the_same_after_a_round_trip(value: CompressedExperience) -> None:
    assert CompressedExperience.model_validate(value.model_dump()) == value
    assert CompressedExperience.model_validate_json(value.model_dump_json()) == value


@given(texts)
def test_a_trace_is_kept_to_the_last_space(text: str) -> None:
    padded = f"\n{text}  "
    kept = detail(prompt=padded, output=padded, verification_feedback=padded, reasoning_trace=(padded,))
    assert {kept.prompt, kept.output, kept.verification_feedback, *kept.reasoning_trace} == {padded}


def test_each_tier_carries_its_tag_unasked() -> None:
    assert detail().metadata.tags == ("detailed_experience",)
    assert compression().metadata.tags == ("compressed_experience",)


@pytest.mark.parametrize("tags", [(), ("compressed_experience",), ("detailed",)])
def test_a_detailed_experience_without_its_tag_is_refused(tags: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match=r"metadata\.tags: must contain 'detailed_experience'"):
        detail(metadata=MemoryMetadata(tags=tags))


@pytest.mark.parametrize("tags", [(), ("detailed_experience",), ("compressed",)])
def test_a_compressed_experience_without_its_tag_is_refused(tags: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError, match=r"metadata\.tags: must contain 'compressed_experience'"):
        compression(metadata=MemoryMetadata(tags=tags))


@pytest.mark.parametrize(
    "changes",
    [
        {"strategic_decisions": ()},
        {"source_artifact_ids": ()},
        {"strategic_decisions": (" ",)},
        {"compression_ratio": 0.0},
        {"compression_ratio": -0.1},
        {"compression_ratio": 1.01},
        {"compression_ratio": float("nan")},
        {"compressor_version": " "},
        {"created_at": datetime(2026, 3, 1)},  # noqa: DTZ001  # a time without its zone is what is refused
        {"colour": "red"},
    ],
)
def test_a_compressed_experience_outside_its_limits_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        compression(**changes)


@pytest.mark.parametrize("changes", [{"prompt": " "}, {"output": ""}, {"reasoning_trace": ("\n",)}, {"colour": "red"}])
def test_a_detailed_experience_outside_its_limits_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        detail(**changes)


def test_a_ratio_of_one_is_accepted() -> None:
    assert compression(compression_ratio=1.0).compression_ratio == 1.0

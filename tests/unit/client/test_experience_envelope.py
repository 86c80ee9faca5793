from datetime import timedelta
from typing import Any

import pytest
from support.memories import NOW

from memcore.client.envelopes import ExperienceFields, build_experience_payload
from memcore.errors import MemoryInputError
from memcore.jobs import MAX_PAYLOAD_BYTES, ExperiencePayload
from memcore.models.memory import DETAILED_TAG, MAX_KEY_CHARS, MemoryMetadata
from memcore.models.origin import Channel, Origin, Writer, writing_as


def payload_built(agent_id: str = "ada", *, company: str = "acme", **fields: Any) -> ExperiencePayload:
    said: ExperienceFields = {"prompt": "Why did it fail?", "output": "The disk was full.", **fields}  # type: ignore[typeddict-item]
    return build_experience_payload(agent_id, said, company=company, now=NOW)


def test_the_same_texts_of_one_task_of_one_agent_have_one_id_whenever_they_are_sent() -> None:
    first = payload_built().experience
    assert (
        payload_built(created_at=NOW - timedelta(days=1), metadata=MemoryMetadata(source="x")).experience.id == first.id
    )
    others = [
        payload_built("bob"),
        payload_built(company="globex"),
        payload_built(task_id="t"),
        payload_built(prompt="Why?"),
        payload_built(output="I know not."),
        payload_built(verification_feedback="true"),
        payload_built(reasoning_trace=["true"]),
        payload_built(reasoning_trace=["tr", "ue"]),
    ]
    assert len({first.id, *(each.experience.id for each in others)}) == 9


def test_it_is_stamped_by_its_door_and_a_processs_own_is_a_job_of_the_first_version() -> None:
    own = payload_built()
    with writing_as(Writer(principal="k1")):
        stamped = payload_built()
    assert stamped.origin == Origin(channels=(Channel.AGENT,), principals=("k1",))
    assert (own.version, stamped.version) == (1, 6)
    assert "origin" not in own.model_dump_json()
    assert ExperiencePayload.model_validate_json(stamped.model_dump_json()) == stamped
    assert own.experience.id != stamped.experience.id


def test_everything_travels_and_the_tag_is_there_once() -> None:
    made = payload_built(
        " ada ",
        verification_feedback="it holds",
        reasoning_trace=iter(["look", "think"]),
        task_id="t",
        metadata=MemoryMetadata(source="ticket", confidence=0.5, tags=("urgent", DETAILED_TAG)),
    ).experience
    assert (made.agent_id, made.created_at, made.source_task_id) == ("ada", NOW, "t")
    assert (made.verification_feedback, made.reasoning_trace) == ("it holds", ("look", "think"))
    assert (made.metadata.source, made.metadata.confidence) == ("ticket", 0.5)
    assert made.metadata.tags == (DETAILED_TAG, "urgent")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"prompt": " "}, "prompt"),
        ({"output": "x\ud800"}, "experience"),
        ({"output": "\x01" * (MAX_PAYLOAD_BYTES // 6)}, "experience"),
        ({"reasoning_trace": ["step", ""]}, "reasoning_trace.1"),
        ({"task_id": "t" * (MAX_KEY_CHARS + 1)}, "source_task_id"),
        ({"agent_id": "a\0"}, "agent_id"),
        ({"company": " "}, "company"),
        ({"created_at": NOW.replace(tzinfo=None)}, "created_at"),
    ],
)
def test_what_breaks_a_limit_is_refused_by_name_and_without_its_text(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(MemoryInputError) as refused:
        payload_built(**fields)
    assert refused.value.field == field
    assert len(str(refused.value)) < 200


def test_an_experience_right_at_the_limit_is_sealed() -> None:
    frame = len(payload_built(output="x").experience.model_copy(update={"id": "unnamed"}).model_dump_json()) - 1
    assert payload_built(output="x" * (MAX_PAYLOAD_BYTES - frame))
    with pytest.raises(MemoryInputError, match="the limit is 1048576"):
        payload_built(output="x" * (MAX_PAYLOAD_BYTES - frame + 1))

"""A lesson as a memory: the way through a payload loses nothing."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.lessons import ANSWER, LESSONS, lesson
from support.memories import NOW, record

from memcore.backends.inmemory import InMemoryBackend
from memcore.backends.mem0.points import decode, encode
from memcore.models.memory import MAX_CONTENT_BYTES, MemoryCategory
from memcore.procedural.records import (
    LessonText,
    ProceduralMemoryProposal,
    ProceduralMemoryScope,
    proposal_of,
    read,
    record_of,
    written,
)
from memcore.records import LESSON_KEY, MemoryRecord

DECISIONS = st.fixed_dictionaries(
    {
        "scope": st.sampled_from(ProceduralMemoryScope),
        "supersedes": st.lists(st.sampled_from(["a", "b", "c"]), unique=True),
        "superseded_by": st.sampled_from([None, "d"]),
        "application_count": st.integers(0, 2**40),
        "last_applied_at": st.sampled_from([None, NOW]),
    }
)


def made(proposal: ProceduralMemoryProposal, *, task_id: str = "t", is_success: bool = False) -> MemoryRecord:
    return record_of(proposal, company="acme", agent_id="ada", task_id=task_id, is_success=is_success, created_at=NOW)


def proposed(text: LessonText, **decided: object) -> ProceduralMemoryProposal:
    return ProceduralMemoryProposal.model_validate({**text.model_dump(), **decided})


@given(LESSONS, DECISIONS, st.booleans())
def test_a_lesson_comes_back_as_it_was_from_the_payload_of_a_store(
    text: LessonText, decided: dict[str, object], is_success: bool
) -> None:
    proposal = proposed(text, **decided)
    kept = made(proposal, is_success=is_success)
    payload = json.loads(json.dumps(encode(kept)))
    assert proposal_of(decode(kept.entry.id, payload)) == proposal


@given(LESSONS)
def test_the_sections_say_what_the_lesson_says_whatever_stands_in_it(text: LessonText) -> None:
    assert read(written(text)) == text.model_dump(exclude={"confidence", "tags"})


@pytest.mark.parametrize("line", ["[ACTION]", "\\[ACTION]", "\\\\[EXECUTION]", "[ACTION] ", "1. [ACTION]", "[OTHER]"])
def test_a_line_that_looks_like_a_section_stays_a_line(line: str) -> None:
    text = lesson(condition=f"first\n{line}\n\nlast", execution_steps=[line])
    found = read(written(text))
    assert found is not None
    assert found["condition"] == text.condition
    assert found["execution_steps"] == text.execution_steps


async def test_a_lesson_comes_back_from_a_backend() -> None:
    backend = InMemoryBackend(company="acme", clock=lambda: NOW)
    await backend.connect()
    proposal = proposed(lesson(), scope="org", supersedes=["m1"], application_count=4, last_applied_at=NOW)
    kept = made(proposal)
    await backend.store_many([kept])
    (found,) = await backend.get_many("ada", [kept.entry.id])
    assert proposal_of(found) == proposal


def test_agents_read_sections_under_bracketed_names() -> None:
    lines = made(proposed(lesson())).entry.content.splitlines()
    assert [line for line in lines if line.startswith("[")] == [
        *("[DISCOVERY]", "[CONDITION]", "[ACTION]", "[RATIONALE]", "[EXECUTION]")
    ]
    assert "1. Look at the disk in the shell." in lines


def test_a_failure_and_a_success_say_where_they_come_from() -> None:
    failed, done = made(proposed(lesson())).entry, made(proposed(lesson()), is_success=True).entry
    assert failed.category is MemoryCategory.PROCEDURAL
    assert (failed.metadata.source, done.metadata.source) == ("failure:t", "success:t")
    assert failed.metadata.tags == ("non-inferable", "import", "disk")
    assert done.metadata.tags == ("non-inferable", "success-derived", "import", "disk")
    assert failed.metadata.confidence == ANSWER["confidence"]
    assert len(made(proposed(lesson()), task_id="t" * 256).entry.metadata.source or "") == 256


def test_the_same_lesson_of_the_same_task_is_the_same_memory_and_no_other() -> None:
    first = made(proposed(lesson())).entry.id
    assert first == made(proposed(lesson())).entry.id
    others = {made(proposed(lesson()), task_id="u").entry.id, made(proposed(lesson()), is_success=True).entry.id}
    assert len({first, *others}) == 3


def test_the_longest_lesson_is_a_memory_that_every_store_takes() -> None:
    longest = lesson(
        discovery="x" * 600,
        condition="[ACTION]\n" * 222,
        action="x" * 2_000,
        rationale="x" * 2_000,
        execution_steps=["日" * 350 + "x" * 50] * 48,
    )
    assert len(made(proposed(longest)).entry.content.encode()) <= MAX_CONTENT_BYTES


def test_tags_that_code_adds_later_are_no_part_of_the_lesson() -> None:
    proposal = proposed(lesson())
    kept = made(proposal)
    tags = (*kept.entry.metadata.tags, "propagated:bob", "pinned")
    metadata = kept.entry.metadata.model_copy(update={"tags": tags})
    assert proposal_of(replace(kept, entry=kept.entry.model_copy(update={"metadata": metadata}))) == proposal


@pytest.mark.parametrize(
    "content",
    [
        "",
        "tea",
        "[ACTION]\nx",
        "x\n" + written(lesson()),
        written(lesson()).replace("2. ", "- "),
        "[DISCOVERY]\n\n" * 5,
    ],
)
def test_another_text_is_no_lesson(content: str) -> None:
    strange = record("ada", content or "x", category=MemoryCategory.PROCEDURAL, extra={LESSON_KEY: {}})
    assert proposal_of(strange) is None


@pytest.mark.parametrize("extra", [{}, {LESSON_KEY: "org"}, {LESSON_KEY: {"scope": "world"}}, {LESSON_KEY: None}])
def test_a_text_in_the_form_of_a_lesson_is_none_unless_a_worker_wrote_it(extra: dict[str, object]) -> None:
    assert proposal_of(record("ada", written(lesson()), extra=extra)) is None

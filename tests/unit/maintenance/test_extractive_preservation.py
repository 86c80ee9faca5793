import asyncio

from hypothesis import given
from hypothesis import strategies as st
from support.memories import record

from memcore.maintenance.consolidation.dual_mode import ExtractivePreservationOp, ExtractivePreserver
from memcore.models.archival import ArchivalMode


async def test_the_extracts_stand_in_the_order_of_their_memories_with_a_line_between_them() -> None:
    preserver = ExtractivePreserver(max_facts=3, anchor_length=20)
    talk = "\n" + "and so on " * 40
    texts = [f"port: 80\nhost: mill{talk}", f"see https://example.org/a{talk}", f"just words{talk}"]
    draft = await ExtractivePreservationOp(preserver).write([record("ada", text) for text in texts])
    assert draft.content == "\n---\n".join(preserver.extract(text) for text in texts)


async def test_one_memory_has_no_line_around_it() -> None:
    text = "port: 80\n" + "and so on " * 60
    preserver = ExtractivePreserver(anchor_length=20)
    draft = await ExtractivePreservationOp(preserver).write([record("ada", text)])
    assert draft.content == preserver.extract(text)


@given(st.lists(st.text(min_size=1, max_size=900).filter(str.strip), min_size=1, max_size=4), st.integers(1, 200))
def test_an_extract_is_never_longer_than_its_texts(texts: list[str], anchor_length: int) -> None:
    op = ExtractivePreservationOp(ExtractivePreserver(anchor_length=anchor_length))
    draft = asyncio.run(op.write([record("ada", text) for text in texts]))
    assert len(draft.content) <= len("\n---\n".join(texts))


async def test_a_text_that_is_no_longer_than_its_extract_stands_as_it_is() -> None:
    draft = await ExtractivePreservationOp(ExtractivePreserver()).write([record("ada", "port: 80")])
    assert draft.content == "port: 80"


async def test_the_draft_says_how_it_was_made() -> None:
    draft = await ExtractivePreservationOp(ExtractivePreserver()).write([record("ada")])
    assert draft.tags == ("mode:extractive",)
    assert draft.mode is ArchivalMode.EXTRACTIVE


async def test_the_memory_that_is_kept_is_not_part_of_the_summary() -> None:
    op, sources = ExtractivePreservationOp(ExtractivePreserver()), [record("ada", "port: 80")]
    assert await op.write(sources, kept=record("ada", "kept: yes")) == await op.write(sources)

from support.memories import record

from memcore.maintenance.consolidation.dual_mode import ExtractivePreservationOp, ExtractivePreserver
from memcore.models.archival import ArchivalMode


async def test_the_extracts_stand_in_the_order_of_their_memories_with_a_line_between_them() -> None:
    preserver = ExtractivePreserver(max_facts=3, anchor_length=20)
    texts = ["port: 80\nhost: mill", "see https://example.org/a", "just words"]
    draft = await ExtractivePreservationOp(preserver).write([record("ada", text) for text in texts])
    assert draft.content == "\n---\n".join(preserver.extract(text) for text in texts)


async def test_one_memory_has_no_line_around_it() -> None:
    draft = await ExtractivePreservationOp(ExtractivePreserver()).write([record("ada", "port: 80")])
    assert draft.content == "[Extractive preservation]\nKey facts:\n- port: 80\n[START] port: 80"


async def test_the_draft_says_how_it_was_made() -> None:
    draft = await ExtractivePreservationOp(ExtractivePreserver()).write([record("ada")])
    assert draft.tags == ("mode:extractive",)
    assert draft.mode is ArchivalMode.EXTRACTIVE


async def test_the_memory_that_is_kept_is_not_part_of_the_summary() -> None:
    op, sources = ExtractivePreservationOp(ExtractivePreserver()), [record("ada", "port: 80")]
    assert await op.write(sources, kept=record("ada", "kept: yes")) == await op.write(sources)

"""What replaces another memory is sent behind it, and names it by the id that it has now."""

from collections.abc import Iterator
from contextlib import closing
from uuid import UUID, uuid4, uuid5

import pytest
from support.memories import NOW

from memcore.client.envelopes import ImportRecord, build_payload
from memcore.importers.references import References
from memcore.models.memory import MemoryCategory

ELSEWHERE = UUID("0c5f7d9e-5a3e-4c53-8a77-1f6f0b6a4a11")


def old_id(text: str) -> str:
    return str(uuid5(ELSEWHERE, text))


def said(text: str, *replaced: str) -> ImportRecord:
    return ImportRecord(
        id=old_id(text),
        agent_id="ada",
        category=MemoryCategory.SEMANTIC,
        content=text,
        created_at=NOW,
        supersedes=tuple(map(old_id, replaced)),
    )


@pytest.fixture
def references() -> Iterator[References]:
    with closing(References()) as made:
        yield made


def sent(references: References, records: list[ImportRecord]) -> list[list[str]]:
    """Send all, and return the texts of each round; a superseded id that is none of the new ones is shown as ``?``."""
    texts: dict[str, str] = {}
    rounds: list[list[str]] = []
    part = list(references.sendable(records))
    while part or not rounds:
        replaced = [[texts.get(name, "?") for name in each.supersedes] for each in part]
        new = [build_payload("ada", each.request(), company="acme", sent_at=NOW).id for each in part]
        references.note(part, new)
        texts |= {memory_id: each.content for memory_id, each in zip(new, part, strict=True)}
        rounds.append([" < ".join([each.content, *old]) for each, old in zip(part, replaced, strict=True)])
        part = list(references.released())
    return rounds


def test_a_chain_is_sent_link_by_link_in_whatever_order_it_stands(references: References) -> None:
    records = [said("Rome", "Oslo", "Nice"), said("Oslo", "Bergen"), said("tea"), said("Bergen"), said("Nice")]
    assert sent(references, records) == [["tea", "Bergen", "Nice"], ["Oslo < Bergen"], ["Rome < Oslo < Nice"]]
    assert list(references.released()) == []


def test_one_that_the_file_does_not_have_keeps_its_id(references: References) -> None:
    record = said("Oslo").model_copy(update={"supersedes": (str(known := uuid4()),)})
    assert list(references.sendable([record])) == []
    (released,) = references.released()
    assert released.supersedes == (str(known),)


def test_two_that_replace_one_another_are_sent_all_the_same(references: References) -> None:
    assert sent(references, [said("a", "b"), said("b", "a")]) == [[], ["a < ?", "b < ?"]]


def test_two_that_became_one_are_replaced_once(references: References) -> None:
    twice = [said("Oslo"), said("Oslo").model_copy(update={"id": old_id("another")})]
    assert sent(references, [*twice, said("Rome", "Oslo", "another")])[-1] == ["Rome < Oslo"]

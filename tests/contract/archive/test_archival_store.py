"""What the reference promises of an archival store, and what memtend adds to it."""

import asyncio

import pytest
from support.archive_entries import DAWN, entry

from memcore.errors import MemoryInputError
from memcore.maintenance.archival_store import ArchivalStore
from memcore.models.archival import ArchivalEntry, ArchivalMode
from memcore.models.memory import MemoryCategory, MemoryQuery


async def found(store: ArchivalStore, **query: object) -> list[str]:
    return [each.original_id for each in await store.search("ada", MemoryQuery.model_validate(query))]


async def test_it_keeps_the_protocol(store: ArchivalStore) -> None:
    assert isinstance(store, ArchivalStore)
    assert await store.count("ada") == 0
    assert await store.search("ada", MemoryQuery()) == ()
    assert await store.restore("ada", "nothing") is None


@pytest.mark.parametrize("mode", ArchivalMode)
async def test_what_is_archived_is_handed_out_as_it_was_by_either_id(store: ArchivalStore, mode: ArchivalMode) -> None:
    kept = entry(1, "  Naïve café \u65e5\u672c \0 with\nlines  ", tags=("a", "\u65e5"), mode=mode)
    archival_id = await store.archive(kept)
    assert archival_id != kept.original_id
    assert await store.restore("ada", archival_id) == kept
    assert await store.restore("ada", kept.original_id) == kept
    assert await store.search("ada", MemoryQuery()) == (kept,)
    assert await store.count("ada") == 1


async def test_archiving_the_same_entry_again_is_archiving_it_once(store: ArchivalStore) -> None:
    kept = entry(1, "once")
    ids = await asyncio.gather(*(store.archive(kept) for _ in range(4)))
    assert len(set(ids)) == 1
    assert await store.count("ada") == 1


async def test_of_several_entries_of_one_memory_the_last_archived_answers_to_its_id(store: ArchivalStore) -> None:
    later = entry(1, "once", days_kept=200)
    ids = [await store.archive(later), await store.archive(entry(1, "once", days_kept=100))]
    assert len(set(ids)) == 2
    assert await store.restore("ada", "m1") == later
    assert await store.count("ada") == 2


async def test_words_find_it_in_any_script_and_the_best_match_comes_first(store: ArchivalStore) -> None:
    for number, content in enumerate(
        (
            "Backups run at night and are restored every quarter",
            "The backups of the billing database run at night, and the billing team restores them",
            "\u6bce\u665a\u5907\u4efd\u6570\u636e\u5e93",
            "\u043a\u043e\u043f\u0438\u0438 \u043d\u043e\u0447\u044c\u044e",
        )
    ):
        await store.archive(entry(number, content))
    assert await found(store, text="billing backups") == ["m1", "m0"]
    assert await found(store, text="BILLING") == ["m1"]
    assert await found(store, text="\u5907\u4efd") == ["m2"]
    assert await found(store, text="\u043a\u043e\u043f\u0438\u0438") == ["m3"]
    assert await found(store, text="holiday") == []
    assert await found(store, text="of the") == []


async def test_relevance_is_a_share_of_the_best_there_can_be(store: ArchivalStore) -> None:
    await store.archive(entry(1, "alpha beta gamma delta"))
    assert await found(store, text="alpha", min_relevance=0.6) == ["m1"]
    assert await found(store, text="alpha omega", min_relevance=0.6) == []
    assert await found(store, text="alpha omega", min_relevance=0.3) == ["m1"]
    assert await found(store, text="alpha", min_relevance=1.0) == []


async def test_filters_narrow_with_words_and_without(store: ArchivalStore) -> None:
    await store.archive(entry(1, "tea", category=MemoryCategory.SOCIAL, tags=("a", "b")))
    await store.archive(entry(2, "tea", tags=("a",)))
    await store.archive(entry(3, "coffee", tags=("b",)))
    assert await found(store) == ["m3", "m2", "m1"]
    assert await found(store, limit=1) == ["m3"]
    assert await found(store, text="tea") == ["m2", "m1"]
    assert await found(store, text="tea", tags=["b", "a"]) == ["m1"]
    assert await found(store, tags=["b"]) == ["m3", "m1"]
    assert await found(store, categories=["social", "episodic"]) == ["m1"]
    assert await found(store, namespaces=["default"], limit=2) == ["m3", "m2"]
    assert await found(store, namespaces=["elsewhere"]) == []
    second = entry(2, "tea").created_at
    assert await found(store, since=second) == ["m3", "m2"]
    assert await found(store, until=second) == ["m1"]
    assert await found(store, since=DAWN, until=second, text="tea") == ["m1"]


async def test_a_thousand_matches_come_in_one_answer_and_no_more(store: ArchivalStore) -> None:
    for number in range(30):
        await store.archive(entry(number, f"note {number}"))
    assert len(await found(store, text="note", limit=1000)) == 30
    assert await found(store, text="note", limit=3) == ["m29", "m28", "m27"]


async def test_an_entry_is_refused_whose_memory_could_not_be_kept(store: ArchivalStore) -> None:
    odd = ArchivalEntry.model_construct(**{**dict(entry(1, "x")), "archived_at": DAWN.replace(tzinfo=None)})
    with pytest.raises(MemoryInputError, match="archived_at"):
        await store.archive(odd)

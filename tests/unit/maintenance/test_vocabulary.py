"""Which words are rare."""

import pytest
from support.maintenance_fixture import AGENT, COMPANY, memory, uid

from memcore.backends.inmemory import InMemoryBackend
from memcore.embedding.bm25 import Vocabulary
from memcore.maintenance.consolidation import factory
from memcore.maintenance.consolidation.factory import CorpusVocabulary


def test_a_word_of_fewer_texts_is_rarer_and_how_often_one_text_says_it_does_not_matter() -> None:
    words = Vocabulary(["good pottery pottery", "good trains", "good", "good trains"])

    assert words.rarity("potteri") > words.rarity("train") > words.rarity("good") > 0.0
    assert words.rarity("never") > words.rarity("potteri")


def test_words_are_counted_as_terms() -> None:
    words = Vocabulary(["The Adoptions"])

    assert words.terms_of(["an adoption"]) == [{"adopt"}]
    assert words.rarity("adopt") < words.rarity("the")


def test_an_empty_one_finds_every_word_alike() -> None:
    words = Vocabulary()

    assert words.is_empty
    assert words.rarity("a") == words.rarity("b") > 0.0


async def test_an_agents_memories_are_read_once_and_those_of_others_never() -> None:
    backend = InMemoryBackend(company=COMPANY)
    await backend.connect()
    await backend.store_many([memory(n, content="good pottery" if n == 1 else "good") for n in range(1, 4)])
    await backend.store_many([memory(9, content="pottery", agent_id="bob")])
    remembered = CorpusVocabulary(backend)

    words = await remembered(AGENT)

    assert words.rarity("potteri") > words.rarity("good")
    await backend.delete_many(AGENT, [uid(1)])
    assert await remembered(AGENT) is words
    assert (await remembered("bob")).rarity("potteri") < words.rarity("potteri")


async def test_the_newest_are_read_and_no_more_than_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factory, "ENOUGH_MEMORIES", 2)
    backend = InMemoryBackend(company=COMPANY)
    await backend.connect()
    await backend.store_many([memory(n, days_old=100 - n, content=f"word{n}") for n in range(1, 6)])

    words = await CorpusVocabulary(backend)(AGENT)

    assert words.rarity("word5") == words.rarity("word4") < words.rarity("word3")

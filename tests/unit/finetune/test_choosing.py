"""Selection of passages for a model's questions."""

import random
from collections import Counter

from memcore.finetune.dataset import chosen
from memcore.finetune.documents import Owned, Passage


def owned(agent_id: str, text: str) -> Owned:
    return Owned(agent_id=agent_id, passage=Passage(text=text, source="memory"))


MEMORIES = [owned(agent, f"{agent} saw hall {number}") for agent in ("ada", "bob", "cy") for number in range(20)]
DOCUMENTS = [owned("the house", f"page {number}") for number in range(100)]


def test_documents_and_memories_and_of_these_the_agents_come_by_turns() -> None:
    owners = Counter(each.agent_id for each in chosen(MEMORIES, DOCUMENTS, most=12, seed=1))
    assert owners == {"the house": 6, "ada": 2, "bob": 2, "cy": 2}


def test_whoever_has_much_gets_what_others_leave() -> None:
    memories = [*MEMORIES[:20], owned("bob", "tea is at four")]
    assert Counter(each.agent_id for each in chosen(memories, [], most=10, seed=1)) == {"ada": 9, "bob": 1}
    assert len(chosen(memories, [], most=100, seed=1)) == 21


def test_the_lot_hangs_on_the_seed_and_not_on_the_order() -> None:
    shuffled = random.Random(3).sample(MEMORIES, len(MEMORIES))
    first = chosen(MEMORIES, DOCUMENTS, most=12, seed=1)
    assert chosen(shuffled, reversed(DOCUMENTS), most=12, seed=1) == first
    assert chosen(MEMORIES, DOCUMENTS, most=12, seed=2) != first


def test_a_text_is_asked_about_once() -> None:
    same = [owned("ada", "tea is at four"), owned("bob", "tea is at four"), owned("bob", "the gate is shut")]
    assert len(chosen(same, [owned("the house", "tea is at four")], most=9, seed=1)) == 2


def test_nobody_is_asked_where_nobody_may_be() -> None:
    assert chosen(MEMORIES, DOCUMENTS, most=0, seed=1) == []

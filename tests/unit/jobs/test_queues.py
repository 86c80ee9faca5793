from collections import Counter

import pytest

from memcore.jobs import BULK_ABOVE, STORE_SHARDS, Queue, store_queue


def test_an_agent_always_waits_in_the_same_shard() -> None:
    # written down: another process, release or machine must choose the same
    chosen = {agent_id: str(store_queue(agent_id)) for agent_id in ("ada", "bob", "日本")}
    assert chosen == {"ada": "memory.store.3", "bob": "memory.store.2", "日本": "memory.store.2"}


def test_agents_spread_over_all_shards() -> None:
    spread = Counter(store_queue(f"agent-{number}") for number in range(4_000))
    assert set(spread) == set(STORE_SHARDS)
    assert min(spread.values()) > 900


@pytest.mark.parametrize("count", [1, BULK_ABOVE])
def test_what_an_agent_sends_at_the_end_of_a_step_goes_to_its_shard(count: int) -> None:
    assert store_queue("ada", count=count) == store_queue("ada")


def test_many_at_once_take_the_bulk_queue_whoever_sends_them() -> None:
    assert {store_queue(f"agent-{number}", count=BULK_ABOVE + 1) for number in range(9)} == {Queue.STORE_BULK}


def test_shards_are_queues_of_their_own_beside_the_old_name() -> None:
    assert len(set(STORE_SHARDS)) == 4
    assert {Queue.STORE, Queue.STORE_BULK}.isdisjoint(STORE_SHARDS)

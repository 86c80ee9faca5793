"""Which passages a model is asked about: by lot, and so that each owner has a turn."""

import hashlib
import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice, zip_longest

from memcore.finetune.passage import Owned


def chosen(memories: Iterable[Owned], documents: Iterable[Owned], *, most: int, seed: int) -> list[Owned]:
    """Return at most so many passages, each text once, documents and memories by turns, and of these agents by turns.

    The same passages, in whatever order, and the same seed give the same ones.

    Args:
        memories: of any agents.
        documents: of the organisation; of many, only as many are kept in memory as can be chosen.
        most: how many.
        seed: of the lot.
    """

    def lot(owned: Owned) -> str:
        # By the text, not by its place: a passage more does not change what is drawn of the others.
        return hashlib.sha256(f"{seed}|{owned.agent_id}|{owned.passage.text}".encode()).hexdigest()

    of_agents: dict[str, list[Owned]] = defaultdict(list)
    for owned in sorted(memories, key=lot):
        of_agents[owned.agent_id].append(owned)
    agents = (of_agents[agent_id] for agent_id in sorted(of_agents))
    turns = _by_turns(heapq.nsmallest(most, documents, key=lot), _by_turns(*agents))
    return list(islice(_each_text_once(turns), most))


def _by_turns(*rows: Iterable[Owned]) -> Iterator[Owned]:
    for turn in zip_longest(*rows):
        yield from (owned for owned in turn if owned is not None)


def _each_text_once(every: Iterable[Owned]) -> Iterator[Owned]:
    seen: set[str] = set()
    for owned in every:
        if owned.passage.text not in seen:
            seen.add(owned.passage.text)
            yield owned

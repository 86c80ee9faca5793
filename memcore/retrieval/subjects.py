"""Subjects: memories of a prompt that are about one thing stand together by date, so that a change is read as one."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import combinations

from memcore.backends.current import ALIKE
from memcore.backends.evidence import question_terms, terms_of
from memcore.retrieval.formatting import BETWEEN_MEMORIES, memory_block
from memcore.retrieval.protocol import ScoredMemory, TokenEstimator

#: Memories that may share a word of the question and be one subject by it: so many, or this part of a longer prompt.
#: What more of them have says nothing about what one is about.
_RARE, _PART = 3, 4


def by_subject(question: str, memories: Sequence[ScoredMemory]) -> tuple[ScoredMemory, ...]:
    """Return the memories of a prompt with those of one subject together, the newest last, and each with its place.

    A subject stands where its first memory stood. Two memories are about one subject where both have a word of the
    question that few others have, where most of their words are the same and few others have these, where one
    superseded the other, or is shown because it is newer; and so are all that are linked by such pairs. An agent's own
    and shared ones are apart. Facts of the organisation have no subject: only what holds is shown of them.
    """
    group_of = list(range(len(memories)))
    for is_shared in (False, True):
        part = {
            place: memory
            for place, memory in enumerate(memories)
            if memory.is_shared is is_shared and not memory.is_fact
        }
        for one, other in _pairs(question, part):
            first, last = sorted((group_of[one], group_of[other]))
            group_of = [first if group == last else group for group in group_of]
    groups: defaultdict[int, list[ScoredMemory]] = defaultdict(list)
    for group, memory in zip(group_of, memories, strict=True):
        groups[group].append(memory)
    return tuple(each for group in groups.values() for each in _by_date(group))


def marked_within(
    memories: Sequence[ScoredMemory], *, estimator: TokenEstimator, token_budget: int
) -> tuple[ScoredMemory, ...]:
    """Return the memories, the last subjects without their marks where the budget does not hold these."""
    marked = list(memories)
    for place in reversed(range(len(marked))):
        if marked[place].place_in_subject == 1:
            continue
        if estimator.estimate_tokens(BETWEEN_MEMORIES.join(map(memory_block, marked))) <= token_budget:
            break
        marked[place] = marked[place].model_copy(update={"place_in_subject": 1, "subject_size": 1})
    return tuple(marked)


def _pairs(question: str, memories: Mapping[int, ScoredMemory]) -> Iterator[tuple[int, int]]:
    """Yield the pairs that are about one subject, by place."""
    asked, most = question_terms(question), max(_RARE, len(memories) // _PART)
    words = {place: terms_of(memory.entry.content) for place, memory in memories.items()}
    having = Counter(word for each in words.values() for word in each)
    for one, other in combinations(memories, 2):
        common, entries = words[one] & words[other], (memories[one].entry, memories[other].entry)
        is_asked = any(having[word] <= most for word in common & asked)
        is_alike = len(common) > 1 and 2 * len(common) >= ALIKE * (len(words[one]) + len(words[other]))
        if (
            is_asked
            or (is_alike and sum(map(common.issubset, words.values())) <= most)
            or entries[0].superseded_by == entries[1].id
            or entries[1].superseded_by == entries[0].id
            or memories[one].older_id == entries[1].id
            or memories[other].older_id == entries[0].id
        ):
            yield one, other


def _by_date(group: Sequence[ScoredMemory]) -> list[ScoredMemory]:
    by_id = {each.entry.id: each for each in group}

    def key(memory: ScoredMemory) -> tuple[datetime, bool, str]:
        # A person may say of an older one that it holds.
        entry, successor = memory.entry, by_id.get(memory.entry.superseded_by or "")
        at = entry.last_stated_at if successor is None else min(entry.last_stated_at, successor.entry.last_stated_at)
        return at, successor is None, entry.id

    return [
        each.model_copy(update={"place_in_subject": place, "subject_size": len(group)})
        for place, each in enumerate(sorted(group, key=key), start=1)
    ]

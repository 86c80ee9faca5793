"""From ranked memories to messages: as many as the budget holds, each in its fence, the directive before them."""

from collections.abc import Sequence

from memcore.chat_message import ChatMessage, MessageRole
from memcore.config.injection import InjectionPoint
from memcore.fence import TAG_MEMORY_ENTRY, untrusted_content_directive, wrap_untrusted
from memcore.org.shown_fact import category_in
from memcore.retrieval.memory_filter import NON_INFERABLE_GUIDANCE
from memcore.retrieval.scored_memory import ScoredMemory
from memcore.retrieval.token_estimator import TokenEstimator

_BETWEEN = "\n"

_ROLES = {InjectionPoint.SYSTEM: MessageRole.SYSTEM, InjectionPoint.USER: MessageRole.USER}


def format_memory_context_with_directive(
    memories: Sequence[ScoredMemory],
    *,
    estimator: TokenEstimator,
    token_budget: int,
    injection_point: InjectionPoint = InjectionPoint.SYSTEM,
) -> tuple[ChatMessage, ...]:
    """Return the directive and the message with the memories that fit, or nothing when none fits.

    Args:
        memories: best first.
        estimator: counts tokens.
        token_budget: most tokens of the message with the memories; the directive is not charged.
        injection_point: the role of that message; the directive always speaks as the system.
    """
    fitting = fit_memories(memories, estimator=estimator, token_budget=token_budget)
    return format_fitting(fitting, injection_point=injection_point)


def fit_memories(
    memories: Sequence[ScoredMemory], *, estimator: TokenEstimator, token_budget: int
) -> tuple[ScoredMemory, ...]:
    """Return the memories that the budget holds: one that is too long is passed over, and smaller ones may follow."""
    places = fit([_block(memory) for memory in memories], estimator=estimator, token_budget=token_budget)
    return tuple(memories[place] for place in places)


def format_fitting(memories: Sequence[ScoredMemory], *, injection_point: InjectionPoint) -> tuple[ChatMessage, ...]:
    """Return the messages for memories that fit, with no further look at their length."""
    if not memories:
        return ()
    return (
        ChatMessage(role=MessageRole.SYSTEM, content=MEMORY_DIRECTIVE),
        ChatMessage(role=_ROLES[injection_point], content=_BETWEEN.join(map(_block, memories))),
    )


def fit(texts: Sequence[str], *, estimator: TokenEstimator, token_budget: int) -> list[int]:
    """Return the places of the texts that fit together, a line break between them, taken greedily in their order."""
    gap = estimator.estimate_tokens(_BETWEEN)
    places: list[int] = []
    left = token_budget
    for place, text in enumerate(texts):
        cost = estimator.estimate_tokens(text) + (gap if places else 0)
        if cost <= left:
            places.append(place)
            left -= cost
    # The whole may take more tokens than its parts: four characters to a token are rounded down for each.
    while places and estimator.estimate_tokens(_BETWEEN.join(texts[place] for place in places)) > token_budget:
        places.pop()
    return places


def _block(memory: ScoredMemory) -> str:
    kind: str = memory.entry.category
    origin = "[shared] " if memory.is_shared else ""
    if memory.is_fact:
        kind, origin = category_in(memory.entry.namespace), "[organisation] "
    line = f"{origin}[{kind} {memory.combined_score:.2f}] {memory.entry.content}"
    return wrap_untrusted(TAG_MEMORY_ENTRY, line)


#: What stands before the memories: what the fences mean, and what is worth a memory.
MEMORY_DIRECTIVE = f"{untrusted_content_directive(TAG_MEMORY_ENTRY)} {NON_INFERABLE_GUIDANCE}"

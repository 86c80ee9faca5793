"""What a model is told when it merges memories: our instructions, and the memories as fenced data."""

from collections.abc import Sequence

from memcore.backends.record import MemoryRecord
from memcore.chat_message import ChatMessage, MessageRole
from memcore.fence import untrusted_content_directive, wrap_untrusted

#: The fence around one memory.
ENTRY_TAG = "entry"

#: The fence around one trajectory.
TRAJECTORY_TAG = "trajectory"

#: Words that an answer may have, for each token of its limit: three quarters, for most languages need more tokens.
_WORDS_PER_TOKEN = 0.6

_MERGE = (
    "You merge the memories of an AI agent into one. Write one text that keeps every name, number, date, decision, "
    "reason, preference and open question, each once. Where two memories contradict each other, keep both and say "
    "which is newer. Add nothing that they do not say. Write in their language, without a heading or a remark of your "
    "own, in at most {words} words."
)

_SHORTEN = (
    "You shorten one memory of an AI agent. Keep every name, number, date, decision and reason; leave out what says "
    "nothing. Add nothing. Write in its language, without a heading or a remark of your own, in at most {words} words."
)

_CONTEXT = "What the agent was doing when these memories were made:"


def merge_messages(
    sources: Sequence[MemoryRecord], *, trajectories: Sequence[str], max_tokens: int, max_entry_chars: int
) -> tuple[ChatMessage, ...]:
    """Return the prompt that merges memories, oldest first.

    Args:
        sources: the memories; each is cut to ``max_entry_chars``.
        trajectories: recent ones, already cut; data as well.
        max_tokens: longest answer.
        max_entry_chars: characters of each memory that the model sees.
    """
    system = [_MERGE.format(words=int(max_tokens * _WORDS_PER_TOKEN)), untrusted_content_directive(ENTRY_TAG)]
    if trajectories:
        system += [untrusted_content_directive(TRAJECTORY_TAG), _CONTEXT]
        system += [wrap_untrusted(TRAJECTORY_TAG, text) for text in trajectories]
    entries = (_entry(source, max_entry_chars) for source in sources)
    return _messages("\n\n".join(system), "\n".join(entries))


def shorten_messages(source: MemoryRecord, *, max_tokens: int, max_entry_chars: int) -> tuple[ChatMessage, ...]:
    """Return the prompt that shortens one memory."""
    words = int(max_tokens * _WORDS_PER_TOKEN)
    system = f"{_SHORTEN.format(words=words)}\n\n{untrusted_content_directive(ENTRY_TAG)}"
    return _messages(system, _entry(source, max_entry_chars))


def _entry(source: MemoryRecord, max_chars: int) -> str:
    entry = source.entry
    return wrap_untrusted(ENTRY_TAG, f"{entry.created_at:%Y-%m-%d}: {entry.content[:max_chars]}")


def _messages(system: str, user: str) -> tuple[ChatMessage, ...]:
    return (
        ChatMessage(role=MessageRole.SYSTEM, content=system),
        ChatMessage(role=MessageRole.USER, content=user),
    )

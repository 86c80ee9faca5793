"""The question to the model: what an agent went through, as data behind fences."""

from collections.abc import Iterator

from memcore.chat_message import ChatMessage, MessageRole
from memcore.experience_models import DetailedExperience
from memcore.fence import untrusted_content_directive, wrap_untrusted

#: The fence around each part of an experience.
TAG_EXPERIENCE = "experience-part"

#: Most characters of each part that the model reads: together 20,000, some 5,000 tokens. What is longer keeps its
#: beginning and its end, where tasks and results stand.
PROMPT_CHARS = 4_000
TRACE_CHARS = 8_000
OUTPUT_CHARS = 6_000
VERIFICATION_CHARS = 2_000

#: Share of a part that is too long which its beginning gets.
_HEAD = 2 / 3

_INSTRUCTIONS = f"""\
You compress what an AI agent went through into what it can use the next time.
Answer with JSON of two keys and nothing else:
"strategic_decisions": what worked and what did not, 1 to 12 sentences, the most useful first, each clear by itself.
"applicable_contexts": when and where that holds, at most 8 sentences.
Be much shorter than what you read. Keep the names, numbers, commands and error messages that matter as they are.
Say nothing that does not stand there. Write in the language of the experience.
{untrusted_content_directive(TAG_EXPERIENCE)}"""


def messages_of(experience: DetailedExperience) -> tuple[ChatMessage, ...]:
    """Return the messages: the instructions, then the experience."""
    content = "\n\n".join(
        f"{title}:\n{wrap_untrusted(TAG_EXPERIENCE, clipped(text, most))}" for title, text, most in _parts(experience)
    )
    return (
        ChatMessage(role=MessageRole.SYSTEM, content=_INSTRUCTIONS),
        ChatMessage(role=MessageRole.USER, content=content),
    )


def raw_chars(experience: DetailedExperience) -> int:
    """Return the length of all texts of an experience, also of what the model does not read."""
    texts = (experience.prompt, experience.output, experience.verification_feedback or "", *experience.reasoning_trace)
    return sum(map(len, texts))


def clipped(text: str, most: int) -> str:
    """Return the text, or its beginning and its end with a word on what is left out; the word comes on top."""
    if len(text) <= most:
        return text
    head = int(most * _HEAD)
    left_out = len(text) - most
    return f"{text[:head]}\n[... {left_out} characters left out ...]\n{text[head + left_out :]}"


def _parts(experience: DetailedExperience) -> Iterator[tuple[str, str, int]]:
    yield "What the agent was asked", experience.prompt, PROMPT_CHARS
    if experience.reasoning_trace:
        yield "The steps that it took", "\n\n".join(experience.reasoning_trace), TRACE_CHARS
    yield "What it answered", experience.output, OUTPUT_CHARS
    if experience.verification_feedback is not None:
        yield "What a check said of the answer", experience.verification_feedback, VERIFICATION_CHARS

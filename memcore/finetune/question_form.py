"""The question to a model: what people would ask to find a passage; and the form of its answer."""

import unicodedata
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from memcore.chat_message import ChatMessage, MessageRole
from memcore.experience.prompt import clipped
from memcore.fence import untrusted_content_directive, wrap_untrusted
from memcore.finetune.passage import Passage
from memcore.finetune.questions import MAX_QUESTION_CHARS
from memcore.frozen import Frozen
from memcore.llm.completion import CompletionRequest

#: Raise it with any change of the instructions: the same passage is then another question.
VERSION = "finetune-questions-v1"

#: The fence around the passage.
TAG_PASSAGE = "passage"

#: Most characters of a passage that the model reads; what is longer keeps its beginning and its end.
PASSAGE_CHARS = 4_000

#: Most questions of one answer, as a plan allows.
MAX_QUESTIONS = 8

#: Longest answer, in tokens: the JSON around them, and each question.
_TOKENS = 128
_TOKENS_OF_QUESTION = 128

#: Control characters, halves of characters, and what breaks a line: no person types them into a search.
_REFUSED = frozenset({"Cc", "Cs", "Zl", "Zp"})

_INSTRUCTIONS = f"""\
You are shown a passage of a team's notes. Write what people would ask who need what it says and have not seen it.
Answer with JSON of one key and nothing else:
"questions": {{count}} different questions, each one line of at most {MAX_QUESTION_CHARS} characters.
Ask in other words than those of the passage where people would; keep the names and numbers that tell it from others.
Ask nothing that the passage does not answer. Write in the language of the passage.
{untrusted_content_directive(TAG_PASSAGE)}"""


def _plain(value: str) -> str:
    if any(unicodedata.category(each) in _REFUSED for each in value):
        raise ValueError("must be one line without control characters")
    return value


_Question = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_QUESTION_CHARS),
    AfterValidator(_plain),
]


class WrittenQuestions(Frozen):
    """What a model answers.

    Attributes:
        questions: 1 to 8, of at most 200 characters each.
    """

    questions: tuple[_Question, ...] = Field(min_length=1, max_length=MAX_QUESTIONS)


def request_for(passage: Passage, *, count: int, model: str | None) -> CompletionRequest:
    """Return what a model is asked: the instructions, then the passage as data behind a fence."""
    shown = wrap_untrusted(TAG_PASSAGE, clipped(passage.text, PASSAGE_CHARS))
    return CompletionRequest(
        messages=(
            ChatMessage(role=MessageRole.SYSTEM, content=_INSTRUCTIONS.format(count=count)),
            ChatMessage(role=MessageRole.USER, content=shown),
        ),
        model=model,
        max_tokens=_TOKENS + count * _TOKENS_OF_QUESTION,
    )

"""Questions to an agent's memory, and their answers: sentences with the memories that they rest on."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from pydantic import Field

from memcore.models.answers import Standing
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.memory import BoundedTime, MemoryCategory, TimeZone
from memcore.models.origin import Authority

#: Longest question, in characters; the embedder reads no more of one.
MAX_QUESTION_CHARS = 4_000

#: Tokens of passages that the model reads, where the caller names none, and the most.
ASK_TOKENS, MAX_ASK_TOKENS = 1_000, 32_000

#: Seconds that the model has, where the caller names none, and the most: an answer over HTTP has 30 in all.
ASK_SECONDS, MAX_ASK_SECONDS = 20.0, 600.0


class MemoryQuestion(Frozen):
    """A question to be answered from an agent's memory.

    Attributes:
        categories: any of these categories alone.
        time_zone: the asker's, such as ``Europe/Berlin``, for words such as "yesterday"; the policy's when left out.
        min_authority: the least authority of a memory that the answer may rest on, as in a search.
        token_budget: most tokens of the passages that the model reads.
        timeout_seconds: how long the model is waited for; after that the passages are the answer.
    """

    question: NotBlankStr = Field(max_length=MAX_QUESTION_CHARS)
    categories: frozenset[MemoryCategory] | None = None
    time_zone: TimeZone | None = None
    min_authority: Authority | None = None
    token_budget: int = Field(default=ASK_TOKENS, ge=1, le=MAX_ASK_TOKENS, strict=True)
    timeout_seconds: float = Field(default=ASK_SECONDS, gt=0.0, le=MAX_ASK_SECONDS)


class AnsweredBy(StrEnum):
    """What the answer is: a model's sentences, the passages alone, or nothing, where it is not known."""

    MODEL = "model"
    PASSAGES = "passages"
    NOTHING = "nothing"


class NoSentences(StrEnum):
    """Why an answer has no sentences.

    It is not known: no memory surely answers (``not_found``), the model says that none of them does (``not_said``), or
    nothing that it wrote rests on them (``not_grounded``). Else no model answered: none is configured (``no_model``),
    the agent's budget is used up (``budget``), it took too long (``time``), or it failed (``model_failed``).
    """

    NOT_FOUND = "not_found"
    NOT_SAID = "not_said"
    NOT_GROUNDED = "not_grounded"
    NO_MODEL = "no_model"
    BUDGET = "budget"
    TIME = "time"
    MODEL_FAILED = "model_failed"

    @property
    def answered_by(self) -> AnsweredBy:
        """What the answer is then."""
        is_unknown = self in {NoSentences.NOT_FOUND, NoSentences.NOT_SAID, NoSentences.NOT_GROUNDED}
        return AnsweredBy.NOTHING if is_unknown else AnsweredBy.PASSAGES


class Whose(StrEnum):
    """Whose a memory is: the agent's own, what another agent shared, or a fact of the organisation."""

    OWN = "own"
    SHARED = "shared"
    ORGANISATION = "organisation"


class AnswerPassage(Frozen):
    """A memory that was found for a question, or the sentences of it that match, with its dates and whose it is.

    Attributes:
        is_part: whether only some sentences of it are shown.
        date: the day it is from, as ``2026-05-01``, or the days that it covers.
        by: the agent that shared it, or who wrote the fact, where that is known.
        source: where it comes from, as its writer says.
        valid_from, valid_until: when what it says holds.
        superseded_by, superseded_at: the memory that replaced it, and when: it is no longer true since.
    """

    memory_id: str
    text: str
    is_part: bool = False
    category: MemoryCategory
    date: str
    whose: Whose
    by: str | None = None
    source: str | None = None
    standing: Standing | None = None
    valid_from: BoundedTime | None = None
    valid_until: BoundedTime | None = None
    superseded_by: str | None = None
    superseded_at: BoundedTime | None = None


class AnswerSentence(Frozen):
    """A sentence of an answer, which the memories with these ids bear out.

    Attributes:
        is_superseded: whether each of them was replaced since: it says what was, and holds no more.
    """

    text: str
    memory_ids: tuple[str, ...]
    is_superseded: bool = False


class FoundPassages(Frozen):
    """What was found for a question, before a model is asked.

    Attributes:
        degraded: the parts that did not answer, so that memories may be missing.
    """

    passages: tuple[AnswerPassage, ...]
    degraded: tuple[str, ...] = ()


class Answer(FoundPassages):
    """An answer: sentences with the ids that they rest on, or none, and the passages that were found.

    Attributes:
        answered_by: ``model``, ``passages`` where no model answered, or ``nothing`` where it is not known.
        reason: why there are no sentences; None where there are.
    """

    answered_by: AnsweredBy
    sentences: tuple[AnswerSentence, ...] = ()
    reason: NoSentences | None = None

    @property
    def text(self) -> str:
        """The sentences; empty where there are none."""
        return " ".join(each.text for each in self.sentences)

    def parts(self) -> "tuple[AskEvent, ...]":
        """Return what a stream has of it: each sentence, and the whole."""
        return (*self.sentences, self)


#: What a stream of an answer has, in this order: what was found, each sentence, and the whole answer.
AskEvent: TypeAlias = FoundPassages | AnswerSentence | Answer

#: What each part is called over HTTP.
EVENT_OF: Mapping[type[AskEvent], str] = {FoundPassages: "passages", AnswerSentence: "sentence", Answer: "answer"}

"""Probes: questions on memories that are to be merged, recorded, asked for from a model, or drawn from their words."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pydantic import Field

from memcore.config.maintenance import (
    ASKING_STRATEGIES,
    ConsolidationConfig,
    ConsolidationStrategyType,
    LLMConsolidationConfig,
)
from memcore.embedding.bm25 import Tokenizer
from memcore.embedding.sentences import part_rows, part_sentences
from memcore.llm.grounding import Grounds, Kind
from memcore.llm.protocol import CompletionRequest
from memcore.llm.reading import AnswerForm, UnreadAnswerError, read_form
from memcore.maintenance.consolidation.llm import ENTRY_TAG, Question, digests, entries_prompt
from memcore.models.base import NotBlankStr
from memcore.models.execution import prompt
from memcore.records import MemoryRecord
from memcore.untrusted_text import untrusted_content_directive

#: Most probes of a group, and of each group after so many: more would cost over a fifth of a long run's time.
MOST_PROBES, MOST_LATER, LATER_FROM = 2, 1, 20

#: Most probes of a group that a model asks for, beside the others.
MOST_ASKED = 2

#: Most recorded questions that are probes of a group, beside the others: those for which its memories came first.
MOST_RECORDED = 1

#: Fewer words than this make no question with an answer.
_LEAST_WORDS = 2

#: How much more telling than its rarity a name, a number or a date is.
_NAMED = 2.0

_tokenizer = Tokenizer()


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A question, and the term that answers it."""

    question: str
    answer: str


def probes_of(
    texts: Sequence[str], summary: str, *, rarity: Callable[[str], float], most: int = MOST_PROBES
) -> tuple[Probe, ...]:
    """Return at most so many probes; the same for the same texts.

    They ask about sentences that the summary does not say word for word, or about all where it says all: what it keeps
    is seldom lost. They are spread evenly.
    """
    every = [(passage, sentence in summary) for passage, sentence in _sentences(texts)]
    passages = [text for text, is_kept in every if not is_kept] or [text for text, _ in every]
    bounds = [number * len(passages) // most for number in range(most + 1)]
    found: dict[Probe, None] = {}
    for start, stop in pairwise(bounds):
        # From the middle on: the first passage of a text is its most usual one.
        middle = (start + stop) // 2
        probes = (_probe(each, rarity) for each in (*passages[middle:stop], *passages[start:middle]))
        if probe := next(filter(None, probes), None):
            found[probe] = None
    return tuple(found)


def recorded_probe(question: str, text: str, summary: str, *, rarity: Callable[[str], float]) -> Probe | None:
    """Return a question that was really asked, with the most telling word that the best sentence for it says beside it.

    The best one shares the rarest words with the question. None where the summary says it word for word, or where no
    sentence shares a word with the question and says another: nobody could tell whether it was answered.
    """
    asked = frozenset(_tokenizer.terms(question))
    best, answer, is_kept = 0.0, "", True
    for passage, sentence in _sentences([text]):
        if asked.isdisjoint(_tokenizer.terms(passage)):
            continue
        words = _telling_words(passage, rarity)
        shared = sum(rarity(word) for _, term, word in words if term in asked)
        said = next((term for _, term, _ in words if term not in asked), None)
        if said is not None and shared > best:
            best, answer, is_kept = shared, said, sentence in summary
    return None if is_kept else Probe(question=question, answer=answer)


def _sentences(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each sentence of the texts, with the day and the person of its line and without."""
    for text in texts:
        for label, rest in part_rows(text):
            for sentence in part_sentences(rest):
                yield f"{label.when} {label.who} {sentence}", sentence


def _probe(passage: str, rarity: Callable[[str], float]) -> Probe | None:
    words = _telling_words(passage, rarity)
    if len(words) < _LEAST_WORDS:
        return None
    # People ask with usual words for the telling one. With all rare words in the question anything is found.
    answer, *others = words
    asked = others[1:3] or others
    return Probe(question=" ".join(word for _, _, word in sorted(asked)), answer=answer[1])


def _telling_words(passage: str, rarity: Callable[[str], float]) -> list[tuple[int, str, str]]:
    """Return the place, term and form of each word, the most telling first; each term once."""
    found: dict[str, tuple[float, int, str]] = {}
    starts_sentence = True
    for token in passage.split():
        is_name = not starts_sentence and token.lstrip("\"'([*_")[:1].isupper()
        for word in _tokenizer.words(token):
            for term in _tokenizer.both_terms(word)[0]:
                weight = rarity(word) * (_NAMED if is_name or any(map(str.isdigit, word)) else 1.0)
                if term not in found:
                    found[term] = (-weight, len(found), word)
        starts_sentence = token.endswith((":", "]"))
    ranked = sorted((weight, place, term, word) for term, (weight, place, word) in found.items())
    return [(place, term, word) for _, place, term, word in ranked]


#: How the purposes of these questions begin; the category follows.
PROBE_PURPOSE = "system:memory:probe:"

#: Part of a question's id: a changed prompt is another question.
_PROMPT_VERSION = "probe-1"

#: Tokens of an answer: two questions with one word each, and room for a language of many tokens.
_MAX_TOKENS = 300

_ASK = (
    f"You test whether the memories of an AI agent are still found. Write at most {MOST_ASKED} questions that somebody "
    "may ask later and that one of the memories answers, in its language, each on another fact. For each give the one "
    "word or number of the memory that answers it. No question contains its own answer. Answer with JSON alone: "
    '{"probes": [{"question": "...", "answer": "..."}]}'
)


class _Asked(AnswerForm):
    question: NotBlankStr = Field(max_length=300)
    answer: NotBlankStr = Field(max_length=100)


class AskedProbes(AnswerForm):
    """A model's answer: questions, and the word that answers each."""

    probes: tuple[_Asked, ...]


def asks_model(policy: ConsolidationConfig) -> bool:
    """Return whether the model that writes a group's summary is asked for probes of it too."""
    return policy.gate.enabled and policy.gate.ask_model and policy.strategy in ASKING_STRATEGIES


def probe_question(sources: Sequence[MemoryRecord], policy: ConsolidationConfig) -> Question:
    """Return the question that asks the model of summaries for probes of memories, each cut as for a summary."""
    is_dual = policy.strategy == ConsolidationStrategyType.DUAL_MODE
    model = policy.archival.dual_mode.summarization_model if is_dual else None
    max_entry_chars = (policy.llm or LLMConsolidationConfig()).max_entry_input_chars

    async def request() -> CompletionRequest:
        system = f"{_ASK}\n\n{untrusted_content_directive(ENTRY_TAG)}"
        return CompletionRequest(
            messages=prompt(system, entries_prompt(sources, max_entry_chars)),
            model=model,
            temperature=0.0,
            max_tokens=_MAX_TOKENS,
            json_schema=AskedProbes.model_json_schema(),
        )

    return Question(
        purpose=f"{PROBE_PURPOSE}{sources[0].entry.category}",
        model=model,
        about=(_PROMPT_VERSION, str(max_entry_chars), *digests(sources)),
        max_tokens=_MAX_TOKENS,
        request=request,
    )


def probes_in(text: str, sources: Sequence[MemoryRecord]) -> tuple[Probe, ...]:
    """Return the probes of a model's answer that hold: one of the memories says the answer, its question does not.

    An answer in which no such JSON can be found has none.
    """
    try:
        asked = read_form(text, AskedProbes).probes
    except UnreadAnswerError:
        return ()
    grounds = Grounds(source.entry.content for source in sources)
    asked = tuple(each for each in asked if grounds.fault(each.question, kind=Kind.QUESTION) is None)
    said = frozenset(term for source in sources for term in _tokenizer.terms(source.entry.content))
    return tuple(dict.fromkeys(_held(asked[:MOST_ASKED], said)))


def _held(asked: Sequence[_Asked], said: frozenset[str]) -> Iterator[Probe]:
    for each in asked:
        words = frozenset(_tokenizer.terms(each.question))
        answer = next((term for term in _tokenizer.terms(each.answer) if term in said and term not in words), None)
        # Of a question that says no word of any memory nobody could tell whether it was answered.
        if answer is not None and not words.isdisjoint(said):
            yield Probe(question=each.question, answer=answer)

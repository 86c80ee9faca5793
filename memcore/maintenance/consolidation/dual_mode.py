"""Dual-mode archival: dense text keeps its facts word for word and three anchors; a model shortens sparse text."""

import asyncio
import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from memcore import errors
from memcore.errors import MemoryConfigError
from memcore.llm.protocol import CompletionRequest
from memcore.maintenance.consolidation.llm import (
    SHORTEN_PURPOSE,
    AnswerSource,
    Question,
    completed,
    digests,
    fault_of,
    shorten_messages,
)
from memcore.maintenance.consolidation.strategy import SummaryDraft, beginning
from memcore.models.archival import ArchivalMode
from memcore.models.memory import ABSTRACTIVE_TAG, FALLBACK_TAG
from memcore.records import MemoryRecord
from memcore.telemetry.events import Event

#: Facts kept of one text, and characters of each anchor (the reference's figures).
DEFAULT_MAX_FACTS = 20
DEFAULT_ANCHOR_LENGTH = 150

#: Longest fact, in characters. A longer one is no fact but a text, and cut short it would be a wrong one: it is left to
#: the anchors, so that the length of an extract is bounded.
MAX_FACT_CHARS = 500

_CUT = "..."

#: What ends a sentence and no link: in ASCII, and the ellipsis, comma, semicolon and question mark of Arabic script.
_PUNCTUATION = ".,;:!?\u2026\u060c\u061b\u061f"

# Letters and digits of ASCII alone bound a fact: a Chinese character may stand right before an id, and Chinese
# punctuation right after a link.
_URL = re.compile("https?://[^\\s<>\"'`\u3000-\u303f\uff00-\uff65]+")
_UUID = re.compile(
    r"(?<![0-9A-Za-z])[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}(?![0-9A-Za-z])"
)
_HASH = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{32,}(?![0-9A-Za-z])")
_VERSION = re.compile(
    r"(?<![0-9A-Za-z.])(?:[vV]\d{1,9}\.\d{1,9}\.\d{1,9}(?:\.\d{1,9})?|\d{1,9}\.\d{1,9}\.\d{1,9})(?!\d|\.\d)"
)
_KEY_VALUE = re.compile(r"""["']?[^\W\d][\w.-]{0,80}["']?[ \t]?(?::[ \t]|=(?![=>~]))[ \t]*\S""")


class ExtractivePreserver:
    """Extracts the facts of dense text (links, ids, versions, settings) and its beginning, middle and end.

    Raises ValueError when the most facts of a text, or the characters of an anchor, are below 1.
    """

    def __init__(self, *, max_facts: int = DEFAULT_MAX_FACTS, anchor_length: int = DEFAULT_ANCHOR_LENGTH) -> None:
        for name, value in (("max_facts", max_facts), ("anchor_length", anchor_length)):
            if value < 1:
                raise ValueError(f"{name} must be 1 or more, not {value}")
        self._max_facts = max_facts
        self._anchor_length = anchor_length

    def extract(self, content: str) -> str:
        """Return the facts of a text as bullets, each once and verbatim, and its anchors.

        Facts come in the order links, UUIDs, hashes, versions, lines of the form ``key: value`` or ``key=value``; those
        over the limit are left out. A text no longer than an anchor stands in the extract whole.
        """
        facts = list(islice(dict.fromkeys(_facts(content)), self._max_facts))
        listed = ["Key facts:", *(f"- {fact}" for fact in facts)] if facts else []
        return "\n".join(["[Extractive preservation]", *listed, *self._anchors(content)])

    def _anchors(self, content: str) -> Iterator[str]:
        length = self._anchor_length
        if len(content) <= length:
            yield f"[START] {content}"
            return
        start = (len(content) - length) // 2
        before, after = _CUT if start else "", _CUT if start + length < len(content) else ""
        yield f"[START] {content[:length]}{_CUT}"
        yield f"[MID] {before}{content[start : start + length]}{after}"
        yield f"[END] {_CUT}{content[-length:]}"


def _facts(content: str) -> Iterator[str]:
    yield from map(_without_end, _short(_URL.findall(content)))
    for pattern in (_UUID, _HASH, _VERSION):
        yield from _short(pattern.findall(content))
    yield from _short(line for line in map(str.strip, content.splitlines()) if _KEY_VALUE.match(line))


def _short(facts: Iterable[str]) -> Iterator[str]:
    return (fact for fact in facts if len(fact) <= MAX_FACT_CHARS)


def _without_end(url: str) -> str:
    """Strip from a link the punctuation of its sentence, and a bracket that it does not open."""
    while (rest := url.rstrip(_PUNCTUATION)) != url or _closes_nothing(url):
        url = rest if rest != url else url[:-1]
    return url


def _closes_nothing(url: str) -> bool:
    return any(url.endswith(pair[1]) and url.count(pair[1]) > url.count(pair[0]) for pair in ("()", "[]", "{}"))


#: Stands between two extracts, and between two short versions (the reference's separator).
_SEPARATOR = "\n---\n"


class ExtractivePreservationOp:
    """Joins the extracts of all memories; deterministic, without a model."""

    def __init__(self, preserver: ExtractivePreserver) -> None:
        self._preserver = preserver

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        """Return the extracts in the order of the sources; the memory that is kept is not looked at.

        A text that is no longer than its extract stands there as it is: nothing is lost, and the summary does not grow.
        """
        del kept
        texts = [source.entry.content for source in sources]
        return SummaryDraft(
            content=_SEPARATOR.join(min(self._preserver.extract(text), text, key=len) for text in texts),
            tags=("mode:extractive",),
            mode=ArchivalMode.EXTRACTIVE,
        )


#: Characters of a memory that stand in for its summary when the model gave none (the reference's figure).
TRUNCATED_CHARS = 200

#: Characters of a memory that the model sees.
MAX_INPUT_CHARS = 20_000

_PROMPT_VERSION = "shorten-2"

_log = logging.getLogger(__name__)


class AbstractiveSummarizer:
    """Shortens memories with a model, one at a time.

    Raises MemoryConfigError when the model's name is blank.
    """

    def __init__(
        self, answers: AnswerSource, *, model: str, max_summary_tokens: int = 200, temperature: float = 0.3
    ) -> None:
        if not model.strip():
            raise MemoryConfigError("consolidation.archival.dual_mode.summarization_model: must not be blank")
        self._answers = answers
        self._model = model
        self._max_tokens = max_summary_tokens
        self._temperature = temperature

    async def summarize(self, source: MemoryRecord) -> str:
        """Return the short version, completed, or the first 200 characters where the model gave none.

        One that is no shorter than the memory is the memory itself.
        """

        async def request() -> CompletionRequest:
            return CompletionRequest(
                messages=shorten_messages(source, max_tokens=self._max_tokens, max_entry_chars=MAX_INPUT_CHARS),
                model=self._model,
                temperature=self._temperature,
                max_tokens=self._max_tokens,
                whole=True,
            )

        question = Question(
            purpose=f"{SHORTEN_PURPOSE}{source.entry.category}",
            model=self._model,
            about=(_PROMPT_VERSION, str(self._max_tokens), *digests([source])),
            max_tokens=self._max_tokens,
            request=request,
            fault=lambda text: fault_of(text, [source]),
        )
        found = await self._answers.ask(question)
        if found.text is not None:
            whole = completed(found.text, [source])
            return min(source.entry.content, whole, key=len)
        facts = {"memory_id": source.entry.id, "reason": found.reason}
        _log.warning(Event.CONSOLIDATION_DUAL_MODE_ABSTRACTIVE_FALLBACK, extra=facts)
        return beginning(source.entry.content, TRUNCATED_CHARS)

    async def summarize_batch(self, sources: Sequence[MemoryRecord]) -> tuple[tuple[str, str], ...]:
        """Return id and short version of each, in order; all are asked for at once.

        Raises one of the errors of ``summarize``; answers that came meanwhile are kept. Errors of this process are
        raised before a missing answer, which would hide them.
        """
        found = await asyncio.gather(*(self.summarize(source) for source in sources), return_exceptions=True)
        failures = [each for each in found if isinstance(each, BaseException)]
        if failures:
            raise min(failures, key=lambda error: isinstance(error, errors.MemoryError))
        return tuple((source.entry.id, str(text)) for source, text in zip(sources, found, strict=True))


class AbstractiveSummarizationOp:
    """Joins the short versions of all memories."""

    def __init__(self, summarizer: AbstractiveSummarizer) -> None:
        self._summarizer = summarizer

    async def write(self, sources: Sequence[MemoryRecord], *, kept: MemoryRecord | None = None) -> SummaryDraft:
        """Return one short version a memory; raises what the summarizer raises.

        It is tagged as a fallback where the model gave no short version of one of the memories.
        """
        del kept
        texts = [text for _, text in await self._summarizer.summarize_batch(sources)]
        originals = [source.entry.content for source in sources]
        fell_back = any(
            text != original and text == beginning(original, TRUNCATED_CHARS)
            for text, original in zip(texts, originals, strict=True)
        )
        return SummaryDraft(
            content=_SEPARATOR.join(texts),
            tags=(ABSTRACTIVE_TAG, *([FALLBACK_TAG] if fell_back else [])),
            mode=ArchivalMode.ABSTRACTIVE,
        )

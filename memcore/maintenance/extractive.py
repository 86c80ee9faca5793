"""What is kept of dense text: its facts, word for word, and pieces of its beginning, middle and end."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

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
    """Keep what a summary of dense text would lose: links, ids, versions, settings, and where they stood.

    Args:
        max_facts: most facts of one text.
        anchor_length: characters of each anchor.

    Raises:
        ValueError: one of them is below 1.
    """

    def __init__(self, *, max_facts: int = DEFAULT_MAX_FACTS, anchor_length: int = DEFAULT_ANCHOR_LENGTH) -> None:
        if max_facts < 1:
            raise ValueError(f"max_facts must be 1 or more, not {max_facts}")
        if anchor_length < 1:
            raise ValueError(f"anchor_length must be 1 or more, not {anchor_length}")
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
    """Take from a link the punctuation of the sentence in which it stands, and the bracket that it does not open."""
    while (rest := url.rstrip(_PUNCTUATION)) != url or _closes_nothing(url):
        url = rest if rest != url else url[:-1]
    return url


def _closes_nothing(url: str) -> bool:
    return any(url.endswith(pair[1]) and url.count(pair[1]) > url.count(pair[0]) for pair in ("()", "[]", "{}"))

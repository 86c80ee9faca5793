"""Repetitions: which memories another one says again, word by word.

Memory A is repeated by memory B when all words of A stand in B in the same order, and what B says more is little and
harmless. With B alone nothing of A is lost. A word in place of another is always another fact.
"""

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import chain, pairwise
from operator import attrgetter

from memcore.embedding.bm25 import Tokenizer, fold
from memcore.embedding.exact import exact_words, is_in_usual_case
from memcore.embedding.languages import INNER_MARKS, LONE_LETTERS
from memcore.models.attributes import canonical_json
from memcore.models.memory import MemoryEntry
from memcore.records import MemoryRecord
from memcore.retrieval.protocol import ScoredMemory

#: B may have one more word for so many words that it has: at most a fifth of it is new.
_WORDS_FOR_ONE_MORE = 5

#: Longer texts, in words, are compared as a whole only; so a memory takes a few kilobytes at most.
_MOST_WORDS = 256

#: English articles: one may stand for another, and B may have one more. Articles of other languages carry gender and
#: case ("den Hund", "der Hund"), so they are words like others.
_ARTICLES = frozenset({"a", "an", "the"})
_ARTICLE = "the"

#: After an article these mean something else: "few friends", "a few friends".
_CHANGED_BY_ARTICLE = frozenset({"few", "little"})

#: Introduce or end a note and say nothing about its content; B may have any number more, with a capital letter too.
_PARTICLES = frozenset(
    """
    again also and fyi hint important info note please remember reminder so that tip
    auch bitte erinnerung hinweis nochmals wichtig
    aussi encore rappel svp
    nota recordatorio también
    """.split()  # noqa: SIM905  # a list of one word a line would be unreadable
)

#: Words that turn a statement round, limit it, or tell another of its kind. B may have none that A has not.
_TURNING = frozenset(
    """
    anymore aren arent barely but cannot cant couldn despite didn didnt doesn doesnt don dont except excluding false
    few former formerly hadn hardly hasn haven however if instead isn lacks little longer mustn needn neither never no
    nobody none nor not nothing nowhere only rarely seldom shouldn stopped t than though unless unlike until used wasn
    weren without won wont wouldn
    wrong another different fake new next old other previous second third
    allegedly apparently believes claims could hopes may maybe might perhaps possibly probably says should supposedly
    thinks was were will would had did before after since till yet almost nearly sometimes
    one two three four five six seven eight nine ten eleven twelve hundred thousand million half double twice once
    today tomorrow yesterday tonight monday tuesday wednesday thursday friday saturday sunday january february march
    april june july august september october november december
    aber ausser außer bis ehemals früher kaum kein keine keinem keinen keiner keines nicht nichts nie niemals niemand
    nur ohne selten sondern vielleicht wenn falls weder noch statt sonst wohl alt alte neu neue zwei drei heute morgen
    gestern montag dienstag mittwoch donnerstag freitag samstag sonntag war waren wäre
    aucun aucune avant excepté jamais mais ne ni pas personne plus rarement rien sans sauf seulement si sinon uniquement
    était ancien nouveau autre deux trois demain hier lundi mardi mercredi jeudi vendredi samedi dimanche
    apenas antes excepto jamás nada nadie ningún ninguna ninguno nunca pero quizás salvo sin sino sólo solo tampoco era
    otro otra viejo nuevo dos tres hoy mañana ayer lunes martes miércoles jueves viernes sábado domingo
    non não nao nem niet geen nie inte ikke ei değil
    """.split()  # noqa: SIM905
)

#: A letter of a script without spaces; a word, with separators between its digits ("10:30", "1.5"), dots between its
#: letters ("example.com") and a sign before a number; or any other character.
_TOKEN = re.compile(
    f"[{LONE_LETTERS}]"
    f"|(?:(?<![^\\s(\\[])[-+.\u2212](?=\\d))?[^\\W{LONE_LETTERS}]+"
    f"(?:(?:[{INNER_MARKS}]+|(?<=\\d)[.,:/\u2013-](?=\\d)|\\.)[^\\W{LONE_LETTERS}]+)*"
    "|\\S"
)
_LONE = re.compile(f"[{LONE_LETTERS}]")

#: Words that are written as one, as two and with a hyphen, in two parts: "email", "web site", "sign-up".
_SOLID = re.compile(
    r"(e|web|on|off)(mails?|sites?|lines?)"
    r"|(break|buy|check|clean|count|drop|follow|hand|kick|log|look|pay|pick|roll|set|shut|sign|start|time)"
    r"(down|in|off|on|out|over|up|ups|outs|offs|downs|overs|ins)",
    re.IGNORECASE,
)

#: Punctuation that says something: "50 %", "C#", "R&D", "a/b", a question.
_TELLING = frozenset("%&#@*/?\u2030\u061f")

#: Marks of data and code: brackets, operators, a call, a line that an indented one belongs to.
_STRUCTURED = re.compile(r"[{}\[\]<>=|\\]|\w\(|:[ \t]*\n[ \t]+\S")
_STRUCTURED_TOKEN = re.compile(r"\w+|\S")

#: The last letter of the Latin script's first blocks. Of other scripts the turning words are not listed above, so B may
#: have no word more.
_LAST_LATIN = "\u024f"


@dataclass(frozen=True, slots=True)
class _Wording:
    """A text as it is compared.

    Attributes:
        keys: its words in order; of one that is compared as a whole alone, a hash of them.
        size: how many words it has.
        risky: those that another text may not have in addition; None where it is compared as a whole alone.
    """

    keys: tuple[str, ...]
    size: int
    risky: frozenset[str] | None

    @classmethod
    def of(cls, text: str) -> "_Wording":
        whole = unicodedata.normalize("NFKC", text)
        if _STRUCTURED.search(whole):
            return cls._as_a_whole("structured", _STRUCTURED_TOKEN.findall(whole))
        exact = {token for word in exact_words(whole) if not is_in_usual_case(word) for token in _TOKEN.findall(word)}
        tokens = [
            token for token in _TOKEN.findall(whole) if len(token) > 1 or token in exact or _says_something(token)
        ]
        if not tokens:
            return cls._as_a_whole("marks", whole.split())
        tokens = _joined(tokens, exact)
        # All at once: no token has a line break.
        folded = fold("\n".join(tokens)).split("\n")
        keys = [token if token in exact else _key(key) for token, key in zip(tokens, folded, strict=True)]
        if len(keys) > _MOST_WORDS or _LONE.search(whole):
            return cls._as_a_whole("words", keys)
        risky = {key for key, token in zip(keys, tokens, strict=True) if _is_risky(key, token)}
        risky.update(before for before, after in pairwise(keys) if after in _CHANGED_BY_ARTICLE)
        return cls(tuple(keys), len(keys), frozenset(risky))

    @classmethod
    def _as_a_whole(cls, kind: str, parts: Sequence[str]) -> "_Wording":
        spelled = "\0".join(parts).encode("utf-8", "surrogatepass")
        return cls((kind, hashlib.blake2b(spelled, digest_size=16).hexdigest()), len(parts), None)

    def stands_in(self, other: "_Wording") -> bool:
        """Return whether all of it is in the other one, which says little and harmless things more."""
        if self.keys == other.keys:
            return True
        if self.risky is None or other.risky is None:
            return False
        place, more = 0, other.size // _WORDS_FOR_ONE_MORE
        for key in other.keys:
            if place < self.size and key == self.keys[place]:
                place += 1
            elif key in other.risky:
                return False
            elif key not in _PARTICLES and key != _ARTICLE:
                more -= 1
                if more < 0:
                    return False
        return place == self.size


def _says_something(mark: str) -> bool:
    if mark.isalnum() or mark in _TELLING:
        return True
    # Symbols (currencies, operators, emoji), but no accents that stand alone, which serve as quotation marks.
    category = unicodedata.category(mark)
    return category.startswith("S") and category != "Sk"


def _joined(tokens: Sequence[str], exact: set[str]) -> list[str]:
    """Return the words with two parts of one as one. Not one as its parts: "time" would stand in "timeout"."""
    found: list[str] = []
    for token in tokens:
        if found and exact.isdisjoint({found[-1], token}) and _SOLID.fullmatch(found[-1] + token):
            found[-1] += token
        else:
            found.append(token)
    return found


def _key(key: str) -> str:
    return _ARTICLE if key in _ARTICLES else key


def _is_risky(key: str, token: str) -> bool:
    if key in _PARTICLES or key == _ARTICLE:
        return False
    # A name has a capital letter. At the beginning of a sentence every word has one, a name too.
    if key in _TURNING or not key.isalpha() or token != token.lower():
        return True
    return not key.isascii() and max(key) > _LAST_LATIN


def repeats(text: str, earlier: str) -> bool:
    """Return whether a text says all that an earlier one says, and at most a little more that changes nothing."""
    return _Wording.of(earlier).stands_in(_Wording.of(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """A memory, and those that it repeats, oldest first; each is verified against it alone."""

    kept: str
    repeated: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Text:
    id: str
    created_at: datetime
    wording: _Wording


class Repetitions:
    """Finds the memories of one agent that another of its memories repeats; the order of adding makes no difference.

    Memories are compared within a category, a namespace, a project and an expiry: outside of these one cannot stand
    for the other. The fullest text is kept, of equally full ones the newest, then the highest id. It holds the words
    of a memory, not its text: a few kilobytes at most.
    """

    def __init__(self) -> None:
        self._within: defaultdict[Hashable, list[_Text]] = defaultdict(list)
        self._words: dict[str, str] = {}

    def add(self, records: Iterable[MemoryRecord]) -> None:
        """Add memories; each at most once."""
        self.add_texts(
            (
                entry.id,
                entry.content,
                entry.created_at,
                (entry.category, entry.namespace, project_id, entry.expires_at, _fields_of(entry)),
            )
            for entry, project_id in ((record.entry, record.lineage.project_id) for record in records)
        )

    def add_texts(self, texts: Iterable[tuple[str, str, datetime, Hashable]]) -> None:
        """Add memories by id, text and time; each is compared with those that have the same behind these."""
        for memory_id, text, created_at, within in texts:
            wording = _Wording.of(text)
            # One object for each word, however many memories have it.
            keys = tuple(self._words.setdefault(key, key) for key in wording.keys)
            self._within[within].append(_Text(memory_id, created_at, _Wording(keys, wording.size, wording.risky)))

    def groups(self) -> tuple[Repetition, ...]:
        """Return each memory that repeats others, with these; no memory is in two."""
        return tuple(group for texts in self._within.values() for group in _groups(texts))


def _fields_of(entry: MemoryEntry) -> str:
    return canonical_json(entry.attributes) if entry.attributes else ""


def _groups(texts: Sequence[_Text]) -> Iterator[Repetition]:
    """Yield the groups, the fullest first.

    A text that stands in another has all its words there, so its two rarest too: only texts with both are verified.
    """
    newest_first = sorted(texts, key=attrgetter("created_at", "id"), reverse=True)
    equal: dict[tuple[str, ...], list[_Text]] = {}
    for text in sorted(newest_first, key=lambda each: -each.wording.size):
        equal.setdefault(text.wording.keys, []).append(text)
    rarest = _by_rarest_words([copies[0].wording for copies in equal.values()])
    taken: set[tuple[str, ...]] = set()
    for keys, copies in equal.items():
        if keys in taken:
            continue
        kept, *others = copies
        words = frozenset(keys)
        # In one order whatever the hash of a word is.
        for rare in dict.fromkeys(keys) if kept.wording.risky is not None else ():
            for second in rarest.get(rare, {}).keys() & words:
                for wording in rarest[rare][second]:
                    if wording.keys != keys and wording.keys not in taken and wording.stands_in(kept.wording):
                        taken.add(wording.keys)
                        others += equal[wording.keys]
        if others:
            others.sort(key=attrgetter("created_at", "id"))
            yield Repetition(kept=kept.id, repeated=tuple(other.id for other in others))


def _by_rarest_words(wordings: Sequence[_Wording]) -> dict[str, dict[str, list[_Wording]]]:
    """Return the texts that may stand in others, by their rarest word and their second rarest."""
    texts_with = Counter(key for wording in wordings for key in set(wording.keys))
    found: dict[str, dict[str, list[_Wording]]] = {}
    for wording in wordings:
        if wording.risky is not None:
            words = sorted(set(wording.keys), key=lambda key: (texts_with[key], key))
            found.setdefault(words[0], {}).setdefault(words[-1] if len(words) == 1 else words[1], []).append(wording)
    return found


#: Of texts in a prompt the first words are compared before all else, of so many characters: next to none says all words
#: of another, so next to none is verified, and every prompt waits for it.
_FIRST_WORDS, _FIRST_CHARS = 20, 240

# The memories of a prompt are often those of the one before.
_wording_of = lru_cache(maxsize=2_048)(_Wording.of)


@lru_cache(maxsize=2_048)
def _first_words(text: str) -> tuple[tuple[str, ...], frozenset[str]]:
    words = Tokenizer.words(text[:_FIRST_CHARS])
    return tuple(words[:_FIRST_WORDS]), frozenset(words)


def collapsed(memories: Sequence[ScoredMemory]) -> tuple[ScoredMemory, ...]:
    """Return a prompt's memories in their order; of those that say the same one, with their number.

    An agent's own stays before a shared one, else the newest; it has the best place and score of them. One that says
    a little more than a newer one stays beside it. Facts of the organisation are not compared, and somebody else's
    words neither hide what was told nor count for it.
    """
    near = _near_repeated(memories, is_reference=False) | _near_repeated(memories, is_reference=True)
    if not near:
        return tuple(memories)
    texts = {place: memories[place].entry.content for place in {*near, *chain(*near.values())}}
    wordings = {text: _wording_of(text) for text in set(texts.values())}

    def stays_before(place: int) -> tuple[bool, float, int, str]:
        memory = memories[place]
        entry = memory.entry
        return memory.is_shared, -entry.created_at.timestamp(), -wordings[entry.content].size, entry.id

    order = sorted(texts, key=stays_before)
    hidden_by: dict[int, int] = {}
    for rank, kept in enumerate(order):
        for other in order[rank + 1 :] if kept not in hidden_by else ():
            if kept in near.get(other, ()) and wordings[texts[other]].stands_in(wordings[texts[kept]]):
                hidden_by.setdefault(other, kept)
    alike: defaultdict[int, list[int]] = defaultdict(list)
    for other, kept in hidden_by.items():
        alike[kept].append(other)

    def counted(kept: int) -> dict[str, object]:
        # Those that say nearly the same may have been counted, these among them.
        most = max((memories[place] for place in (kept, *alike[kept])), key=attrgetter("count"))
        return {"count": max(most.count, 1 + len(alike[kept])), "counted_days": most.counted_days}

    scores: dict[int, float] = {}
    for place, memory in enumerate(memories):
        kept = hidden_by.get(place, place)
        if memory.is_shared == memories[kept].is_shared:
            scores.setdefault(kept, memory.combined_score)
    return tuple(
        memories[kept].model_copy(update={"combined_score": score, **counted(kept)})
        if kept in alike
        else memories[kept]
        for kept, score in scores.items()
    )


def _near_repeated(memories: Sequence[ScoredMemory], *, is_reference: bool) -> dict[int, frozenset[int]]:
    return _maybe_repeated(
        {
            place: each.entry.content
            for place, each in enumerate(memories)
            if not each.is_fact and each.is_reference is is_reference
        }
    )


def _maybe_repeated(texts: Mapping[int, str]) -> dict[int, frozenset[int]]:
    """Return the texts whose first words all stand in others, and in which."""
    said = {place: _first_words(text) for place, text in texts.items()}
    words = {place: each for place, (_, each) in said.items()}
    seen: set[str] = set()
    # One article may stand for another.
    again: set[str] = set(_ARTICLES)
    for each in words.values():
        again |= seen & each
        seen |= each
    found: dict[int, frozenset[int]] = {}
    for place, (first, _) in said.items():
        if again.issuperset(first):
            head = frozenset(first) - _ARTICLES
            found[place] = frozenset(other for other, has in words.items() if head <= has and other != place)
    return {place: others for place, others in found.items() if others}


def is_said(text: str, others: Sequence[str], *, among: Sequence[str]) -> bool:
    """Return whether another text has all names and numbers of a text, and such others have what turns its statement.

    A word with a capital letter is no name where it stands without one in any text ``among`` which they are.
    """
    risky = _wording_of(text).risky
    if risky is None:
        return False
    small = {word for each in among for word in each.split() if word.islower()}
    values = risky - _TURNING - small
    same = [keys for each in others if values.issubset(keys := _wording_of(each).keys)]
    return bool(same) and (risky & _TURNING).issubset(chain(*same))

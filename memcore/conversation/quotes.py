"""Finds what a model quotes in what a person said: the same words, in order, near each other.

Models join what stands apart: "I work as a nurse" of "I live in Lisbon and work as a nurse". Words may be left out
where that changes nothing: fillers, what stands between two commas, and another predicate of the same subject. A
negation, a wish, a condition, another person or the end of a sentence among them makes it no quote. Kept are the
person's words.
"""
# letters of other scripts are meant

import re
from typing import NamedTuple

from memcore.embedding.bm25 import fold
from memcore.embedding.languages import INNER_MARKS, LONE_LETTERS, without_accents
from memcore.models.conversation import MAX_QUOTE_CHARS

#: Most words that may be left out in one place, and for each word of the quote but the first, up to that most in all.
MOST_LEFT_OUT, _LEFT_OUT_A_WORD, _MOST_IN_ALL = 10, 4, 12

#: Most comparisons of words for one quote: a turn that repeats one word ten thousand times holds no joined quote.
_MOST_STEPS = 300_000

_APOSTROPHES = "'\u2018\u2019\u02bc\u00b4`"
_LETTERS = f"[^\\W_{LONE_LETTERS}]+(?:[{INNER_MARKS}]+[^\\W_{LONE_LETTERS}]*)*"
_WORD = re.compile(f"[{LONE_LETTERS}]|{_LETTERS}(?:[{_APOSTROPHES}]{_LETTERS})*")

_APOSTROPHE = re.compile(f"[{_APOSTROPHES}]")

#: What ends a sentence, and what a clause.
_SENTENCE = re.compile(r"[.!?\u2026](?=\s|$)|[;\u061b\u061f\u06d4\u3002\uff01\uff1b\uff1f]")
_CLAUSE = re.compile(r"[,\u060c\u3001\uff0c()\[\]\u2013\u2014]|\s-\s|\.\.\.")

#: The second part of English contractions; one that stands for two words is like either.
_ENDINGS = {"m": "am", "re": "are", "ve": "have", "ll": "will", "t": "not"}
_EITHER = {"'s": {"is", "has", "us"}, "'d": {"would", "had"}}
_WHOLE = {"can't": ("can", "not"), "won't": ("will", "not"), "cannot": ("can", "not"), "shan't": ("shall", "not")}

#: Words that join another predicate to the subject.
_JOINING = frozenset(
    "and but und aber et mais y e pero ma mas i и но та oraz och og en ve و لكن".split()  # noqa: SIM905
)

#: Words that may be left out anywhere.
_FILLERS = frozenset(
    """
    well um uh er so also too really just still actually very quite now currently always usually basically honestly
    obviously of course like you know yes oh please
    also auch noch sehr wirklich eigentlich halt ja eben doch jetzt gerade immer
    aussi vraiment très toujours bien donc euh actuellement
    también muy todavía siempre pues ahora bueno actualmente
    anche molto ancora sempre adesso proprio davvero
    também muito ainda sempre agora mesmo
    тоже также очень ещё еще уже всегда сейчас ну вообще
    ايضا جدا دائما الان
    """.split()  # noqa: SIM905
)

#: Words that may not be left out: negations, wishes, possibilities, conditions, reports, and other persons.
_TELLING = frozenset(
    """
    not no never nor neither none nobody nothing anything nowhere without hardly barely rarely seldom scarcely almost
    nearly longer except instead unless if whether maybe perhaps possibly probably would could should might may must can
    want wants wanted wish wishes hope hopes plan plans planned dream dreams dreamt try tries tried used stopped quit
    pretend pretends pretended refuse refuses refused than think thinks thought believe believes say says
    said ask asks asked tell tells told suppose guess you he she they we who whose when formerly
    nicht kein keine keinen keiner keinem nie niemals nichts niemand ohne kaum fast ausser sondern falls wenn ob
    vielleicht wurde wurden konnte konnten sollte will wollte mochte mochten hoffe wunsche plane traume versuche frueher
    sagt sagte denke glaube du er sie ihr wir es
    ne n pas jamais rien personne aucun aucune sans guere presque sauf si peut etre voudrais voudrait pourrais veux
    veut espere reve essaie dit pense crois tu il elle ils elles nous vous
    nunca jamas nada nadie ningun ninguna sin apenas casi salvo sino quiza quizas tal vez quiero querria podria
    espero sueno intento dice dijo pienso creo tu ella ellos ellas usted nosotros
    non mai niente nessuno nessuna senza quasi tranne se forse vorrei potrei voglio spero sogno provo dice penso
    credo lui lei loro noi voi
    nao nunca jamais nada ninguem nenhum nenhuma sem quase exceto talvez quero queria poderia espero sonho tento
    disse acho voce ele ela eles elas
    не нет ни никогда ничего никто без едва почти кроме если может возможно бы хочу хотел хотела надеюсь мечтаю думаю
    сказал сказала говорит ты он она они мы вы
    لا لم لن ليس ليست غير بدون ابدا اذا لو ربما قد اريد اتمنى اتمني احلم قال قالت انت هو هي هم نحن ما
    不 没 没有 沒 无 無 非 未 别 別 莫 勿 你 您 他 她 它 想 要 如 若 但 可 或 说 說
    """.split()  # noqa: SIM905
)

#: Words of asides: "Tom, who lives in Oslo, is a vet", "my son (he is nine) plays chess".
_OF_ASIDES = frozenset(
    "who which that he she they it er sie es que qui che il elle lui lei el ella ele ela он она".split()  # noqa: SIM905
)

#: What goes on behind a word: another word that joins nothing.
_GOES_ON = re.compile(rf"\s+(?!(?:{'|'.join(sorted(_JOINING))})\b)\w", re.IGNORECASE)
_BEHIND_CHARS = 20

#: Signs of a negation inside of a word: Japanese and Korean write it at the end of a verb.
_INNER_NEGATION = re.compile("ない|ません|なかった|たい|たら|なら|안|않|없|못|ไม่")


class _Token(NamedTuple):
    """A word in the form in which it is compared, and where it stands."""

    word: str
    start: int
    end: int


#: What others wrote: a passage between quotation marks that is longer than a name, a quoted line of a mail, a block of
#: code. A plain apostrophe opens one only before a capital.
_OF_OTHERS = re.compile(
    r"""
    "[^"]{24,}" | \u201c[^\u201c\u201d]{24,}\u201d | \u201e[^\u201c-\u201e]{24,}[\u201c\u201d]
    | \u00ab[^\u00ab\u00bb]{24,}\u00bb
    | (?<!\w)['\u2018][A-Z](?:[^'\u2019\n]|(?<=\w)['\u2019](?=\w)){23,}['\u2019](?!\w)
    | \u300c[^\u300c\u300d]{8,}\u300d | \u300e[^\u300e\u300f]{8,}\u300f | ```.*?``` | ^>[^\n]*
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)


#: A mark of a sentence, and the words from which on a passage without one is no title.
_MARK, _WORDS_OF_A_PASSAGE = re.compile(r"[.,;:!?\u3001\u3002\uff01\uff0c\uff1f]"), 8


def without_quoted(text: str) -> str:
    """Return what a person says in a turn without the passages that they quote from others."""
    return _OF_OTHERS.sub(lambda found: found[0] if _is_title(found[0]) else " \u2026 ", text)


def _is_title(passage: str) -> bool:
    """Whether a passage between quotation marks is a title: few words, and no mark of a sentence."""
    marks = passage.startswith((">", "```")) or _MARK.search(passage)
    return not marks and len(passage.split()) < _WORDS_OF_A_PASSAGE


def own_words(quote: str, text: str) -> str | None:
    """Return what a person said of what a model quotes: from its first word to its last, with what stands between.

    None where the words do not stand in the text, or what is between them is too long to be kept. A quote without
    words must stand there as it is.
    """
    wanted, said = _tokens(quote), _tokens(text)
    if not wanted:
        mark = quote.strip()
        return mark if mark and " ".join(fold(mark).split()) in " ".join(fold(text).split()) else None
    span = _whole(wanted, said) or _joined(wanted, said, text)
    if span is None:
        return None
    start, end = span
    before, behind = quote[: wanted[0].start].split(), quote[wanted[-1].end :].split()
    # Marks of the quote that the person wrote too: "C++" is no "C".
    if before and text.endswith(before[-1], 0, start):
        start -= len(before[-1])
    if behind and text.startswith(behind[0], end):
        end += len(behind[0])
    kept = " ".join(text[start:end].split())
    return kept if len(kept) <= MAX_QUOTE_CHARS else None


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    for word in _WORD.finditer(text):
        found += (_Token(part, word.start(), word.end()) for part in _parts(word[0]))
    return found


def _parts(word: str) -> tuple[str, ...]:
    """Return the words of a contraction, and of any other one its folded form."""
    folded = _APOSTROPHE.sub("'", fold(word))
    if folded in _WHOLE:
        return _WHOLE[folded]
    first, mark, last = folded.rpartition("'")
    if not mark:
        return (folded,)
    if last == "t" and first.endswith("n"):
        return first[:-1], "not"
    if f"'{last}" in _EITHER:
        return first, f"'{last}"
    return first.replace("'", ""), _ENDINGS.get(last, last)


def _is_like(one: str, other: str) -> bool:
    return one == other or other in _EITHER.get(one, ()) or one in _EITHER.get(other, ())


def _whole(wanted: list[_Token], said: list[_Token]) -> tuple[int, int] | None:
    """Return where the words stand one after another."""
    size = len(wanted)
    for at in range(len(said) - size + 1):
        if all(_is_like(want.word, said[at + place].word) for place, want in enumerate(wanted)):
            return said[at].start, said[at + size - 1].end
    return None


class _Way(NamedTuple):
    """How the words so far were found: how many were left out, and where the first one stands."""

    left_out: int
    first: int


def _joined(wanted: list[_Token], said: list[_Token], text: str) -> tuple[int, int] | None:
    """Return where the words stand in order, with the fewest words left out between them."""
    most = min(_LEFT_OUT_A_WORD * (len(wanted) - 1), _MOST_IN_ALL)
    ways = {at: _Way(0, at) for at, token in enumerate(said) if _is_like(wanted[0].word, token.word)}
    steps = 0
    for number, want in enumerate(wanted[1:], start=2):
        following: dict[int, _Way] = {}
        for at, way in ways.items():
            furthest = min(at + 2 + min(most - way.left_out, MOST_LEFT_OUT), len(said))
            steps += furthest - at
            for place in range(at + 1, furthest):
                if not _is_like(want.word, said[place].word):
                    continue
                new = _Way(way.left_out + place - at - 1, way.first)
                known = following.get(place)
                if known is not None and known <= new:
                    continue
                behind = text[said[place].end :][:_BEHIND_CHARS] if number == len(wanted) else ""
                if _may_be_left_out(said[at : place + 1], text, behind):
                    following[place] = new
        if steps > _MOST_STEPS:
            return None
        ways = following
    if not ways:
        return None
    last = min(ways, key=lambda at: (ways[at].left_out, at))
    return said[ways[last].first].start, said[last].end


def _may_be_left_out(tokens: list[_Token], text: str, behind: str) -> bool:
    """Whether a quote may leave out what stands between the first and the last of some words.

    With ``behind``, what follows the quote's last word, that word alone is joined: "I like tea, coffee is for others"
    does not say "I like coffee".
    """
    first, *left_out, last = tokens
    if not left_out:
        return True
    between = text[first.end : last.start]
    words = [without_accents(token.word) for token in left_out]
    if _SENTENCE.search(between) or _INNER_NEGATION.search(between):
        return False
    if all(token.word in _FILLERS for token in left_out):
        return True
    opens, closes = text[first.end : left_out[0].start], text[left_out[-1].end : last.start]
    is_aside = bool(_CLAUSE.search(opens) and _CLAUSE.search(closes))
    if is_aside:
        return _TELLING.isdisjoint(set(words) - _OF_ASIDES)
    if not _TELLING.isdisjoint(words) or (behind and _GOES_ON.match(behind)):
        return False
    while words and words[-1] in _FILLERS:
        words.pop()
    return bool(_CLAUSE.search(closes)) or (bool(words) and words[-1] in _JOINING)

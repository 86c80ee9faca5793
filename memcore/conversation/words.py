"""The words of what people say, by which guards and promotion compare texts in any language."""
# ruff: noqa: RUF001  # letters of other scripts are meant

import re
from collections.abc import Iterable, Iterator
from functools import cache

from memcore.embedding.bm25 import Tokenizer, fold
from memcore.embedding.languages import (
    ENGLISH_STOP_WORDS,
    LONE_LETTERS,
    Stems,
    is_function_word,
    language_of,
    pairs,
    telling,
    without_accents,
)

#: Typographic apostrophes become plain ones, the forms of Arabic letters that people mix become one, and Arabic points
#: and the stretching of letters go.
_ONE_FORM = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u02bc\u00b4`", "'"),
        **dict.fromkeys("\u0622\u0623\u0625", "\u0627"),
        "\u0649": "\u064a",
        "\u0640": None,
        **dict.fromkeys(map(chr, range(0x064B, 0x0660))),
    }
)

#: A last letter by which a verb says what was: Spanish "guardé" is no request, "guarde" is one. It keeps its accent.
_PAST = re.compile(r"(?<=\w)\u00e9(?!\w)")
_KEPT = "\ue000"

#: The stemmer of a script that one language stands for; Latin letters have that of the text's language.
_SCRIPTS = (("russian", re.compile("[\u0400-\u04ff]")), ("arabic", re.compile("[\u0600-\u06ff]")))

#: Function words of languages whose script says which they are, folded and in one form; then what is said in any turn.
_FUNCTION_WORDS = frozenset(
    """
    без был была были было быть в вам вас ваш все всё вы где да для до его ее её если есть еще ещё же за здесь и из или
    им их к как когда кто ли меня мне мной мои мой моя моё моего моей моему моим моими моих на над нас не него нее неё
    нет ни них но ну о об он она они оно от очень по под при про с свой себя со так также там то тоже тот ты у уже чем
    что чтобы эта эти это этот этого этой я тебя тебе твой твоя
    في من علي الي عن ان انا انت هو هي هم نحن هذا هذه ذلك تلك ما ماذا لا لم لن قد كان كانت يكون مع او و ثم لكن كل بعد
    قبل عند لي لك له لها لنا اني انني انه انها الذي التي هل كيف متي اين جدا ايضا حتي اذا لان
    please pls thanks thank ok okay yes bitte danke merci gracias favor grazie obrigado obrigada пожалуйста спасибо شكرا
    """.split()  # noqa: SIM905  # a list of one word a line would be unreadable
)

#: Runs of the scripts without spaces: Katakana, Han, Hiragana, Hangul, and others.
_RUN = re.compile(
    "(?P<katakana>[\u30a1-\u30fa\u30fc-\u30ff]+)|(?P<han>[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff]+)"
    f"|(?P<hiragana>[\u3041-\u309f]+)|(?P<hangul>[\uac00-\ud7a3]+)|[{LONE_LETTERS}]+"
)

#: Characters of Chinese and Japanese that point or join, and say nothing of what a text is about.
_POINTING = frozenset(
    "我你您他她它们們的了吗嗎吧呢啊在是有和就都也很不没沒这這那哪谁誰什么麼怎个個着著把让讓给給对對到为為与與要会會能可想说說私僕俺彼"
)

#: Fewest characters of a word that says what a text is about, outside of scripts without spaces.
_LEAST_CHARS = 2


def plain(text: str) -> str:
    """Return the text as cues are searched for in it: folded, without accents, with one space between words."""
    folded = without_accents(_PAST.sub(_KEPT, fold(text))).replace(_KEPT, "\u00e9")
    return " ".join(folded.translate(_ONE_FORM).split())


def stands_in(quote: str, text: str) -> bool:
    """Return whether a quote stands in a text, word for word; case, white space and marks do not matter."""
    words = Tokenizer.words(quote)
    if not words:
        return bool(quote.strip()) and " ".join(fold(quote).split()) in " ".join(fold(text).split())
    return _is_in(words, Tokenizer.words(text))


class Words:
    """What a text is about, as a set of words that meet those of another text in any of their forms.

    Attributes:
        every: all its words, in order.
        folded: the text, folded.
        language: the language that its function words say, or else English.
    """

    def __init__(self, text: str) -> None:
        self.folded = " ".join(fold(text).split())
        self.every = [_one_form(word) for word in Tokenizer.words(text)]
        self.language = language_of(self.every) or "english"
        self._spaced = [word for word in self.every if not _RUN.fullmatch(word)]
        self._unspaced = frozenset(_units(self.folded))
        self._informative: dict[str, frozenset[str]] = {}
        self._stems: dict[str, list[str]] = {}

    def shared_with(self, other: "Words") -> int:
        """Return how many words both have."""
        return max(len(one & two) for one, two in self._both(other))

    def jaccard(self, other: "Words") -> float:
        """Return the share of all words that both have; 0.0 when there is none."""
        return max(len(one & two) / (len(one | two) or 1) for one, two in self._both(other))

    def is_same_term(self, other: "Words") -> bool:
        """Return whether both are one term, in other forms at most."""
        return self.folded == other.folded or self.jaccard(other) == 1.0

    def has_term(self, term: "Words") -> bool:
        """Return whether the words of a term stand here, one after another, in other forms at most."""
        if not term.every:
            return bool(term.folded) and term.folded in self.folded
        if term.is_blank:
            return False
        return any(_is_in(term.stems(language), self.stems(language)) for language in _languages(self, term))

    @property
    def is_blank(self) -> bool:
        """Whether it has none but function words."""
        return not self._unspaced and all(_is_idle(word, self.language) for word in self._spaced)

    def stems(self, language: str) -> list[str]:
        """Return all its words, stemmed as those of a language."""
        if language not in self._stems:
            self._stems[language] = _stemmed(self.every, language)
        return self._stems[language]

    def informative(self, language: str) -> frozenset[str]:
        """Return its words but for function words, stemmed as those of a language."""
        if language not in self._informative:
            idle_in = {language, self.language}
            words = [
                word
                for word in self._spaced
                if len(word) >= _LEAST_CHARS and not any(_is_idle(word, each) for each in idle_in)
            ]
            self._informative[language] = self._unspaced.union(_stemmed(words, language))
        return self._informative[language]

    def _both(self, other: "Words") -> Iterator[tuple[frozenset[str], frozenset[str]]]:
        for language in _languages(self, other):
            yield self.informative(language), other.informative(language)


def _languages(one: Words, other: Words) -> set[str]:
    # A text of few words does not say what language it is in: the other one may.
    return {"english", one.language, other.language}


def _is_idle(word: str, language: str) -> bool:
    is_known = word in ENGLISH_STOP_WORDS or word in _FUNCTION_WORDS
    return is_known or (language != "english" and is_function_word(word, language))


def _one_form(word: str) -> str:
    return word if word.isascii() else word.translate(_ONE_FORM)


@cache
def _stems() -> Stems:
    return Stems()


def _stemmed(words: Iterable[str], language: str) -> list[str]:
    return [_stem(word, language) for word in words]


def _stem(word: str, language: str) -> str:
    script = next((name for name, letters in _SCRIPTS if letters.search(word)), language)
    return _stems().of(word, script)


def _units(folded: str) -> list[str]:
    """Return what stands for words where there are no spaces.

    That is a run of Katakana, each two neighbouring characters of others, a character of Han that stands alone, and
    the first two of a Korean word, whose ending follows. Of scripts where two letters say nothing it is the whole run.
    """
    found: list[str] = []
    for run in _RUN.finditer(folded):
        text, kind = run[0], run.lastgroup
        if kind in {"han", "hiragana"} and len(text) > 1:
            found += pairs(text)
        elif kind == "hangul":
            found.append(text[:2])
        elif kind != "hiragana":
            found.append(text)
    said = telling([(each,) for each in found], folded) if found else []
    return [unit for (unit,) in said if _POINTING.isdisjoint(unit)]


def _is_in(words: list[str], text: list[str]) -> bool:
    places = (at for at, word in enumerate(text) if word == words[0])
    return words[0] in text and any(text[at : at + len(words)] == words for at in places)

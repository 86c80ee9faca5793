"""Reads what a language model answers: free text, and values of a form. The wrapping may be anything, the value not.

``free_text`` takes off reasoning, a fence around the whole, and what announces the text. ``read_form`` finds the JSON
in an answer and gives it the shape of a form, which validates it:

- Of several values, one that has the form wins, and of these the last one: models correct themselves.
- An object comes before a bare list. A bare list stands for the first list of the form, or its entries for the lists
  that they fit; it must stand alone on its lines. So do entries without their list.
- What was cut, and what stands in reasoning, is no answer.
- An empty list is nothing. Whatever else cannot be read raises ``UnreadAnswerError``.

Every step takes a time that grows with the length of the text alone, whatever stands in it.
"""

import re
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError, model_validator
from pydantic_core import from_json

from memcore.llm.json_scanner import MAX_DEPTH, Found, found_values
from memcore.models.base import Frozen

Form = TypeVar("Form", bound=BaseModel)

#: Longest answer that is read, in bytes; forms hold some sentences.
MAX_ANSWER_BYTES = 262_144

#: Most problems of an answer that the model is shown, and the longest each may be, in characters.
_REPORTED_PROBLEMS = 8
_REPORTED_CHARS = 200

#: Most values of a text, and most elements of a list, that are tried as the form: the last ones.
_MOST_TRIED = 64

#: Most entries of a bare list: no form takes so many.
_MOST_ENTRIES = 1_000

#: How many wrappers around a value are taken off, one in the other.
_MOST_WRAPPERS = 4


class UnreadAnswerError(ValueError):
    """An answer cannot be read; ``problems`` say why, in sentences without its words."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


# Free text

_NAMES = "think|thinking|thoughts?|reasoning|reflection|analysis|scratchpad|seed:think"
_MARKS = r"\[THINK\]|\u25c1think\u25b7|<\|(?:start_thinking|START_THINKING|begin_of_thought)\|>"
_END_MARKS = r"\[/THINK\]|\u25c1/think\u25b7|<\|(?:end_thinking|END_THINKING|end_of_thought)\|>"

#: What opens and closes reasoning.
_REASONING = re.compile(
    rf"(?P<open><(?:{_NAMES})(?:\s[^<>]{{0,100}})?>|{_MARKS})|(?P<close></(?:{_NAMES})\s*>|{_END_MARKS})",
    re.IGNORECASE,
)

#: A tag in quotes is spoken of, and opens nothing.
_QUOTES = frozenset("\"'`\u201c\u201d\u2018\u2019")

#: How far back the beginning of a tag's line is looked for, in characters.
_LINE_CHARS = 200

#: The channels of the harmony format, and what is left of them where a server drops the marks.
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)[^<]{0,200}(?:<\|constrain\|>[^<]{0,100})?<\|message\|>")
_CHANNEL_END = re.compile(r"<\|(?:end|return|call|start|channel)\|>")
_UNMARKED = re.compile(r"\s*analysis(?=[A-Z\s])")
_UNMARKED_FINAL = "assistantfinal"

#: Marks of chat templates that some servers leave at the ends of an answer.
_TEMPLATE_STARTS = re.compile(
    r"(?:\s|<\|(?:im_start|start|assistant)\|>(?:assistant\b)?|<s>|<start_of_turn>(?:model\b)?)*"
)
_TEMPLATE_ENDS = (
    *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|return|>", "<|endoftext|>", "<|end_of_text|>"),
    *("</s>", "<end_of_turn>", "<|begin_of_solution|>", "<|end_of_solution|>"),
)

#: A tag around the whole answer.
_ANSWER = re.compile(r"<(answer|final_answer|final|output|response|result)>(.*)</\1>", re.DOTALL | re.IGNORECASE)

_FENCE = re.compile(r"(`{3,}|~{3,})(?:[ \t]*[\w+.-]*[ \t]*\n|(?:json|text|txt|markdown|md|plaintext)\b)?")

_POLITE = r"(?:sure(?: thing)?|certainly|of course|okay|ok|absolutely|alright|all right|understood|gladly)"
_ANNOUNCING = (
    r"(?:here(?:['\u2019]s| is| are)|below (?:is|are)|hier (?:ist|sind)|voici|aqu\u00ed (?:est\u00e1|tienes)|ecco"
    r"|aqui est\u00e1|\u0432\u043e\u0442)"
)
#: What an announcement names: with any other noun it may be a part of the text.
_OURS = (
    r"\b(?:merged|combined|consolidated|shortened|shorter|condensed|summary|summari[sz]ed|rewritten|memory|memories"
    r"|query|answer|json|result|output|response|version|text|zusammen\w*|erinnerung\w*|fassung|antwort|r\u00e9sum\w*"
    r"|texte|souvenir\w*|fusion\w*|resum\w*|texto|recuerdo\w*|memoria\w*|testo|versi\u00f3n|versione|vers\u00e3o"
    r"|\u0442\u0435\u043a\u0441\u0442|\u043e\u0442\u0432\u0435\u0442|\u0432\u0435\u0440\u0441\u0438\u044f)\b"
)
_CHATTER = re.compile(
    rf"(?:{_POLITE}[,.!]?[ \t]*\n+"
    rf"|(?:{_POLITE}[,.!]?\s+)?{_ANNOUNCING}\b(?=[^\n:]{{0,120}}{_OURS})[^\n:]{{1,120}}:"
    r"|(?:\*\*|\#{1,4}[ \t]+)?(?:(?:final|merged|combined|shortened|new) )?(?:memory|summary|answer)"
    r"(?:(?:\*\*)?:(?:\*\*)?|\*\*[ \t]*\n|(?<=\w)[ \t]*\n(?=\n)))\s*",
    re.IGNORECASE,
)


def free_text(text: str) -> str:
    """Return what a model says, without its reasoning, a fence around the whole, and what announces it.

    Blank where it says nothing else: an answer that breaks off in its reasoning has none.
    """
    text = _without_reasoning(_without_channels(_whole(text)))
    for _ in range(_MOST_WRAPPERS):
        bare = _unfenced(_without_template(text))
        tag = _ANSWER.fullmatch(bare)
        bare = tag[2].strip() if tag else bare
        chatter = _CHATTER.match(bare)
        # A text that is nothing but what looks like an announcement is the text.
        if chatter and chatter.end() < len(bare):
            bare = bare[chatter.end() :]
        if bare == text:
            break
        text = bare
    return text.strip()


def _whole(text: str) -> str:
    """Return the text with a mark for each half of a surrogate pair: nothing can store or parse one."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _without_channels(text: str) -> str:
    if _UNMARKED.match(text) and _UNMARKED_FINAL in text:
        return text.rpartition(_UNMARKED_FINAL)[2]
    channels = list(_CHANNEL.finditer(text))
    if not channels:
        return text
    said = [each for each in channels if each[1] != "analysis"]
    if not said:
        return text[: channels[0].start()]
    end = _CHANNEL_END.search(text, said[-1].end())
    return text[said[-1].end() : end.start() if end else len(text)]


def _without_reasoning(text: str) -> str:
    """Return the text outside of reasoning; before a closing tag that nothing opened, all is reasoning."""
    marks = [each for each in _REASONING.finditer(text) if not _is_quoted(text, each)]
    last_end = max((each.start() for each in marks if each["close"]), default=-1)
    kept: list[str] = []
    at, is_open = 0, False
    for mark in marks:
        if mark["close"]:
            if not is_open:
                kept.clear()
            at, is_open = mark.end(), False
        # In the middle of a line a tag that nothing closes is a part of the text.
        elif not is_open and (mark.start() < last_end or _begins_line(text, mark.start())):
            kept.append(text[at : mark.start()])
            is_open = True
    return "".join(kept if is_open else [*kept, text[at:]])


def _is_quoted(text: str, mark: re.Match[str]) -> bool:
    before, after = text[mark.start() - 1 : mark.start()], text[mark.end() : mark.end() + 1]
    return before in _QUOTES and after in _QUOTES if before and after else False


def _begins_line(text: str, place: int) -> bool:
    line = text[max(0, place - _LINE_CHARS) : place].rpartition("\n")[2]
    return not line.strip()


def _without_template(text: str) -> str:
    start = cast("re.Match[str]", _TEMPLATE_STARTS.match(text)).end()
    end = len(text)
    while True:
        while end > start and text[end - 1].isspace():
            end -= 1
        mark = next((each for each in _TEMPLATE_ENDS if text.endswith(each, start, end)), None)
        if mark is None:
            break
        end -= len(mark)
    for mark in ("<|begin_of_solution|>",):
        if text.startswith(mark, start, end):
            start += len(mark)
    return text[start:end].strip()


def _unfenced(text: str) -> str:
    opening = _FENCE.match(text)
    if opening is None or not text.endswith(opening[1]) or len(text) < opening.end() + len(opening[1]):
        return text
    inner = text[opening.end() : len(text) - len(opening[1])]
    return text if opening[1] in inner else inner.strip()


# Values of a form


class AnswerForm(Frozen):
    """Base of the forms of answers that are acted on, and not kept: keys that they do not know are passed over."""

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        answer = cast("Mapping[str, object]", given)
        return {name: answer[name] for name in cls.model_fields if name in answer}


def read_form(text: str, form: type[Form], *, check: Callable[[Form], str | None] | None = None) -> Form:
    """Return the value of the form that an answer holds.

    Args:
        text: the answer.
        form: let it refuse what it does not know, and ask for at least one of its keys.
        check: says in a sentence what is wrong with a value that has the form; None where nothing is.

    Raises:
        UnreadAnswerError: it holds none.
    """
    text = _whole(text)
    if len(text.encode("utf-8")) > MAX_ANSWER_BYTES:
        raise UnreadAnswerError([f"the answer has more than {MAX_ANSWER_BYTES} bytes"])
    reader = _FormReader(form, check)
    for value in reversed(_values(text)):
        if (found := reader.read(value)) is not None:
            return found
    raise UnreadAnswerError(reader.problems or ["the answer holds no JSON of the form"])


class _FormReader(Generic[Form]):
    """Tries values as a form, and keeps the problems of the first one that nearly is."""

    def __init__(self, form: type[Form], check: Callable[[Form], str | None] | None) -> None:
        self._form = form
        self._check = check
        self.problems: list[str] = []

    def read(self, value: object, depth: int = 0) -> Form | None:
        """Return the form that a value is or wraps."""
        if depth > _MOST_WRAPPERS:
            return None
        if isinstance(value, str):
            return self._first((each for each in reversed(_values(value))), depth)
        if isinstance(value, list):
            return self._of_list(cast("list[object]", value), depth)
        if not isinstance(value, Mapping):
            return None
        fields = cast("Mapping[str, object]", value)
        found = self._validated(fields)
        return self._first(_wrapped(fields), depth) if found is None else found

    def _first(self, values: Iterator[object], depth: int) -> Form | None:
        return next((found for each in values if (found := self.read(each, depth + 1)) is not None), None)

    def _of_list(self, items: list[object], depth: int) -> Form | None:
        fields = _listed(items, self._form)
        found = None if fields is None else self._validated(fields, is_whole=False)
        # An empty list has no elements, and a list of entries is tried as what it is.
        return self._first(reversed(items[-_MOST_TRIED:]), depth) if found is None else found

    def _validated(self, fields: Mapping[str, object], *, is_whole: bool = True) -> Form | None:
        try:
            found = self._form.model_validate(shaped(fields, self._form))
        except ValidationError as error:
            if is_whole and not self.problems:
                self.problems = _problems(error)
            return None
        problem = None if self._check is None else self._check(found)
        if problem is not None:
            self.problems = self.problems or [problem]
            return None
        return found


def _values(text: str) -> list[object]:
    """Return the values that a text holds, the most trusted one last."""
    # A text in the JSON may hold an escaped one.
    text = _whole(text)
    bare = text.strip()
    for _ in range(2):
        try:
            value: object = from_json(bare, allow_inf_nan=False)
        except ValueError:
            bare = _without_template(_without_reasoning(_without_channels(text)))
        else:
            return [[value], value] if isinstance(value, dict) else [value]
    last: deque[Found] = deque(found_values(bare), maxlen=_MOST_TRIED)
    objects: list[object] = [each.value for each in last if isinstance(each.value, dict)]
    lists: list[object] = [each.value for each in last if isinstance(each.value, list) and _stands_alone(bare, each)]
    texts: list[object] = [each.value for each in last if isinstance(each.value, str)]
    # Objects without the list that they belong into: all of them together.
    entries: list[object] = [objects] if objects and not any(each.is_inner for each in last) else []
    return [*texts, *entries, *lists, *objects]


#: What may stand on a list's line without saying anything.
_MARKS = " \t\r`*.;,"
_JSON = frozenset('{}[]"\\')


def _stands_alone(text: str, found: Found) -> bool:
    """Whether a list has its lines for itself, but for a fence and words that end with a colon."""
    start, end = text.rfind("\n", 0, found.start) + 1, text.find("\n", found.end)
    before, after = text[start : found.start], text[found.end : None if end < 0 else end]
    # With JSON around it, it is a part of what could not be read.
    if len(before) + len(after) > _LINE_CHARS or not _JSON.isdisjoint(before + after):
        return False
    label = before.rpartition(":")[2].strip(_MARKS)
    return label.casefold() in {"", "json"} and not after.strip(_MARKS)


#: Keys under which models put the whole answer, as words without marks between them.
_WRAPPERS = frozenset(
    {
        *("answer", "finalanswer", "final", "result", "results", "response", "output", "data", "json", "value"),
        *("arguments", "args", "parameters", "params", "input", "function", "functioncall", "toolcall", "toolcalls"),
        *("properties", "content", "message"),
    }
)


def _wrapped(fields: Mapping[str, object]) -> Iterator[object]:
    """Yield what an object may wrap: what stands under such a key, and the one object that it holds."""
    for key, value in fields.items():
        if folded(key) in _WRAPPERS or (len(fields) == 1 and isinstance(value, Mapping)):
            yield value


def _listed(items: list[object], form: type[BaseModel]) -> dict[str, object] | None:
    """Return a bare list as the fields of a form; None where the form has no list for it."""
    lists = {name: item for name, field in form.model_fields.items() if (item := _item_of(field.annotation))}
    if not lists or len(items) > _MOST_ENTRIES:
        return None
    main = next(iter(lists))
    if len(lists) == 1 or not all(isinstance(each, Mapping) for each in items):
        # A number in brackets is no text: "[1]" is a reference.
        is_text = _plain(lists[main]) is str
        return None if is_text and not all(isinstance(each, str | Mapping) for each in items) else {main: items}
    found: dict[str, object] = {main: []}
    for each in items:
        fits = {name: _fit(cast("Mapping[str, object]", each), item) for name, item in lists.items()}
        name = max(fits, key=fits.__getitem__)
        cast("list[object]", found.setdefault(name, [])).append(each)
    return found


def _fit(entry: Mapping[str, object], item: object) -> tuple[int, bool]:
    """Return how many fields of an item an entry has, and whether it is one."""
    plain = _plain(item)
    if not (isinstance(plain, type) and issubclass(plain, BaseModel)):
        return 0, False
    fields = cast("dict[str, object]", shaped(entry, plain))
    try:
        plain.model_validate(fields)
    except ValidationError:
        return len(fields.keys() & plain.model_fields.keys()), False
    return len(fields.keys() & plain.model_fields.keys()), True


# Shapes

_NO_LETTER = re.compile(r"[\W_]+")


def folded(name: str) -> str:
    """Return a name without case and without marks between its words: "Commit now" is ``commit_now``."""
    return _NO_LETTER.sub("", name.casefold())


def _plain(wanted: object) -> object:
    """Return a type without its annotations and without None."""
    while True:
        if get_origin(wanted) is Annotated:
            wanted = get_args(wanted)[0]
        elif get_origin(wanted) in {Union, types.UnionType}:
            others = [each for each in get_args(wanted) if each is not type(None)]
            if len(others) != 1:
                return wanted
            wanted = others[0]
        else:
            return wanted


def _item_of(wanted: object) -> object | None:
    """Return the type of a list's entries; None for another type."""
    plain = _plain(wanted)
    return get_args(plain)[0] if get_origin(plain) in {tuple, list} else None


def _names_of(wanted: object) -> dict[str, object]:
    """Return the texts that a type allows, by their folded names; none for a type that allows any."""
    if get_origin(wanted) is Literal:
        allowed: tuple[Any, ...] = get_args(wanted)
    elif isinstance(wanted, type) and issubclass(wanted, Enum):
        allowed = tuple(each.value for each in wanted)
    else:
        return {}
    return {folded(each): each for each in allowed if isinstance(each, str)}


def shaped(value: object, wanted: object, *, field: str = "", depth: int = 0) -> object:
    """Return a value with the keys, lists, names and numbers as a type has them; what fits nowhere stays as it is."""
    plain = _plain(wanted)
    if value is None or depth > MAX_DEPTH:
        return value
    if isinstance(plain, type) and issubclass(plain, BaseModel):
        return _with_fields(cast("Mapping[str, object]", value), plain, depth) if isinstance(value, Mapping) else value
    if (item := _item_of(plain)) is not None:
        given = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
        return [shaped(each, item, field=field, depth=depth + 1) for each in given]
    if isinstance(value, str):
        return _names_of(plain).get(folded(value), value)
    return _as_text(value, field) if plain is str else value


def _as_text(value: object, field: str) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, Mapping) and len(cast("Mapping[str, object]", value)) == 1:
        # Each of a list of questions may be an object with one question.
        ((key, text),) = cast("Mapping[str, object]", value).items()
        return text if len(folded(key)) > 1 and folded(field).startswith(folded(key)) else cast("object", value)
    return value


def _with_fields(given: Mapping[str, object], form: type[BaseModel], depth: int) -> dict[str, object]:
    names = {folded(name): name for name in form.model_fields}
    found: dict[str, object] = {}
    for key, value in given.items():
        name = key if key in form.model_fields else names.get(folded(key), key)
        if name != key and (name in given or name in found):
            name = key
        field = form.model_fields.get(name)
        if field is None:
            found[name] = value
        elif value is not None or field.is_required() or _allows_none(field.annotation):
            found[name] = shaped(value, field.annotation, field=name, depth=depth + 1)
    return found


def _allows_none(wanted: object) -> bool:
    return type(None) in get_args(wanted)


def _problems(error: ValidationError) -> list[str]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    sentences = (
        ".".join(map(str, each["loc"])) + ": " + each["msg"].removeprefix("Value error, ")
        for each in found[:_REPORTED_PROBLEMS]
    )
    return [sentence.removeprefix(": ")[:_REPORTED_CHARS] for sentence in sentences]

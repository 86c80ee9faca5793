"""Time in questions: the range that a question names, and its weight among the candidates of a search.

Few rules over tables of words, not a date library: dateparser found dates in 13 of 18 questions that have none, took 2
to 200 ms a question, and returns a moment where a range is asked.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, partial
from itertools import permutations

from memcore.backends.time_phrases import (
    DAYS_BEFORE,
    PART_OF_DAY,
    PAST_GAIN,
    SHORT_UNITS,
    WEEK_WORDS,
    WEEKDAYS,
    Form,
    any_of,
    days_in,
    days_of,
    event_words,
    forms,
    is_verb,
    may_name_time,
    nth_of,
    number_words,
    of_all,
    ordinals,
    span_words,
    weekday_of,
)
from memcore.backends.time_ranges import (
    DAY,
    INSTANT,
    Hemisphere,
    Moment,
    Range,
    around,
    day_like,
    half_of,
    middle_day,
    third_of,
)
from memcore.embedding import time_words as words
from memcore.embedding.bm25 import Tokenizer, fold
from memcore.models.memory import MemoryEntry

#: Nearness of what was written soon after the asked range.
_SOON_AFTER = 0.5

#: Characters of a question that are looked at, the last ones: what is asked comes last.
_MOST_CHARS = 1_000

#: Longest phrase beside a time that belongs to it, in characters.
_BESIDE_CHARS = 48

#: Words that say one time together, at most: "in the evening of Tuesday last week" are three phrases.
_MOST_TOGETHER = 3

#: Longest gap between two of them, in characters.
_GAP_CHARS = 10

#: "Shortly before" is within a week; "this time last year" is so small a part of it, before and behind.
_SOON, _AROUND_THIS = 7 * DAY, 24

_A_WORD = re.compile(r"\w+")

#: Start of a range that is open: "before March".
_EARLIEST = datetime(1, 1, 2, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRange:
    """A range of time that a question names: from ``start`` up to before ``end``, and the words that name it.

    ``gain`` is what a memory of it gains, as a multiple of its own score, and ``soon_gain`` one of soon after.
    ``rest`` is the question without the words that were read as a time, which are no subject; None leaves it whole.
    """

    start: datetime
    end: datetime
    words: frozenset[str] = frozenset()
    gain: float = 0.0
    soon_gain: float = 0.0
    rest: str | None = None

    @property
    def is_past(self) -> bool:
        """Whether its words say that it is over, or has begun: "yesterday", "last week"."""
        return self.gain >= PAST_GAIN

    def has(self, entry: MemoryEntry) -> bool:
        """Return whether a memory, or what a summary covers, is of this time."""
        return self.nearness(entry) == 1.0

    def nearness(self, entry: MemoryEntry) -> float:
        """Return 1.0 for a memory of this time, 0.0 for one of another, less than 1.0 for what was written soon after.

        Soon is within the length of the range: people say on Tuesday what they did on Monday.
        """
        return self.nearness_of(entry.created_at, entry.covers_until or entry.created_at)

    def nearness_of(self, first: datetime, last: datetime) -> float:
        """Return the nearness of what is from ``first`` to ``last``; see nearness."""
        if last < self.start:
            return 0.0
        # Not the end and the length, which may be beyond the last year.
        late = first - self.end
        if late < timedelta():
            return 1.0
        return _SOON_AFTER if self.start > _EARLIEST and late < self.end - self.start else 0.0


def subject_of(question: str, asked: AskedRange | None) -> str:
    """Return a question without the time that it asks for."""
    return question if asked is None or asked.rest is None else asked.rest


def in_time(
    scores: Mapping[str, float],
    nearness: Mapping[str, float],
    gain: float,
    *,
    own_gain: float = 0.0,
    soon_gain: float = 0.0,
) -> dict[str, float]:
    """Return the scores, 0 to 1, with what memories gain by their time; the best stays as good as the best was.

    A memory gains ``gain`` of the best score and ``own_gain`` of its own, times its ``nearness`` to the range that is
    asked; none is dropped. What is of soon after gains ``soon_gain`` of its own. What says nothing of the rest of the
    question gains little of its own.
    """
    if scores.keys().isdisjoint(nearness):
        return dict(scores)
    # A question that names a time and nothing else may match nothing.
    highest, found = max(scores.values()) or 1.0, dict[str, float]()
    for key, score in scores.items():
        near = nearness.get(key, 0.0)
        own = own_gain if near == 1.0 else soon_gain
        found[key] = score + (gain * highest + own * score) * near
    scale = highest / max(highest, *found.values())
    return {key: score * scale for key, score in found.items()}


def asked_range(
    question: str, now: datetime, *, zone: tzinfo = UTC, hemisphere: Hemisphere = "north"
) -> AskedRange | None:
    """Return the range that a question names, in UTC; None where it names none. Never raises for a text.

    Days, weeks (from Monday), months and seasons are whole, in the asker's ``zone``; one without a year is the latest
    that has begun. Of several ranges the last counts, and the one that a word such as "to" joins to it; "since" and
    "before" open a range. Known are English, German, Dutch, French, Spanish, Italian, Portuguese, Japanese, Chinese
    and Korean.
    """
    text = question[-_MOST_CHARS:]
    folded = fold(text)
    if not may_name_time(folded):
        return None
    try:
        asked = _asked(text, folded, Moment(now.astimezone(zone), hemisphere))
        if asked is None or asked.start >= asked.end:
            return None
        start, end = (each.astimezone(UTC) for each in (asked.start, asked.end))
    except (ValueError, OverflowError):
        # Before the first year, or behind the last.
        return None
    named = frozenset(Tokenizer.words(folded[asked.begin : asked.upto]))
    # Folding may change the length of a text, and few do.
    said = text if len(text) == len(folded) else folded
    rest = None if asked.is_named else question[: -len(text)] + said[: asked.begin] + said[asked.upto :]
    if rest is not None and (idle := event_words(question)):
        rest = _A_WORD.sub(lambda match: "" if fold(match[0]) in idle else match[0], rest)
    soon_gain = asked.gain if asked.is_date else 0.0
    return AskedRange(start=start, end=end, words=named, gain=asked.gain, soon_gain=soon_gain, rest=rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Time:
    """A time that some words of a question name, and how the same words are read as of another moment."""

    begin: int
    upto: int
    start: datetime
    end: datetime
    form: Form
    is_weak: bool
    read: Callable[[Moment], Range | None]
    gain: float = 0.0
    is_date: bool = False

    @property
    def is_named(self) -> bool:
        """Whether a memory may name it in its own words: a date, a hint, or a name that is not said to be past."""
        return self.is_date or self.form.is_vague or (self.form.is_name and self.gain < PAST_GAIN)


def _asked(text: str, folded: str, at: Moment) -> _Time | None:
    """Return the last time that a text names, joined with those before it, or opened."""
    times = _apart([_parted(each, folded, at) for each in _together(_times(text, folded, at), folded, at)])
    while times:
        asked, is_joined = times.pop(), False
        # "De junio a agosto": what joins two may begin the phrase of the second, too.
        while times and (join := _rules().joins.match(folded, times[-1].upto)) and join.end() >= asked.begin:
            asked, is_joined = _joined(times.pop(), asked, at), True
        asked = _between(asked, folded) if is_joined else _opened(asked, folded, at)
        if not asked.is_weak:
            return asked
    return None


def _times(text: str, folded: str, at: Moment) -> Iterator[_Time]:
    for form in forms():
        for match in form.pattern.finditer(folded):
            if form.is_weak or not is_verb(match, text):
                time = _time(partial(_read, form, match), form.span(match), form, at)
                if time is not None:
                    yield replace(time, is_weak=form.is_weak, gain=form.gain(match), is_date=form.is_calendar)


def _read(form: Form, match: re.Match[str], at: Moment) -> Range | None:
    try:
        return form.reading(match, at)
    except (ValueError, OverflowError):
        # 31 June, or a year before the first.
        return None


def _time(read: Callable[[Moment], Range | None], span: tuple[int, int], form: Form, at: Moment) -> _Time | None:
    found = read(at)
    if found is None:
        return None
    return _Time(begin=span[0], upto=span[1], start=found[0], end=found[1], form=form, is_weak=False, read=read)


def _together(found: Iterable[_Time], folded: str, at: Moment) -> list[_Time]:
    """Return the times, and what two or three beside one another name: "June last year", "yesterday evening"."""
    times = list(found)
    for _ in range(_MOST_TOGETHER - 1):
        new = [each for pair in permutations(times, 2) if (each := _part_of(*pair, folded, at)) is not None]
        times += [each for each in new if (each.begin, each.upto) not in {(one.begin, one.upto) for one in times}]
    return times


def _part_of(part: _Time, whole: _Time, folded: str, at: Moment) -> _Time | None:
    first, second = (part, whole) if part.begin < whole.begin else (whole, part)
    if not 0 <= second.begin - first.upto <= _GAP_CHARS or whole.end - whole.start > part.form.within:
        return None
    if not _rules().together.fullmatch(folded[first.upto : second.begin]):
        return None

    def read(moment: Moment) -> Range | None:
        outer = whole.read(moment)
        inner = None if outer is None else part.read(replace(moment, now=outer[1] - INSTANT))
        return inner if inner and outer and outer[0] <= inner[0] < outer[1] else None

    time = _time(read, (first.begin, second.upto), replace(part.form, within=whole.form.within), at)
    gain = max(part.gain, whole.gain) if whole.gain else 0.0
    return None if time is None else replace(time, gain=gain, is_date=part.is_date or whole.is_date)


def _parted(time: _Time, folded: str, at: Moment) -> _Time:
    """Return a time with the words beside it that name a part of it: "early", "the first half of", "this time"."""
    if time.form.within and time.form.within <= PART_OF_DAY:
        return time
    for pattern, part in _rules().parts:
        if (match := pattern.beside(time, folded)) is not None:
            if (found := part(match, time, at)) is None:
                continue
            start, end = found
            begin, upto = min(time.begin, match.start()), max(time.upto, match.end())
            return replace(time, begin=begin, upto=upto, start=start, end=end, is_weak=False)
    return _with_first_day(time, folded) if time.form.is_day else time


def _with_first_day(time: _Time, folded: str) -> _Time:
    """Return "3 to 20 September" of "20 September", and "September 3 to 20" of "September 3"."""
    match = _rules().other_day.beside(time, folded)
    try:
        other = time.start if match is None else time.start.replace(day=int(match[1]))
    except ValueError:
        # 31 February.
        return time
    if match is None or other == time.start or (other < time.start) != (match.lastgroup == "first"):
        return time
    begin, upto = min(time.begin, match.start()), max(time.upto, match.end())
    return replace(time, begin=begin, upto=upto, start=min(time.start, other), end=max(time.end, other + DAY))


def _apart(times: Sequence[_Time]) -> list[_Time]:
    """Return times that share no word, in order: what is surely a time before what may be none, and the longest."""
    found: list[_Time] = []
    for each in sorted(times, key=lambda each: (each.is_weak, each.begin - each.upto)):
        if all(each.upto <= other.begin or each.begin >= other.upto for other in found):
            found.append(each)
    return sorted(found, key=lambda each: each.begin)


def _joined(first: _Time, last: _Time, at: Moment) -> _Time:
    """Return the range from one time to another, of which either may take its year, month or week from the other."""
    if first.start > last.start:
        if (earlier := first.read(replace(at, now=last.start))) is not None and earlier[0] <= last.start:
            first = replace(first, start=earlier[0], end=earlier[1])
    elif last.form.within > PART_OF_DAY:
        # The next of that name, not the latest.
        soon = min(at.now, first.start + last.form.within - 2 * DAY)
        latest = last.read(replace(at, now=soon))
        if latest is not None and latest[0] > first.start and latest != last.read(at):
            last = replace(last, start=latest[0], end=latest[1])
    start, end = min(first.start, last.start), max(first.end, last.end)
    return replace(last, begin=first.begin, start=start, end=end, is_weak=first.is_weak and last.is_weak)


def _between(time: _Time, folded: str) -> _Time:
    match = _rules().between.beside(time, folded)
    return time if match is None else replace(time, begin=match.start(), is_weak=False)


def _opened(time: _Time, folded: str, at: Moment) -> _Time:
    """Return a time with the word beside it that opens its range: "since", "before", "until", "after", "around"."""
    if time.is_weak and time.form.within and time.form.within <= PART_OF_DAY:
        return time
    for pattern, opened in _rules().opens:
        if (match := pattern.beside(time, folded)) is not None:
            start, end = opened(match, time.start, time.end, at.day + DAY)
            begin, upto = min(time.begin, match.start()), max(time.upto, match.end())
            if start >= end:
                return time
            gain = PAST_GAIN if end == at.day + DAY and start == time.start else time.gain
            return replace(time, begin=begin, upto=upto, start=start, end=end, is_weak=False, gain=gain)
    return time


@dataclass(frozen=True, slots=True)
class _Beside:
    """What may stand right before a time, or right behind it."""

    before: re.Pattern[str]
    behind: re.Pattern[str]
    is_both: bool = False

    @classmethod
    def of(cls, before: str, behind: str = "", *, is_both: bool = False) -> "_Beside":
        """Return expressions as the words beside a time; an empty one for none, and ``is_both`` asks for both."""
        start, end = rf"(?<!\w)(?:{before or _NOTHING})\Z", rf"\s?の?(?:{behind or _NOTHING})"
        return cls(re.compile(start), re.compile(end), is_both)

    def beside(self, time: _Time, folded: str) -> re.Match[str] | None:
        """Return what is said of a time."""
        before = self.before.search(folded, max(0, time.begin - _BESIDE_CHARS), time.begin)
        if before is not None and not self.is_both:
            return before
        behind = self.behind.match(folded, time.upto)
        return behind if before is not None or not self.is_both else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """The words beside times: those that join two, take a part of one, or open one."""

    joins: re.Pattern[str]
    together: re.Pattern[str]
    between: _Beside
    other_day: _Beside
    parts: tuple[tuple[_Beside, Callable[[re.Match[str], _Time, Moment], Range | None]], ...]
    opens: tuple[tuple[_Beside, Callable[[re.Match[str], datetime, datetime, datetime], Range]], ...]


#: Matches nothing.
_NOTHING = r"(?!)"

#: A space or an apostrophe behind a word, and an article.
_SPACE = r"(?:\s|(?<=['\u2019]))"
_ARTICLE = (
    r"(?:(?:the|this|den|dem|der|des|das|de|het|le|la|les|el|los|las|il|lo|o|os|as|du|del|al|au|im|zum)\s"
    r"|[ld]['\u2019])?"
)


@cache
def _rules() -> _Rules:
    joins, ordinal = rf"(?:{of_all('joins')}|-|\u2013|{words.CJK_JOINS})", r"(?:st|nd|rd|th|er|º|\.|日)?"
    of = rf"(?:(?:{of_all('of')}){_SPACE})?{_ARTICLE}"
    between = rf"(?:{of_all('between')}){_SPACE}{_ARTICLE}"

    def part(name: str, behind: str = "") -> _Beside:
        return _Beside.of(rf"{_ARTICLE}(?:{name})[\s-]{of}" if name else "", behind)

    def open_(name: str, behind: str) -> _Beside:
        # "9月3日から20日" is a range of two days.
        return _Beside.of(rf"(?:{of_all(name)}){_SPACE}{_ARTICLE}", rf"(?:{behind})(?!\s?\w{{1,4}}[月日年])")

    def soon(name: str) -> _Beside:
        return _Beside.of(rf"(?:{of_all('shortly')})\s(?:{of_all(name)}){_SPACE}{_ARTICLE}")

    def span(name: str) -> _Beside:
        return _Beside.of(rf"{span_words()}\s(?:{of_all(name)}){_SPACE}{_ARTICLE}")

    nth, third, days = ordinals(), words.CJK_THIRDS, rf"(?P<day>{any_of(DAYS_BEFORE)})"
    some = rf"(?P<n>{number_words()})\s"
    week = rf"(?:{any_of(WEEK_WORDS)}|(?P<weekend>{of_all('weekend')}))"
    return _Rules(
        joins=re.compile(rf"\s?{joins}\s?{_ARTICLE}"),
        together=re.compile(rf"(?:,|['\u2019]s)?\s?(?:{of}|{between})|の、?"),
        between=_Beside.of(between),
        other_day=_Beside.of(
            rf"(?:{between})?{_ARTICLE}(?P<first>\d{{1,2}}){ordinal}\s?{joins}\s?{_ARTICLE}",
            rf"(?:to|until|through|bis|au|al|tot|até|から|-|\u2013)\s?(?P<last>\d{{1,2}}){ordinal}(?!\w|[:.,]?\d)",
        ),
        parts=(
            (part(rf"{days}|{of_all('exactly')}", rf"{days}|(?:{of_all('to_the_day')})\b"), _same_day),
            (part(of_all("this_time"), of_all("this_time")), _this_time),
            (
                part(rf"(?:{nth})\s(?:{of_all('half')})"),
                lambda match, time, _: half_of(nth_of(match), time.start, time.end),
            ),
            (part(rf"{some}(?:{nth})\s(?P<unit>{SHORT_UNITS})"), _nth_days),
            (part(rf"(?:{nth})\s(?:(?:{some})?(?P<unit>{SHORT_UNITS})|{of_all('weekend')})"), _nth_days),
            (part(rf"(?:{nth})\s(?P<weekday>{WEEKDAYS})"), _nth_weekday),
            (part(of_all("early"), third[0]), lambda _, time, __: third_of(0, time.start, time.end)),
            (part(of_all("earlier")), lambda _, time, __: (time.start, time.end)),
            (part(of_all("middle"), third[1]), lambda _, time, __: third_of(1, time.start, time.end)),
            (part(of_all("late"), third[2]), lambda _, time, __: third_of(2, time.start, time.end)),
            (part("", words.CJK_HALVES[0]), lambda _, time, __: half_of(0, time.start, time.end)),
            (part("", words.CJK_HALVES[1]), lambda _, time, __: half_of(1, time.start, time.end)),
        ),
        opens=(
            # Told on the day itself, mostly.
            (span("before"), lambda match, start, end, _: (start - days_of(match), end)),
            (span("after"), lambda match, start, end, _: (start, end + days_of(match))),
            (_Beside.of(rf"{week}\s(?:{of_all('week_of')})\s{_ARTICLE}"), _week_of),
            (soon("before"), lambda _, start, __, ___: (start - _SOON, start)),
            (soon("after"), lambda _, __, end, ___: (end, end + _SOON)),
            (
                open_("since", rf"{words.CJK_SINCE}|(?:{of_all('onwards')})\b"),
                lambda _, start, __, tomorrow: (start, tomorrow),
            ),
            (
                _Beside.of(rf"(?:{of_all('from_on')}){_SPACE}{_ARTICLE}", rf"(?:{of_all('on')})\b", is_both=True),
                lambda _, start, __, tomorrow: (start, tomorrow),
            ),
            (open_("before", words.CJK_BEFORE), lambda _, start, __, ___: (_EARLIEST, start)),
            (open_("until", words.CJK_UNTIL), lambda _, __, end, ___: (_EARLIEST, end)),
            (open_("after", words.CJK_AFTER), lambda _, __, end, tomorrow: (end, tomorrow)),
            (open_("around", words.CJK_AROUND), lambda _, start, end, __: around(start, end)),
        ),
    )


def _same_day(match: re.Match[str], time: _Time, _: Moment) -> Range | None:
    """Read "a week ago today" and "gestern vor einem Monat"; beside other times such a word says nothing of them."""
    start, end = middle_day(time.start, time.end)
    if not time.form.is_counted_back or (start, end) == (time.start, time.end):
        return None
    shift = DAYS_BEFORE.get(match["day"] or "", 0) * DAY
    return start - shift, end - shift


def _this_time(_: re.Match[str], time: _Time, at: Moment) -> Range:
    start, end = day_like(at.day, time.start, time.end)
    wider = max(1, (time.end - time.start) // DAY // _AROUND_THIS) * DAY
    return start - wider, end + wider


def _nth_days(match: re.Match[str], time: _Time, _: Moment) -> Range | None:
    """Read "the last week of August" and "the first ten days of May", but not "last week on Tuesday".

    A weekend is told of in the week around it.
    """
    length, place = days_in(match) if match["unit"] else 7 * DAY, nth_of(match)
    start = time.end - length if place < 0 else time.start + place * length
    return (start, start + length) if time.start <= start < time.end else None


def _nth_weekday(match: re.Match[str], time: _Time, _: Moment) -> Range | None:
    """Read "the second Tuesday in October"."""
    weekday, place = weekday_of(match["weekday"]), nth_of(match)
    first = time.start + (weekday - time.start.weekday()) % 7 * DAY
    start = first + ((time.end - DAY - first) // (7 * DAY) if place < 0 else place) * 7 * DAY
    return (start, start + DAY) if time.start <= start < time.end else None


def _week_of(match: re.Match[str], start: datetime, end: datetime, _: datetime) -> Range:
    """Read "the week of 5 October", which is from Monday on, and "the weekend of 10 October"."""
    monday = start - start.weekday() * DAY
    if end - start > 7 * DAY:
        return start, end
    return (monday + 5 * DAY if match["weekend"] else monday), monday + 7 * DAY

"""What returns in an agent's life (stand-ups, deploys, alerts): derived from handwritten parts by a seeded draw."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from random import Random

from pydantic import Field

from examples.demo.fleet.day import moment
from examples.demo.fleet.memory import FleetMemory
from examples.demo.fleet.pages import page
from examples.demo.fleet.phrases import Phrases, Word
from memcore.errors import MemoryConfigError
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.memory import MemoryCategory, MemoryMetadata, MemoryStoreRequest

#: Draws before a series with too few parts is given up; a text that repeats by chance would look stamped.
TRIES = 50

#: Draws for one text before the next text of the series is tried.
DRAWS = 10

#: Hours of a working day (UTC) between which memories are written when the series says nothing else.
OFFICE_HOURS = (7, 17)

#: Number of the last working day, as datetime.weekday counts.
FRIDAY = 4


class Span(Frozen):
    """How many memories fall between two ages, in whole days."""

    count: int
    youngest: int
    oldest: int


class Series(Frozen):
    """Memories of one kind that one agent keeps writing.

    Attributes:
        every: a tag for each n-th memory.
        weekdays: written on working days only; what falls on a weekend moves back to the Friday.
        resent: how many of them the agent sends twice, word for word.
        retold: how many it tells again in slightly other words, some days later.
        texts: what may be said, with slots; all are used before one returns.
        words: words of this series, beside those of words.yaml.
    """

    category: MemoryCategory
    namespace: NotBlankStr
    spans: tuple[Span, ...]
    texts: tuple[NotBlankStr, ...]
    words: dict[str, tuple[str | dict[str, str | float], ...]] = Field(default_factory=dict)
    source: str | None = None
    tags: tuple[str, ...] = ()
    every: dict[str, int] = Field(default_factory=dict)
    confidence: tuple[float, float] = (0.6, 0.95)
    weekdays: bool = False
    hours: tuple[int, int] = OFFICE_HOURS
    expires_in_days: float | None = None
    resent: int = 0
    retold: int = 0


def derived(agent_id: str, today: datetime) -> Iterator[FleetMemory]:
    """Yield the agent's derived memories; the same day gives the same texts."""
    shared: Mapping[str, Sequence[Word]] = page("words.yaml")
    for name, row in page(f"derived/{agent_id}.yaml").items():
        series = Series.model_validate(row)
        random = Random(f"{agent_id}/{name}")  # noqa: S311 - a repeatable draw is wanted, no secret
        yield from _written(agent_id, series, random, Phrases({**shared, **series.words}, random, today), today)


def _written(agent_id: str, series: Series, random: Random, phrases: Phrases, today: datetime) -> Iterator[FleetMemory]:
    seen: set[str] = set()
    for count, days_ago in enumerate(_ages(series, random, today)):
        text = _unmentioned(series, phrases, count, days_ago, seen)
        seen.add(text)
        tags = (*series.tags, *(tag for tag, nth in series.every.items() if count % nth == nth - 1))
        source = None if series.source is None else phrases.fill(series.source, days_ago)
        metadata = MemoryMetadata(source=source, confidence=round(random.uniform(*series.confidence), 2), tags=tags)
        first = _memory(agent_id, series, text, metadata, moment(today, days_ago))
        yield first
        if count < series.resent:
            later = moment(today, days_ago - random.uniform(0.001, 0.02))
            yield first.model_copy(update={"created_at": later})
        elif count < series.resent + series.retold:
            again = phrases.fill("«retelling»", days_ago).replace("…", text)
            yield _memory(agent_id, series, again, metadata, moment(today, days_ago - random.uniform(0.01, 0.05)))


def _unmentioned(series: Series, phrases: Phrases, count: int, days_ago: float, seen: set[str]) -> str:
    for tried in range(TRIES):
        # A poor text is preempted to the next one after a few draws.
        text = phrases.fill(series.texts[(count + tried // DRAWS) % len(series.texts)], days_ago)
        if text not in seen:
            return text
    raise MemoryConfigError(f"the demo's series {series.namespace} has too few words for {len(seen) + 1} texts")


def _memory(agent_id: str, series: Series, text: str, metadata: MemoryMetadata, created_at: datetime) -> FleetMemory:
    expires_in_days = series.expires_in_days
    request = MemoryStoreRequest(
        category=series.category,
        namespace=series.namespace,
        content=text,
        metadata=metadata,
        expires_at=None if expires_in_days is None else created_at + timedelta(days=expires_in_days),
    )
    return FleetMemory(agent_id=agent_id, created_at=created_at, request=request)


def _ages(series: Series, random: Random, today: datetime) -> Iterator[float]:
    opens, closes = series.hours
    for span in series.spans:
        for _ in range(span.count):
            day = random.randint(span.youngest, span.oldest)
            weekday = moment(today, day).weekday()
            if series.weekdays and weekday > FRIDAY:
                day += weekday - FRIDAY
            # A whole day back, then forward to an hour of that day.
            yield day - random.uniform(opens, closes) / 24

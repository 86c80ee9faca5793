"""Whether a diary's entries are found by their time alone: months, weeks and days, in several languages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

from benchmarks.figure import Figure, Target
from benchmarks.stack import open_home, policy_of, store_said

from memcore.backends.factory import WorkerBackend
from memcore.models.memory import MemoryQuery
from memcore.retrieval.context import ContextInjectionStrategy

#: Entries, one a day but for every seventh day, up to the day before the questions.
_ENTRIES = 260

#: When the questions are asked: a Thursday.
_NOW = datetime(2026, 11, 26, 10, tzinfo=UTC)

#: Place in an answer up to which it counts, and the share of it that must be of the asked time.
_DEPTH, _LEAST = 10, 0.9

_DONE = (
    "Repaired the {} with Jonas and had to order a new part.",
    "Painted the {} twice because the first colour looked grey.",
    "Sold the {} to a neighbour who paid in coins.",
    "Read the manual of the {} from cover to cover.",
    "Lost the key of the {} and found it in the bread bin.",
    "Cleaned the {}; it took until supper.",
    "Showed the {} to my sister, who laughed for a while.",
    "Dreamt about the {} again and wrote it all down.",
    "Measured the {} for the move and it does not fit.",
)
_THINGS = (
    "rowing boat", "garden shed", "accordion", "greenhouse", "tandem", "letterbox", "stove", "sewing machine",
    "kayak", "bookshelf", "radio", "wheelbarrow", "aquarium", "telescope", "coffee grinder", "attic window",
    "typewriter", "hammock", "beehive", "piano stool", "sledge", "weather vane", "record player", "pottery wheel",
    "camping tent", "ladder", "birdhouse", "toolbox", "rain barrel",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A question, and the days whose entries answer it, up to before ``end``."""

    text: str
    start: datetime
    end: datetime


def diary() -> tuple[list[Figure], list[Target]]:
    """Ask for months, weeks and days by search and by prompt."""
    entries = _entries()
    with open_home(policy="memory: {}\n") as stack, stack.backend("diary", clock=lambda: _NOW) as (backend, runner):
        runner.run(store_said(backend, entries.items(), company="diary"))
        strategy = ContextInjectionStrategy.from_policy(policy_of(stack.settings), backend=backend, clock=lambda: _NOW)
        targets = list[Target]()
        for name, questions in _questions().items():
            searched = [_precision(runner.run(_found(backend, each)), each, entries) for each in questions]
            prompted = [_precision(runner.run(_shown(strategy, each, entries)), each, entries) for each in questions]
            for way, values in (("search", searched), ("prompt", prompted)):
                mean = sum(values) / len(values)
                targets.append(Target(name=f"{len(questions)} {name}: P@10 of a {way}", values=[mean], wanted=_LEAST))
    return [], targets


def _entries() -> dict[str, datetime]:
    """Return each text with its time, the oldest first; the texts name no time."""
    random = Random(11)
    texts = [done.format(thing) for thing in _THINGS for done in _DONE][:_ENTRIES]
    random.shuffle(texts)
    days = [day for day in range(1, 400) if day % 7][:_ENTRIES]
    return {
        text: _NOW - timedelta(days=day, hours=random.uniform(-9, 9))
        for text, day in zip(texts, reversed(days), strict=True)
    }


def _questions() -> dict[str, list[_Asked]]:
    midnight = _NOW.replace(hour=0)
    week = midnight - timedelta(days=midnight.weekday())

    def days(start: datetime, number: int, *texts: str) -> list[_Asked]:
        return [_Asked(text=text, start=start, end=start + timedelta(days=number)) for text in texts]

    def month(number: int, *texts: str) -> list[_Asked]:
        start = datetime(2026, number, 1, tzinfo=UTC)
        return [_Asked(text=text, start=start, end=datetime(2026, number + 1, 1, tzinfo=UTC)) for text in texts]

    def ago(number: int) -> datetime:
        return midnight - timedelta(days=number)

    return {
        "months": [
            *month(5, "What did I do in May?", "What happened in May 2026?", "Was habe ich im Mai gemacht?"),
            *month(3, "what was going on in March", "¿Qué hice en marzo?", "Qu'est-ce que j'ai fait en mars ?"),
            *month(8, "Tell me about August 2026", "Wat heb ik in augustus gedaan?", "8月に何をしましたか"),
            *month(10, "What was I busy with last month?", "先月は何をしましたか", "Was war letzten Monat los?"),
        ],
        "weeks": [
            *days(week - timedelta(days=7), 7, "What happened last week?", "Was war letzte Woche los?"),
            *days(week - timedelta(days=7), 7, "Was habe ich vorige Woche gemacht?", "先週何をしましたか"),
            *days(week - timedelta(days=7), 7, "Wat deed ik vorige week?", "Qu'ai-je fait la semaine dernière ?"),
            *days(week - timedelta(days=7), 7, "¿Qué hice la semana pasada?", "上周我做了什么?"),
            *days(week - timedelta(days=21), 7, "what did we do three weeks ago", "Was war vor drei Wochen?"),
            *days(week, 4, "What have I done this week?", "今週は何をしましたか"),
        ],
        "days": [
            *days(ago(1), 1, "What did I do yesterday?", "Was habe ich gestern gemacht?", "昨日は何をしましたか"),
            *days(ago(3), 1, "What happened three days ago?", "Was war vor drei Tagen?", "3日前に何をしましたか"),
            *days(ago(2), 1, "What did I do on Tuesday?", "Was habe ich am Dienstag gemacht?", "¿Qué hice anteayer?"),
            *days(datetime(2026, 3, 3, tzinfo=UTC), 1, "What did I do on 3 March?", "Was war am 3. März?"),
            *days(datetime(2026, 5, 8, tzinfo=UTC), 1, "What happened on May 8, 2026?", "2026年5月8日に何をしましたか"),
            *days(datetime(2026, 9, 15, tzinfo=UTC), 1, "Qu'est-ce que j'ai fait le 15 septembre ?", "2026-09-15"),
        ],
    }


async def _found(backend: WorkerBackend, asked: _Asked) -> list[str]:
    return [entry.content for entry in await backend.retrieve("agent", MemoryQuery(text=asked.text, limit=_DEPTH))]


async def _shown(strategy: ContextInjectionStrategy, asked: _Asked, entries: dict[str, datetime]) -> list[str]:
    prompt = "".join(each.content for each in await strategy.prepare_messages("agent", asked.text, 2_000))
    places = {text: prompt.find(text) for text in entries}
    return sorted((text for text, place in places.items() if place >= 0), key=places.__getitem__)[:_DEPTH]


def _precision(found: Sequence[str], asked: _Asked, entries: dict[str, datetime]) -> float:
    """Return the share of the first places that is of the asked time; of as many places as there are such entries."""
    wanted = {text for text, at in entries.items() if asked.start <= at < asked.end}
    depth = min(_DEPTH, len(wanted))
    return len(wanted.intersection(found[:depth])) / depth

"""Quality over time: what came of registered tests day by day, and the questions that agents asked, as charts."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from ops.http.context import CompanyService
from ops.web.charts import Figure, bars
from ops.web.pages import number

#: Days that the charts look back on, and the most runs that are read for them.
DAYS, MOST_RUNS = 30, 10_000

_DAY = timedelta(days=1)


async def quality(service: CompanyService, agent_id: str | None, *, among: Collection[str] | None) -> list[Figure]:
    """Return the charts of an agent, or of all that a key may see; those that have something to show.

    What is not kept is not drawn: of a test the last result stays, and behind each run how many passed.
    """
    now = service.clock().astimezone(UTC)
    days = [f"{now - place * _DAY:%Y-%m-%d}" for place in reversed(range(DAYS))]
    since = datetime.combine((now - (DAYS - 1) * _DAY).date(), datetime.min.time(), UTC)
    found, drawn = list[Figure](), Counter[tuple[str, str]]()
    tested = await service.memory_tests.history(since=since, most=MOST_RUNS, agent_id=agent_id, among=among)
    for each in tested:
        day = f"{each.at.astimezone(UTC):%Y-%m-%d}"
        drawn["passed", day] += each.asked - each.failed - each.errors
        drawn["failed", day] += each.failed
        drawn["no answer", day] += each.errors
    if tested:
        about = "Registered tests that were asked behind runs, by the day of UTC on which the run was made."
        about += f" The newest {number(MOST_RUNS)} runs." if len(tested) == MOST_RUNS else ""
        found.append(_by_day("tested", "Tests day by day", about, days, ("passed", "no answer", "failed"), drawn))
    asked = () if agent_id is None else await service.agents.questions(agent_id)
    recorded = Counter(("questions", f"{each.asked_at.astimezone(UTC):%Y-%m-%d}") for each in asked)
    if any(day in days for _, day in recorded):
        about = "Recorded questions by the day of UTC on which each was asked last; earlier times are not kept."
        found.append(_by_day("asked", "Questions", about, days, ("questions",), recorded))
    return found


def _by_day(
    name: str,
    title: str,
    about: str,
    days: Sequence[str],
    series: tuple[str, ...],
    counts: Mapping[tuple[str, str], int],
) -> Figure:
    values = {each: [counts.get((each, day), 0) for day in days] for each in series}
    return bars(name, title, about, days, values, of="Day")

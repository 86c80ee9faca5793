"""The report of a chaos run, for people: what was sent, what was killed and for how long, and what does not add up."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from chaos.chaos_run import ChaosResult, ChaosSettings
from chaos.connection_cutter import Cut, CutKind
from chaos.finding import Finding
from chaos.kill import Target
from chaos.outage import by_target, longest_down, longest_until
from chaos.reconciliation import Reconciliation

from tasks.store import write

#: Width of the first column.
_NAME = 14


def lines(
    chaos_settings: ChaosSettings,
    transport: str,
    after: ChaosResult,
    account: Reconciliation,
    findings: Sequence[Finding],
) -> Iterator[str]:
    """Yield the report line by line."""
    promises = after.promises
    database = "PostgreSQL" if after.cuts else "SQLite"
    yield f"seed {chaos_settings.seed}, transport {transport}, {database}: {after.chaos_seconds:.0f} s of storm"
    calls = ", ".join(f"{number} {name}" for name, number in sorted(promises.calls.items()))
    yield f"sent: {promises.jobs} store jobs with {promises.memories} memories ({calls})"
    yield f"sent again because the broker was down: {len(promises.resent)} memories"
    poison = after.poison
    yield (
        f"poison: {len(poison.job_ids)} jobs that cannot be done, {len(poison.unreadable)} unreadable messages, "
        f"{len(poison.killer_ids)} jobs that kill their worker"
    )
    yield ""
    yield from _outages(after)
    yield ""
    for sleep in after.sleeps:
        end = "ended in its sleep" if sleep.was_killed else "woke up and went on"
        yield f"stopped: {sleep.target} for {sleep.seconds:.0f} s, {end}"
    holds = ", ".join(f"{hold.name} {hold.seconds:.1f} s" for hold in after.holds)
    yield f"locked: {holds or 'nothing'}"
    yield from _cuts(after.cuts)
    if after.broker_cuts:
        yield f"all connections to the broker closed {after.broker_cuts} times"
    yield from _maintenance_runs(after)
    yield f"quiet: {after.quiet.seconds:.0f} s after the chaos run" + "".join(
        f"; left: {number} {what}" for what, number in after.quiet.left.items()
    )
    yield ""
    live = len(after.evidence.live)
    yield f"balance: exact for {account.exact_agents} of {account.agents} agents; {live} memories live"
    yield from (found.sentence() for found in findings)
    verdicts = Counter({"lost": 0, "duplicated": 0, "unsettled": sum(after.quiet.left.values())})
    for found in findings:
        verdicts[found.verdict] += found.count
    yield ", ".join(f"{verdict} {number}" for verdict, number in verdicts.items())


def own_deaths(after: ChaosResult) -> Mapping[str, int]:
    """Return how often parts died that nobody had killed."""
    outages = by_target(after.outages)
    outages[Target.STORE_WORKER] += len(after.poison.killer_ids) * write.limits.deaths
    outages.update(after.hung)
    outages.update(sleep.target for sleep in after.sleeps if sleep.was_killed)
    return {part: number - outages[part] for part, number in after.restarts.items() if number > outages[part]}


def _outages(after: ChaosResult) -> Iterator[str]:
    outages = by_target(after.outages)
    down, until = longest_down(after.outages), longest_until(after.outages, after.prober.moments)
    yield f"{'killed':<{_NAME}}{'kills':>8}{'restarts':>10}{'to ready, s':>14}{'to next store, s':>18}"
    for target in Target:
        restarts = "" if target is Target.CHILD else str(after.restarts[target])
        stores = f"{until[target]:.1f}" if target in until else ""
        yield f"{target:<{_NAME}}{outages[target]:>8}{restarts:>10}{down.get(target, 0.0):>14.1f}{stores:>18}"
    yield f"{'together':<{_NAME}}{outages.total():>8}{sum(after.restarts.values()):>10}"
    deaths = ", ".join(f"{part} {number}" for part, number in own_deaths(after).items())
    yield f"died without being killed: {deaths or 'nothing'}"
    hung = ", ".join(f"{part} {number}" for part, number in Counter(after.hung).items())
    yield f"hung, and ended by hand: {hung or 'nothing'}"
    yield from _waits("a store under way waited", after.prober.moments, after)
    if after.prober.lost:
        yield f"probes whose end nobody heard of: {after.prober.lost}"
    http = after.http
    answers = ", ".join(f"{number} {kind}" for kind, number in sorted(http.answers.items()))
    yield f"over HTTP: {answers}; {http.retries} sent again, {http.replayed} answered from before"
    yield from _waits("store-to-findable over HTTP:", http.moments, after)
    tool = after.tool
    of_it = f"{len(tool.memories)} memories of a tool, {len(tool.shown)} shown in {tool.looks} answers"
    yield f"distrusted meanwhile: {of_it}"


def _waits(what: str, moments: Sequence[tuple[float, float]], after: ChaosResult) -> Iterator[str]:
    """Say how long the longest and the middle one took, and what was away during the longest."""
    ordered = sorted(moments, key=lambda moment: moment[1] - moment[0])
    if not ordered:
        return
    (begin, end), middle = ordered[-1], ordered[len(ordered) // 2]
    yield f"{what} {end - begin:.1f} s at most, {middle[1] - middle[0]:.2f} s in the middle ({len(ordered)} of them)"
    away = [(kill.at, kill.up_at or end, f"{kill.target} killed") for kill in after.outages]
    away += [(sleep.at, sleep.at + sleep.seconds, f"{sleep.target} stopped") for sleep in after.sleeps]
    away += [(hold.at, hold.at + hold.seconds, f"{hold.name} locked") for hold in after.holds]
    seconds: dict[str, float] = defaultdict(float)
    for at, until, name in away:
        seconds[name] += max(0.0, min(until, end) - max(at, begin))
    meanwhile = ", ".join(
        f"{name} {each:.1f} s" for name, each in sorted(seconds.items(), key=lambda item: -item[1]) if each
    )
    yield f"      meanwhile, together: {meanwhile or 'nothing was away'}"


def _cuts(cuts: Sequence[Cut]) -> Iterator[str]:
    for way in CutKind:
        those = [cut for cut in cuts if cut.way is way]
        if those:
            connections, longest = sum(cut.connections for cut in those), max(cut.seconds for cut in those)
            yield f"connections {way}: {connections} in {len(those)} cuts, the server was away {longest:.1f} s at most"


def _maintenance_runs(after: ChaosResult) -> Iterator[str]:
    runs = after.evidence.runs
    states = Counter(str(run.state) for run in runs)
    moved: Counter[str] = Counter()
    for counts in after.evidence.counted.values():
        moved.update(counts)
    states_text = ", ".join(f"{number} {state}" for state, number in states.items())
    yield f"runs: {len(after.maintenance_runs.planned)} planned; {states_text}"
    most = max((run.attempt for run in runs), default=0)
    yield f"      {sum(run.attempt > 1 for run in runs)} were taken over, one was begun {most} times; {dict(moved)}"
    yield f"      {after.quiet.redelivered} messages of dead workers delivered again when their runs had ended"

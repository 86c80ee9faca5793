"""Reads ledger, broker and heartbeats for one scrape, with a few statements whatever the number of memories.

A part that does not answer costs its own samples, and no scrape: ``memtend_part_up`` says so.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, timedelta

from memcore.canary import canary_state
from memcore.clock import Clock
from memcore.config.settings import Settings
from memcore.deadline.limits import limited_parts
from memcore.errors import MemoryConnectionError, MemoryError  # noqa: A004  # the reference fixes the name
from memcore.jobs import (
    EndSessionPayload,
    ExtractPayload,
    LessonPayload,
    SynthesisPayload,
)
from memcore.ledger.agents import LATE
from memcore.ledger.companies import CompanyPolicies, CompanyState
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_usage import UsageBy
from memcore.ledger.monitoring.measures import MeasureName
from memcore.llm.protocol import CHECK_PURPOSE
from ops.metrics import families
from ops.metrics.exposition import Family, Samples
from ops.metrics.latency import ServeTimes
from workers.broker import answering, broker_app, person_options, read_queues
from workers.groups import GROUPS
from workers.health import Heartbeat
from workers.stack.home import sleeping_parts

#: Seconds between two questions to the workers: each waits a second for the last answer.
PING_SECONDS = 30.0

#: Companies that one scrape shows; of more, the first by name.
MOST_COMPANIES = 200

#: How far back the counts of runs go.
_DAY = timedelta(days=1)

#: Kinds of work that wait for good where no language model is connected: nothing is late.
_ASK_A_MODEL = (LessonPayload.task, SynthesisPayload.task, ExtractPayload.task, EndSessionPayload.task)

_COUNTERS = {
    MeasureName.MEMORIES_STORED: families.STORED,
    MeasureName.SUSPECT_STORED: families.SUSPECT,
}

#: Outcomes of questions to a model, as the report counts them.
_OUTCOMES = ("calls", "refused", "failed", "asked_again")


class Collector:
    """Gathers what ``/metrics`` shows.

    Args:
        times: what this process measures.
        monotonic: seconds that only grow.
    """

    def __init__(
        self,
        settings: Settings,
        policies: CompanyPolicies,
        ledger: Ledger,
        times: ServeTimes,
        *,
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._policies = policies
        self._ledger = ledger
        self._times = times
        self._clock = clock
        self._monotonic = monotonic
        self._workers: tuple[Counter[str] | None, float] = (None, float("-inf"))

    def gather(self, company: str | None) -> Samples:
        """Read the figures of a company; for None those of the installation and of every company. It blocks."""
        samples = Samples()
        with self._asking_ledger(samples):
            if company is None:
                self._installation(samples)
            companies = self._served() if company is None else [company]
            self._of_agents(samples, companies)
            self._at_present(samples, companies)
            for each in companies:
                self._of_company(samples, each)
        if company is None:
            self._of_broker(samples)
            self._heartbeats(samples)
            self._times.add_to(samples)
        return samples

    def gather_present(self, company: str) -> Samples:
        """Read what changes by the second: of the installation, and of a company without agents and the last day.

        It blocks; a part that does not answer is waited for two seconds.
        """
        samples = Samples()
        with limited_parts(), self._asking_ledger(samples):
            self._installation(samples)
            self._at_present(samples, [company])
        self._of_broker(samples)
        self._heartbeats(samples)
        return samples

    @contextmanager
    def _asking_ledger(self, samples: Samples) -> Iterator[None]:
        is_up = False
        try:
            yield
            is_up = True
        except MemoryError:
            pass  # its samples are missing, and that is said
        samples.set(families.PART_UP, is_up, part="ledger")

    def _served(self) -> list[str]:
        rows = self._ledger.companies.all()
        names = {each.company for each in rows if each.state is not CompanyState.REMOVED} | {self._settings.company}
        # The own one always.
        return [self._settings.company, *sorted(names - {self._settings.company})][:MOST_COMPANIES]

    def _installation(self, samples: Samples) -> None:
        tick = self._ledger.ticks.last(self._settings.company)
        if tick is not None:
            samples.set(families.TICK, max(0.0, (self._clock() - tick.ended_at).total_seconds()))
        without = () if self._settings.llm_url else _ASK_A_MODEL
        for queue, age in self._ledger.figures.oldest_due(without=without).items():
            samples.set(families.QUEUE_OLDEST, age.total_seconds(), queue=queue)

    def _of_broker(self, samples: Samples) -> None:
        try:
            queues, unreadable = read_queues(self._settings)
            answers = self._answering()
        except MemoryConnectionError:
            samples.set(families.PART_UP, 0, part="broker")
            return
        samples.set(families.PART_UP, 1, part="broker")
        samples.set(families.UNREADABLE, unreadable)
        now = self._clock().timestamp()
        for queue, facts in queues.items():
            samples.set(families.QUEUE_JOBS, facts.waiting, queue=queue)
            # Of the two that may wait, a message and a row whose message was lost, the older one counts.
            age = 0.0 if facts.sent_at is None else now - facts.sent_at
            samples.set(families.QUEUE_OLDEST, max(age, samples.value(families.QUEUE_OLDEST, queue=queue)), queue=queue)
        asleep = sleeping_parts(self._settings.home)
        for name, group in GROUPS.items():
            if answers[name] or not (group.on_demand or f"worker-{name}" in asleep):
                samples.set(families.WORKERS, answers[name], group=name)

    def _answering(self) -> Counter[str]:
        answers, asked_at = self._workers
        if answers is None or self._monotonic() - asked_at >= PING_SECONDS:
            try:
                with closing(broker_app(self._settings)) as app:
                    app.conf.broker_transport_options = person_options(self._settings)
                    answers = answering(app)
            except Exception as error:
                # kombu's errors depend on the broker; whatever it was, nobody answered.
                raise MemoryConnectionError(f"the workers cannot be asked ({type(error).__name__})") from error
            self._workers = answers, self._monotonic()
        return answers

    def _heartbeats(self, samples: Samples) -> None:
        # Of parts on other machines there are no files here: their answers, and the tick, stand for them.
        for part in ("beat", *(f"worker-{name}" for name in GROUPS)):
            age = Heartbeat.of(self._settings.home, part).age_seconds()
            if age is not None:
                samples.set(families.HEARTBEAT, age, part=part)

    def _of_agents(self, samples: Samples, companies: Collection[str]) -> None:
        interval = self._policies.policy.memory.consolidation.interval
        late = self._ledger.agents.late(default=interval, before=self._clock() - LATE)
        _count(samples, companies, {families.AGENTS: self._ledger.agents.counts(), families.LATE: late})

    def _at_present(self, samples: Samples, companies: Collection[str]) -> None:
        ledger, now = self._ledger, self._clock()
        counted = {families.DEAD: ledger.dead_letters.counts(), families.HELD: ledger.figures.held(companies)}
        _count(samples, companies, counted)
        for (company, job), leased in ledger.figures.leased(companies).items():
            samples.set(families.RUNNING, leased.count, company=company, job=job)
            for family, since in ((families.RUNNING_FOR, leased.started_at), (families.LAPSED, leased.lease_until)):
                if since is not None:
                    samples.set(family, max(0.0, (now - since).total_seconds()), company=company, job=job)
        measures = ledger.measures.of(companies)
        for each in measures:
            if each.name in _COUNTERS:
                samples.set(_COUNTERS[each.name], each.value, company=each.company)
        for company in companies:
            state = canary_state(measures, company)
            if state is not None:
                samples.set(families.CANARY_AGE, state.age_seconds(now), company=company)
                samples.set(families.FINDABLE, state.delay_seconds(now), company=company)

    def _of_company(self, samples: Samples, company: str) -> None:
        ledger, now = self._ledger, self._clock()
        runs, today = ledger.figures.runs(company, since=now - _DAY), now.astimezone(UTC).date()
        for (kind, state), count in runs.ended.items():
            samples.set(families.RUNS, count, company=company, kind=kind, outcome=state)
        for reason, count in runs.removed.items():
            samples.set(families.REMOVED, count, company=company, reason=reason)
        samples.set(families.SUMMARIES, runs.summaries, company=company)
        for row in ledger.usage.report(company, UsageBy.PURPOSE, since=today, until=today):
            about = {"company": company, "purpose": row.key or ""}
            samples.set(families.TOKENS, row.prompt_tokens, **about, direction="prompt")
            samples.set(families.TOKENS, row.completion_tokens, **about, direction="completion")
            samples.set(families.COST, row.cost, **about)
            for outcome in _OUTCOMES:
                samples.set(families.CALLS, getattr(row, outcome), **about, outcome=outcome)
        failing = ledger.usage.failing(company, without=CHECK_PURPOSE)
        # Of two models that fail alike, the one that has failed for longer.
        for model in sorted(failing, key=lambda each: each.since, reverse=True):
            about = {"company": company, "status": str(model.status or ""), "reason": model.error_kind or ""}
            samples.set(families.FAILING, (now - model.since).total_seconds(), **about)
        samples.set(families.BUDGET, len(ledger.spending.waiting(company, today)), company=company)
        samples.set(families.TESTS_FAILED, len(ledger.memory_tests.failed_of(company)), company=company)
        reindex = ledger.reindexes.last(company)
        if reindex is not None and reindex.finished_at is None:
            samples.set(families.REINDEX, reindex.fraction, company=company)
        finetune = ledger.finetune_runs.active(company)
        if finetune is not None:
            samples.set(families.FINETUNE, finetune.fraction, company=company, stage=finetune.stage)


def _count(samples: Samples, companies: Collection[str], counted: Mapping[Family, Mapping[str, int]]) -> None:
    for family, counts in counted.items():
        for company in companies:
            samples.set(family, counts.get(company, 0), company=company)

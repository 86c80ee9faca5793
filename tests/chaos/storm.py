"""The storm: engines send, nights come due, poison is slipped in, and everything that can fall falls."""

import random
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from chaos.cutter import Cut, Cutter
from chaos.evidence import Evidence, gather
from chaos.fall import Fall
from chaos.lock import Hold, Locksmith
from chaos.night import NightWatch, agents_of, register
from chaos.poison import Poisoner
from chaos.probe import Prober
from chaos.quiet import Quiet, await_quiet
from chaos.reaper import Reaper
from chaos.receipt import Promises, read_receipts
from chaos.sleeper import Sleep, Sleeper
from chaos.strike import deal
from support.running_stack import StackAddress

from memcore.ledger.ledger import Ledger
from workers.groups import STORE

#: Engines beside the prober, each a process of its own.
_ENGINES = 3

#: Agents whose memories the storm stores.
_AGENTS = 40

#: Share of the time between two kills that is a pause; in the rest, what is to fall next has to stand again.
_PAUSE_SHARE = 0.5

#: Seconds that the engines may take beyond the time that they were given: outages push them back.
_LATE_SECONDS = 240.0

#: What the memories of the storm have to fear at night.
POLICY = """\
memory:
  level: persistent
  consolidation:
    interval: weekly
    categories: [episodic, semantic, procedural, social]
    max_removed_fraction: 1.0
    retention:
      rules:
        - category: episodic
          retention_days: 90
        - category: working
          retention_days: 10
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How hard it storms.

    Attributes:
        jobs: calls that the engines make together; a call is at least one job.
        seconds: over which jobs and kills are spread.
        is_long: whether there is time to put workers to sleep for longer than their leases.
        scrawls: whether bytes that are no message are laid on queues; kombu's own transport dies of them.
        killers: jobs that kill one worker after the other until they are given up.
        may_crash: whether the database server may be crashed.
    """

    seed: int
    jobs: int
    kills: int
    seconds: float
    is_long: bool
    scrawls: bool
    killers: int
    may_crash: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """What happened, and what is left."""

    promises: Promises
    nights: NightWatch
    poison: Poisoner
    falls: list[Fall]
    hung: list[str]
    prober: Prober
    sleeps: list[Sleep]
    holds: list[Hold]
    cuts: list[Cut]
    quiet: Quiet
    evidence: Evidence
    restarts: Mapping[str, int]
    storm_seconds: float


@dataclass(slots=True, kw_only=True)
class Storm:
    """One storm over one stack."""

    stack: StackAddress
    weather: Weather
    folder: Path
    _engines: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def rage(self) -> Aftermath:
        """Let it storm, wait for quiet, and read what is left."""
        settings, weather = self.stack.settings, self.weather
        agents = agents_of(settings.company, _AGENTS + 1, now=datetime.now(UTC))
        ledger = Ledger.open(settings.ledger_urls)
        try:
            register(ledger, settings.company, agents)
            nights = NightWatch(ledger, settings.company, agents, dice=self._dice("nights"))
            prober = Prober(settings, agent_id=agents[-1])
            queues = STORE.queues
            poison = Poisoner(
                settings,
                queues=queues,
                dice=self._dice("poison"),
                scrawls=weather.scrawls,
                killers=weather.killers,
            )
            locks = Locksmith(settings, dice=self._dice("locks"))
            cutter = Cutter(settings.database_url, may_crash=weather.may_crash, dice=self._dice("cuts"))
            sleeper = Sleeper(self.stack, dice=self._dice("sleeper"), is_busy=nights.is_busy)
            strikes = deal(
                weather.seed, kills=weather.kills, mean_pause_seconds=weather.seconds / weather.kills * _PAUSE_SHARE
            )
            reaper = Reaper(self.stack, strikes, sleeper=sleeper, dice=self._dice("reaper"))
            begun = time.monotonic()
            self._send(agents[:-1])
            cutters = () if settings.database_url.startswith("sqlite") else (cutter,)
            posts = (nights, prober, poison, locks, *cutters, *((sleeper,) if weather.is_long else ()), reaper)
            for post in posts:
                post.start()
            reaper.wait()
            receipts = self._await_engines()
            for post in (nights, poison, locks, *cutters):
                post.stop()
            if weather.is_long:
                sleeper.wait()
            prober.stop()
            stormed = time.monotonic() - begun
            quiet = await_quiet(settings, ledger, nights)
            promises = Promises()
            promises.add(read_receipts(receipts))
            promises.add(prober.receipts)
            return Aftermath(
                promises=promises,
                nights=nights,
                poison=poison,
                falls=reaper.falls,
                hung=reaper.hung,
                prober=prober,
                sleeps=sleeper.sleeps,
                holds=locks.holds,
                cuts=cutter.cuts,
                quiet=quiet,
                evidence=gather(self.stack, ledger),
                restarts={part.name: part.restarts for part in self.stack.state.parts},
                storm_seconds=stormed,
            )
        finally:
            for engine in self._engines:
                engine.kill()
                engine.wait()
            ledger.close()

    def _dice(self, name: str) -> random.Random:
        return random.Random(f"{name} {self.weather.seed}")

    def _send(self, agents: list[str]) -> None:
        weather = self.weather
        for engine in range(_ENGINES):
            with (self.folder / f"engine-{engine}.log").open("wb") as log:
                self._engines.append(
                    subprocess.Popen(
                        [
                            *(sys.executable, str(Path(__file__).with_name("engine.py"))),
                            *("--home", str(self.stack.home), "--receipts", str(self._receipts(engine))),
                            *("--seed", str(weather.seed), "--engine", str(engine)),
                            *("--count", str(_share(weather.jobs, engine)), "--seconds", str(weather.seconds)),
                            *("--agents", ",".join(agents)),
                        ],
                        stdout=log,
                        stderr=log,
                    )
                )

    def _await_engines(self) -> list[Path]:
        until = time.monotonic() + _LATE_SECONDS
        for number, engine in enumerate(self._engines):
            code = engine.wait(max(1.0, until - time.monotonic()))
            if code:
                msg = f"engine {number} ended with {code}; its log is in {self.folder}"
                raise RuntimeError(msg)
        return [self._receipts(number) for number in range(_ENGINES)]

    def _receipts(self, engine: int) -> Path:
        return self.folder / f"engine-{engine}.receipts"


def _share(jobs: int, engine: int) -> int:
    return jobs // _ENGINES + (engine < jobs % _ENGINES)

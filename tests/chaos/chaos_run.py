"""The chaos run: engines send, runs come due, bad jobs are mixed in, and every part is killed."""

import random
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from chaos.connection_cutter import ConnectionCutter, Cut
from chaos.database_locker import DatabaseLocker, Hold
from chaos.distrusted_tool import DistrustedTool
from chaos.evidence import Evidence, gather
from chaos.http_engine import HttpEngine
from chaos.idle_state import IdleState, await_idle
from chaos.kill import plan_kills
from chaos.outage import Outage
from chaos.poison import PoisonSender
from chaos.probe import Prober
from chaos.process_killer import ProcessKiller
from chaos.process_pauser import ProcessPauser, Sleep
from chaos.rabbitmq import BrokerCutter
from chaos.receipt import Acknowledged, read_receipts
from chaos.run_planner import RunPlanner, agents_of, register
from support.running_stack import StackAddress

from memcore.ledger.ledger import Ledger
from workers.groups import STORE

#: Engines beside the prober, each a process of its own.
_ENGINES = 3

#: Agents whose memories are stored.
_AGENTS = 40

#: Share of the time between two kills that is a pause; in the rest, the next target has to become ready.
_PAUSE_SHARE = 0.5

#: Seconds that the engines may take beyond the time that they were given: outages push them back.
_LATE_SECONDS = 240.0

#: The policy: its runs remove and merge some of the memories, and the gate judges what is merged.
POLICY = """\
memory:
  level: persistent
  consolidation:
    interval: weekly
    strategy: condense
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
class ChaosSettings:
    """The size of a chaos run.

    Attributes:
        jobs: calls that the engines make together; a call is at least one job.
        seconds: over which jobs and kills are spread.
        is_long: whether there is time to pause workers for longer than their leases.
        sends_garbage: whether bytes that are no message are put on queues; kombu's own transport dies of them.
        killers: jobs that kill one worker after the other until they become dead letters.
        may_crash: whether the database server may be crashed.
    """

    seed: int
    jobs: int
    kills: int
    seconds: float
    is_long: bool
    sends_garbage: bool
    killers: int
    may_crash: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosResult:
    """What happened, and what is left."""

    promises: Acknowledged
    maintenance_runs: RunPlanner
    poison: PoisonSender
    outages: list[Outage]
    hung: list[str]
    prober: Prober
    http: HttpEngine
    tool: DistrustedTool
    sleeps: list[Sleep]
    holds: list[Hold]
    cuts: list[Cut]
    broker_cuts: int
    quiet: IdleState
    evidence: Evidence
    restarts: Mapping[str, int]
    chaos_seconds: float


@dataclass(slots=True, kw_only=True)
class ChaosRun:
    """One chaos run over one stack."""

    stack: StackAddress
    chaos_settings: ChaosSettings
    folder: Path
    _engines: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def run(self) -> ChaosResult:
        """Send, kill, wait until all is idle, and read what is left."""
        settings, chaos_settings = self.stack.settings, self.chaos_settings
        # The last one's memories are asked for until they are found, and no run is planned that might remove them.
        *agents, spared = agents_of(settings.company, _AGENTS + 2, now=datetime.now(UTC))
        ledger = Ledger.open(settings.ledger_urls)
        try:
            register(ledger, settings.company, agents)
            maintenance_runs = RunPlanner(ledger, settings.company, agents, dice=self._dice("nights"))
            prober = Prober(settings, agent_id=agents[-1])
            http = HttpEngine(self.stack, agent_id=spared, dice=self._dice("http"))
            tool = DistrustedTool(self.stack, agent_id=spared, dice=self._dice("tool"), seconds=chaos_settings.seconds)
            queues = STORE.queues
            poison = PoisonSender(
                settings,
                queues=queues,
                dice=self._dice("poison"),
                sends_garbage=chaos_settings.sends_garbage,
                killers=chaos_settings.killers,
            )
            locks = DatabaseLocker(settings, dice=self._dice("locks"))
            cutter = ConnectionCutter(
                settings.database_url, may_crash=chaos_settings.may_crash, dice=self._dice("cuts")
            )
            process_pauser = ProcessPauser(self.stack, dice=self._dice("sleeper"), is_busy=maintenance_runs.is_busy)
            kills_planned = plan_kills(
                chaos_settings.seed,
                kills=chaos_settings.kills,
                mean_pause_seconds=chaos_settings.seconds / chaos_settings.kills * _PAUSE_SHARE,
            )
            process_killer = ProcessKiller(
                self.stack, kills_planned, process_pauser=process_pauser, dice=self._dice("reaper")
            )
            begun = time.monotonic()
            self._send(agents[:-1])
            broker_cutter = BrokerCutter(settings.broker_url, dice=self._dice("broker cuts"))
            cutters = (
                *(() if settings.database_url.startswith("sqlite") else (cutter,)),
                *((broker_cutter,) if settings.broker_url.startswith("amqp") else ()),
            )
            threads = (
                maintenance_runs,
                prober,
                http,
                tool,
                poison,
                locks,
                *cutters,
                *((process_pauser,) if chaos_settings.is_long else ()),
                process_killer,
            )
            for thread in threads:
                thread.start()
            process_killer.wait()
            receipts = self._await_engines()
            for thread in (maintenance_runs, poison, locks, *cutters):
                thread.stop()
            if chaos_settings.is_long:
                process_pauser.wait()
            prober.stop()
            http.stop()
            tool.stop()
            chaos_seconds = time.monotonic() - begun
            quiet = await_idle(settings, ledger, maintenance_runs)
            promises = Acknowledged()
            promises.add(read_receipts(receipts))
            promises.add(prober.receipts)
            promises.add(http.receipts)
            promises.add(tool.receipts)
            return ChaosResult(
                promises=promises,
                maintenance_runs=maintenance_runs,
                poison=poison,
                outages=process_killer.outages,
                hung=process_killer.hung,
                prober=prober,
                http=http,
                tool=tool,
                sleeps=process_pauser.sleeps,
                holds=locks.holds,
                cuts=cutter.cuts,
                broker_cuts=broker_cutter.cuts,
                quiet=quiet,
                evidence=gather(self.stack, ledger),
                restarts={part.name: part.restarts for part in self.stack.state.parts},
                chaos_seconds=chaos_seconds,
            )
        finally:
            for engine in self._engines:
                engine.kill()
                engine.wait()
            ledger.close()

    def _dice(self, name: str) -> random.Random:
        return random.Random(f"{name} {self.chaos_settings.seed}")

    def _send(self, agents: list[str]) -> None:
        chaos_settings = self.chaos_settings
        for engine in range(_ENGINES):
            with (self.folder / f"engine-{engine}.log").open("wb") as log:
                self._engines.append(
                    subprocess.Popen(
                        [
                            *(sys.executable, str(Path(__file__).with_name("engine.py"))),
                            *("--home", str(self.stack.home), "--receipts", str(self._receipts(engine))),
                            *("--seed", str(chaos_settings.seed), "--engine", str(engine)),
                            *(
                                "--count",
                                str(_share(chaos_settings.jobs, engine)),
                                "--seconds",
                                str(chaos_settings.seconds),
                            ),
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

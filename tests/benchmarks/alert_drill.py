"""``python tests/benchmarks/alert_drill.py``: break a running stack in four ways, and time until its alerts say so.

Prometheus itself scrapes `serve` and evaluates the rules of ``docker/prometheus``, with the intervals of that folder;
where it is not installed, the evaluator of the tests does. Exit code 1: an alert was late, or came while all was well.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any, Protocol

import httpx
import psutil
import yaml

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.alert_rules import RULES, firing, read_scrape  # noqa: E402  # a script must find the tree first
from support.running_stack import StackAddress, running_stack, wait_until  # noqa: E402
from support.valkey_servers import free_port  # noqa: E402

from memcore import MemoryClient  # noqa: E402
from memcore.client.envelopes import ImportRecord  # noqa: E402
from memcore.ledger.access.keys import Verb  # noqa: E402
from memcore.ledger.work_items import WorkState  # noqa: E402
from memcore.models.memory import MemoryCategory, MemoryStoreRequest  # noqa: E402
from ops.cli.session import ledger_of  # noqa: E402

#: Within this time an alert's expression must be true, in seconds.
WANTED_SECONDS = 120.0

#: How long a drill goes on for the sake of its figures when its alert does not come.
_PATIENCE = 240.0

#: Within this time a scrape must be answered, whatever is broken: Prometheus gives up then.
SCRAPE_SECONDS = 10.0

#: Seconds between two looks.
_LOOK_SECONDS = 1.0

#: Within this time Prometheus has scraped, and evaluated the rules.
_SEEN_SECONDS = 35.0

#: Jobs with which a queue is filled.
FILLED = 5_000

#: Memories of the agent whose run hangs: enough that a run is under way when its worker is stopped.
SLEEPER_SIZE = 4_000

#: Runs that are begun until one is under way when its worker is stopped.
_TRIES = 10

POLICY = """\
memory:
  level: persistent
  consolidation:
    strategy: condense
    categories: [episodic, semantic]
    max_removed_fraction: 1.0
"""


class Watch(Protocol):
    """Evaluates the rules all the time."""

    def alerts(self) -> dict[str, str]:
        """Return the alerts whose expression is true: ``pending``, or ``firing`` once it was so for long enough."""
        ...


class Prometheus:
    """The real one, over its API."""

    def __init__(self, port: int) -> None:
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)

    def alerts(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in self._client.get("/api/v1/alerts").raise_for_status().json()["data"]["alerts"]:
            name = each["labels"]["alertname"]
            found[name] = "firing" if "firing" in {found.get(name), each["state"]} else "pending"
        return found


class Evaluator:
    """What the tests have: it knows no ``for``."""

    def __init__(self, scrape: Callable[[], str]) -> None:
        self._scrape = scrape

    def alerts(self) -> dict[str, str]:
        return dict.fromkeys(firing(read_scrape(self._scrape())), "pending")


@contextmanager
def prometheus(folder: Path, target: str, token: str) -> Iterator[Prometheus]:
    """Run Prometheus on the tree's own configuration, of which only the addresses are changed."""
    config: Any = yaml.safe_load((RULES.parent / "prometheus.yml").read_text("utf-8"))
    (job,) = config["scrape_configs"]
    config["rule_files"] = [str(RULES)]
    job["authorization"] = {"type": "Bearer", "credentials": token}
    job["static_configs"] = [{"targets": [target]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    port = free_port()
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                str(shutil.which("prometheus")),
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        found = Prometheus(port)
        wait_until(lambda: _answers(found), seconds=120, what="Prometheus")
        yield found
    finally:
        process.terminate()
        process.wait(60)


def _answers(watch: Watch) -> bool:
    try:
        watch.alerts()
    except httpx.HTTPError:
        return False
    return True


@dataclass
class Row:
    """What a drill showed.

    Attributes:
        wanted: the alert that must come.
        true_after, firing_after, gone_after: seconds; None where it did not happen, the last since all was well again.
        slowest: seconds of the slowest scrape meanwhile.
    """

    drill: str
    wanted: str
    true_after: float | None = None
    firing_after: float | None = None
    gone_after: float | None = None
    slowest: float = 0.0
    others: set[str] = field(default_factory=set)

    @property
    def is_met(self) -> bool:
        in_time = self.true_after is not None and self.true_after <= WANTED_SECONDS
        return in_time and self.slowest < SCRAPE_SECONDS and self.gone_after is not None


class Drills:
    """Breaks a stack, looks, and mends it."""

    def __init__(self, stack: StackAddress, watch: Watch, scrape: Callable[[], str]) -> None:
        self._stack, self._watch, self._scrape = stack, watch, scrape
        self.rows: list[Row] = []

    def healthy(self, seconds: float) -> set[str]:
        """Return the alerts that came while all was well."""
        # Of a stack that has just started, the first canary is on its way; Prometheus has to see it once.
        wait_until(lambda: "memtend_canary_age_seconds" in read_scrape(self._scrape()), seconds=240, what="a canary")
        time.sleep(_SEEN_SECONDS)
        self._settle()
        found, until = set[str](), time.monotonic() + seconds
        while time.monotonic() < until:
            found |= self._watch.alerts().keys()
            time.sleep(_LOOK_SECONDS)
        return found

    def stopped_store_worker(self) -> None:
        with self._stopped("worker-store"):
            self._store(1)
            self._look("store worker stopped", "MemtendWorkersGone")
        self._mended()

    def wedged_broker(self) -> None:
        with self._stopped("broker"):
            self._look("broker wedged", "MemtendPartDown")
        self._mended()

    def filled_queue(self) -> None:
        with self._stopped("worker-store"):
            began = time.monotonic()
            filling = Thread(target=self._store, args=(FILLED,))
            filling.start()
            self._look("queue filled", "MemtendStoreQueueOld", began=began)
            filling.join()
        self._mended()

    def hanging_run(self) -> None:
        records = [
            ImportRecord(
                agent_id="sleeper",
                category=MemoryCategory.EPISODIC,
                content=f"the valve {n} was opened",
                created_at=datetime.now(UTC) - timedelta(days=400, seconds=n),
            )
            for n in range(SLEEPER_SIZE)
        ]
        with MemoryClient.from_settings(self._stack.settings) as client:
            for at in range(0, len(records), 200):
                client.import_many(records[at : at + 200])
        self._settle()
        for _ in range(_TRIES):
            with self._hanging() as is_under_way:
                if is_under_way:
                    self._look("run hangs", "MemtendRunHangs")
            if is_under_way:
                self._mended()
                return
        self.rows.append(Row("run hangs", "MemtendRunHangs"))

    @contextmanager
    def _hanging(self) -> Iterator[bool]:
        """Stop the maintenance worker once a run is claimed; yield whether the run is under way then."""
        stack = self._stack
        with MemoryClient.from_settings(stack.settings) as client, ledger_of(stack.settings) as ledger:
            run_id = client.maintain_now("sleeper", allow_large=True).job_id

            def state() -> WorkState | None:
                run = ledger.runs.get(stack.settings.company, run_id)
                return None if run is None else run.state

            ends = {WorkState.DONE, WorkState.SKIPPED, WorkState.FAILED, WorkState.HELD}
            until = time.monotonic() + _PATIENCE
            while state() not in {WorkState.LEASED, *ends} and time.monotonic() < until:
                time.sleep(0.002)
            with self._stopped("worker-night"):
                yield state() is WorkState.LEASED

    def _store(self, count: int) -> None:
        request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content="The pump in hall 3 leaks on Mondays.")
        with MemoryClient.from_settings(self._stack.settings) as client:
            for number in range(count):
                client.store(f"agent-{number % 50}", request.model_copy(update={"content": f"pump {number} leaks"}))

    @contextmanager
    def _stopped(self, part: str) -> Iterator[None]:
        pid = self._stack.pid(part)
        assert pid is not None
        parent = psutil.Process(pid)
        family = [parent, *parent.children(recursive=True)]
        for each in family:
            os.kill(each.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for each in family:
                if each.is_running():
                    os.kill(each.pid, signal.SIGCONT)

    def _look(self, drill: str, wanted: str, *, began: float | None = None) -> None:
        row, began = Row(drill, wanted), time.monotonic() if began is None else began
        self.rows.append(row)
        while row.firing_after is None and time.monotonic() - began < _PATIENCE:
            asked = time.monotonic()
            self._scrape()
            row.slowest = max(row.slowest, time.monotonic() - asked)
            states, since = self._watch.alerts(), time.monotonic() - began
            row.others |= states.keys() - {wanted}
            if wanted in states and row.true_after is None:
                row.true_after = since
            if states.get(wanted) == "firing":
                row.firing_after = since
            if row.true_after is not None and isinstance(self._watch, Evaluator):
                return  # it knows no more
            time.sleep(_LOOK_SECONDS)

    def _mended(self) -> None:
        began = time.monotonic()
        if self._settle():
            self.rows[-1].gone_after = time.monotonic() - began

    def _settle(self) -> bool:
        until = time.monotonic() + 2 * _PATIENCE
        while time.monotonic() < until:
            if not self._watch.alerts():
                return True
            time.sleep(_LOOK_SECONDS)
        return False


def _shown(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.0f}"


def _print(rows: Sequence[Row], healthy: set[str], seconds: float, name: str) -> bool:
    lines = [
        f"evaluated by {name}; an expression must be true within {WANTED_SECONDS:.0f} s",
        "| drill | alert | true after s | firing after s | gone after s | slowest scrape s | also | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        times = " | ".join(map(_shown, (row.true_after, row.firing_after, row.gone_after)))
        others, verdict = ", ".join(sorted(row.others)) or "none", "met" if row.is_met else "MISSED"
        lines.append(f"| {row.drill} | {row.wanted} | {times} | {row.slowest:.1f} | {others} | {verdict} |")
    verdict = "MISSED" if healthy else "met"
    lines.append(f"| healthy for {seconds:.0f} s | {', '.join(sorted(healthy)) or 'none'} | | | | | | {verdict} |")
    sys.stdout.write("\n".join(lines) + "\n")
    return not healthy and all(row.is_met for row in rows)


def main(argv: Sequence[str]) -> int:
    """Run the drills, print the table, and return 1 when one was missed."""
    parser = argparse.ArgumentParser(prog="python tests/benchmarks/alert_drill.py", description=__doc__)
    parser.add_argument("--healthy", type=float, default=180.0, help="seconds without a fault (default: %(default)s)")
    parser.add_argument("--drill", choices=("store", "broker", "queue", "run"), action="append", help="only this one")
    options = parser.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="memtend-alerts-"))
    home = folder / "home"
    home.mkdir(mode=0o700)
    (home / "policy.yaml").write_text(POLICY, "utf-8")
    with running_stack(home) as stack:
        port = json.loads((home / "run" / "doors.json").read_text())["serve_port"]
        with ledger_of(stack.settings) as ledger:
            made = ledger.api_keys.create(stack.settings.company, name="prometheus", verbs=[Verb.ADMIN, Verb.READ])
        client = httpx.Client(headers={"Authorization": f"Bearer {made.token}"}, timeout=120)

        def scrape() -> str:
            return client.get(f"http://127.0.0.1:{port}/metrics").raise_for_status().text

        if shutil.which("prometheus"):
            with prometheus(folder, f"127.0.0.1:{port}", made.token) as watch:
                is_met = _drill(Drills(stack, watch, scrape), options, "Prometheus")
        else:
            is_met = _drill(Drills(stack, Evaluator(scrape), scrape), options, "the tests' evaluator")
    shutil.rmtree(folder, ignore_errors=True)
    return 0 if is_met else 1


def _drill(drills: Drills, options: argparse.Namespace, name: str) -> bool:
    healthy = drills.healthy(options.healthy)
    every = {
        "store": drills.stopped_store_worker,
        "broker": drills.wedged_broker,
        "queue": drills.filled_queue,
        "run": drills.hanging_run,
    }
    for key in options.drill or every:
        every[key]()
    return _print(drills.rows, healthy, options.healthy, name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

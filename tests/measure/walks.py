"""``python tests/measure/walks.py``: how many files one memory, one search and one maintenance run enter.

A stack is started in a folder that goes afterwards. Its processes trace themselves (see tracing.py): a worker from the
moment Celery hands a job to it until the job's end, the store server while it answers a request. Beside the promised
names of the client nothing of the product is imported, so files may move. A change of file is counted within a thread.
"""

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from measure.figure import Figure, show  # noqa: E402
from measure.tracing import Tracer  # noqa: E402
from support.command_line import CommandLine  # noqa: E402  # a script must find the tree first
from support.running_stack import StackAddress, running_stack, wait_until  # noqa: E402

from memcore import MemoryCategory, MemoryClient, MemoryQuery, MemoryStoreRequest  # noqa: E402
from memcore.backends.factory import create_engine_backend  # noqa: E402
from memcore.config.loader import load_policy  # noqa: E402

#: Task names on the wire.
STORE, MAINTAIN = "memory.store.write", "memory.maintenance.run"
TICK, SWEEP = "memory.control.tick", "memory.control.sweep"

#: Memories of the agent whose maintenance is traced: enough for one group, of which one summary is made. The last says
#: what the first says, which is all that the default strategy makes a summary of.
MEMORIES = 6

#: A strategy that makes a lossy summary of all, which the gate judges.
LOSSY = "memory:\n  consolidation:\n    strategy: condense\n"


@dataclass(frozen=True, kw_only=True)
class Walk:
    """What one piece of work entered, in one process or in several."""

    name: str
    calls: tuple[tuple[str, str, str], ...]

    @property
    def files(self) -> list[str]:
        """The files in the order in which they are first entered."""
        return list(dict.fromkeys(file for _, file, _ in self.calls))

    def entered(self, file: str) -> list[str]:
        """Return the functions of a file in the order in which they are first called."""
        return list(dict.fromkeys(function for _, each, function in self.calls if each == file))

    @property
    def functions(self) -> int:
        return len({(file, function) for _, file, function in self.calls})

    @property
    def changes(self) -> int:
        return sum(self.borders.values())

    @property
    def borders(self) -> Counter[tuple[str, str]]:
        """How often one file is followed by another within a thread."""
        last: dict[str, str] = {}
        borders: Counter[tuple[str, str]] = Counter()
        for thread, file, _ in self.calls:
            if last.get(thread, file) != file:
                borders[last[thread], file] += 1
            last[thread] = file
        return borders

    @property
    def lines(self) -> int:
        return sum(len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in self.files)

    def and_then(self, *others: "Walk", name: str) -> "Walk":
        """Return the walk through several processes."""
        return Walk(name=name, calls=(*self.calls, *(call for other in others for call in other.calls)))


class Walker:
    """Does one piece of work after another in a traced stack and keeps what each entered."""

    def __init__(self, stack: StackAddress, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        self._memtend = CommandLine(home=stack.home)
        self._tracer = Tracer(ROOT)
        self._run_id = ""

    def walks(self) -> Iterator[Walk]:
        """Yield every walk."""
        # Before the client is made: threads are traced from their start.
        self._tracer.install()
        try:
            with MemoryClient.from_settings(self._stack.settings) as client:
                yield from self._storing(client)
                yield from asyncio.run(self._retrieving())
                yield self._run("maintenance run", client)
                yield self._undone(client)
        finally:
            sys.setprofile(None)
        for name, task in (("tick", TICK), ("sweep", SWEEP)):
            yield self._job(name, task, since=time.time())

    def lossy_run(self) -> Walk:
        """Return the walk of a run whose summary the gate judges."""
        with MemoryClient.from_settings(self._stack.settings) as client:
            return self._run("maintenance run, lossy", client)

    def _storing(self, client: MemoryClient) -> Iterator[Walk]:
        for number in range(6):
            receipt = client.store("walker", _request(f"Warming note {number} of the walk."))
            _wait(client, receipt.job_ids[0])
        began = time.time()
        with self._traced("store: client call") as walk:
            receipt = client.store("walker", _request("The payment queue pages at 500 messages."))
        _wait(client, receipt.job_ids[0])
        worker = self._job("store: worker job", STORE, job_id=receipt.job_ids[0])
        server = self._server("store: store server", began)
        yield from (walk[0], worker, server, walk[0].and_then(worker, server, name="store: call to disk"))

    async def _retrieving(self) -> list[Walk]:
        settings = self._stack.settings
        assert settings.policy_path is not None
        memory = create_engine_backend(settings, load_policy(settings.policy_path))
        await memory.connect()
        try:
            for text in ("warm", "warm again"):
                await memory.retrieve("walker", MemoryQuery(text=text, limit=3))
            # Whatever the search before has left for later is done.
            await asyncio.sleep(1.0)
            began = time.time()
            with self._traced("retrieve: engine") as walk:
                found = await memory.retrieve("walker", MemoryQuery(text="When does payments page?", limit=3))
            assert found, "nothing was found"
        finally:
            await memory.disconnect()
        server = self._server("retrieve: store server", began)
        return [walk[0], server, walk[0].and_then(server, name="retrieve: engine and server")]

    def _run(self, name: str, client: MemoryClient) -> Walk:
        self._import("warmer", MEMORIES)
        self._import("walked", MEMORIES)
        # Until every process of the worker has had a run.
        for _ in range(4):
            _wait(client, client.maintain_now("warmer", allow_large=True).job_id)
        self._run_id = client.maintain_now("walked", allow_large=True).job_id
        _wait(client, self._run_id)
        counts = self._memtend.ok("runs", "show", self._run_id, "--json").value["counts"]
        assert counts.get("summaries") == 1, f"no run of {MEMORIES} memories to one summary: {counts}"
        return self._job(name, MAINTAIN, job_id=self._run_id)

    def _undone(self, client: MemoryClient) -> Walk:
        undo_id = client.undo("walked", self._run_id).job_id
        _wait(client, undo_id)
        return self._job("undo", MAINTAIN, job_id=undo_id)

    def _import(self, agent_id: str, count: int) -> None:
        start = datetime.now(UTC) - timedelta(days=40)
        lines = (
            {
                "agent_id": agent_id,
                "category": "episodic",
                "content": f"{again}Old note number {day} about the payments queue and its alarms on day {day}.",
                "created_at": (start + timedelta(hours=number)).isoformat(),
            }
            for number in range(count)
            for again, day in [("", number) if number < count - 1 else ("Please note: ", 0)]
        )
        self._memtend.ok("import", "-", stdin="\n".join(map(json.dumps, lines)).encode())

    @contextmanager
    def _traced(self, name: str) -> Iterator[list[Walk]]:
        walk: list[Walk] = []
        record = self._tracer.begin(name)
        try:
            yield walk
        finally:
            self._tracer.end(record)
        walk.append(Walk(name=name, calls=_calls([vars(record)], "here")))

    def _job(self, name: str, task: str, *, job_id: str | None = None, since: float = 0.0) -> Walk:
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = [
                each
                for each in self._records()
                if each["name"] == task and each["began"] >= since and job_id in {None, each["job_id"]}
            ]
            return bool(found)

        wait_until(is_there, what=f"the record of {name}")
        return Walk(name=name, calls=_calls(found[-1:], "worker"))

    def _server(self, name: str, since: float) -> Walk:
        requests = [each for each in self._records() if each["kind"] == "request" and each["began"] >= since]
        return Walk(name=name, calls=_calls(requests, "server"))

    def _records(self) -> list[dict[str, Any]]:
        # A last line may still be being written.
        lines = [
            line
            for path in sorted(self._folder.glob("*.jsonl"))
            for line in path.read_text(encoding="utf-8").split("\n")[:-1]
        ]
        return sorted((json.loads(line) for line in lines), key=lambda each: float(each["began"]))


def figures(walks: Iterable[Walk]) -> Iterator[Figure]:
    """Yield what is counted of the walks beside the targets."""
    files = {"store: call to disk": 34, "retrieve: engine and server": 18, "maintenance run": 55, "undo": 36}
    for walk in walks:
        target = files.get(walk.name)
        yield Figure(measure=f"{walk.name}: files entered", figure=len(walk.files), target=target)
        changes = 600 if walk.name == "maintenance run" else None
        yield Figure(measure=f"{walk.name}: changes of file", figure=walk.changes, target=changes)
        yield Figure(measure=f"{walk.name}: functions", figure=walk.functions)
        yield Figure(measure=f"{walk.name}: lines of those files", figure=walk.lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--files", action="store_true", help="print the files of each walk too, with what is called")
    parser.add_argument("--changes", action="store_true", help="print between which files a walk changes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="walks-", ignore_cleanup_errors=True) as folder:
        walks = [*_walked(Path(folder), "defaults", "{}\n"), *_walked(Path(folder), "lossy", LOSSY)]
    show(figures(walks), as_json=options.json)
    if options.files:
        for walk in walks:
            sys.stdout.write(f"\n{walk.name}\n" + "".join(_rows(walk)))
    if options.changes:
        for walk in walks:
            rows = (f"  {count:4} {one} -> {other}\n" for (one, other), count in walk.borders.most_common(60))
            sys.stdout.write(f"\n{walk.name}\n" + "".join(rows))


def _rows(walk: Walk) -> Iterator[str]:
    return (f"  {file}: {', '.join(walk.entered(file))}\n" for file in walk.files)


def _walked(folder: Path, name: str, policy: str) -> list[Walk]:
    folder /= name
    records, hook = folder / "records", folder / "hook"
    records.mkdir(parents=True)
    hook.mkdir()
    shutil.copy(Path(__file__).with_name("tracing.py"), hook / "sitecustomize.py")
    environ = {
        "PYTHONPATH": os.pathsep.join((str(hook), str(ROOT))),
        "WALK_ROOT": str(ROOT),
        "WALK_FOLDER": str(records),
    }
    home = folder / "home"
    home.mkdir()
    (home / "policy.yaml").write_text(policy, encoding="utf-8")
    with running_stack(home, **environ) as stack:
        walker = Walker(stack, records)
        return [walker.lossy_run()] if policy == LOSSY else list(walker.walks())


def _calls(records: Iterable[dict[str, Any]], process: str) -> tuple[tuple[str, str, str], ...]:
    return tuple((f"{process}-{thread}", file, name) for each in records for thread, file, name in each["calls"])


def _request(text: str) -> MemoryStoreRequest:
    return MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=text)


def _wait(client: MemoryClient, job_id: str) -> None:
    for status in client.wait((job_id,), timeout_seconds=120.0):
        assert str(status.state) == "done", status


if __name__ == "__main__":
    main()

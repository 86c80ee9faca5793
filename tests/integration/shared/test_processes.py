"""Several engines at once, one of them killed: nothing that one was told is lost, and no version is given twice."""

import json
import os
import subprocess
import sys
from pathlib import Path

from support.publications import COMPANY, MakeBackend, reported

from memcore.backends.mem0.config import Mem0Config
from memcore.clock import utc_now
from memcore.ledger.database import Database
from memcore.ledger.organization.shared_log import SharedLog
from memcore.models.memory import MemoryQuery

HERE = Path(__file__).parent

#: Seconds that a process may take on a busy machine.
PATIENCE = 120

ALL = MemoryQuery(limit=1000)


def started(place: Mem0Config, agent_id: str, number: int) -> "subprocess.Popen[str]":
    path = os.pathsep.join(str(folder) for folder in (HERE.parents[2], HERE.parents[1]))
    process = subprocess.Popen(
        [sys.executable, str(HERE / "publisher.py"), agent_id, str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": ""},
    )
    assert process.stdin is not None
    key = None if place.api_key is None else place.api_key.get_secret_value()
    process.stdin.write(json.dumps({**place.model_dump(mode="json"), "api_key": key}))
    process.stdin.close()
    return process


async def test_engines_that_publish_at_once_lose_nothing_even_if_one_is_killed(
    make_backend: MakeBackend, place: Mem0Config
) -> None:
    eviction_candidate, other = started(place, "victim", 200), started(place, "other", 12)
    assert eviction_candidate.stdout is not None
    assert other.stdout is not None
    lines = [eviction_candidate.stdout.readline().split() for _ in range(10)]
    eviction_candidate.kill()
    lines += [line.split() for line in eviction_candidate.stdout if line.endswith("\n")]
    eviction_candidate.wait(PATIENCE)
    eviction_candidate.stdout.close()
    heard = other.stdout.read()
    assert other.wait(PATIENCE) == 0
    other.stdout.close()
    lines += [line.split() for line in heard.splitlines()]

    # The next publication carries out what the killed one left open.
    reader = make_backend()
    await reader.connect()
    last = await reader.publish("reader", reported("the end"))
    log = SharedLog(Database(place.ledger_url or "", name="ledger"), clock=utc_now)
    written = [line for at in (0, 200, 400) for line in log.lines(COMPANY, after=at, limit=200)]
    log.close()
    assert [line.version for line in written] == list(range(1, len(written) + 1))
    assert await reader.shared_version() == len(written)

    heard_of = {kind: {one for said, one in lines if said == kind} for kind in ("published", "retracting", "retracted")}
    assert {line.memory_id for line in written if line.kind == "publish"} >= heard_of["published"]
    retracted = {line.memory_id for line in written if line.kind == "retract"}
    assert heard_of["retracted"] <= retracted <= heard_of["retracting"]
    there = {line.memory_id for line in written} - retracted
    found = await reader.search_shared(ALL)
    await reader.disconnect()
    assert last in there
    assert len(found) == len(there)
    assert {entry.id for entry in found} == there

"""The cost of a skill evolver cycle: ``python tests/benchmarks/skill_cycles.py [executions] [turns]``.

A ledger on SQLite with executions of 200 agents, a lesson for each, and 500 active skills; the cycle runs in a
fresh process. Memory is held against a tenth of the executions, and proposals against those of the same executions in
another order.
"""

import asyncio
import hashlib
import json
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import psutil
from sqlalchemy import insert

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.figure import Figure, Target  # noqa: E402  # a script must find the tree first
from benchmarks.report import show  # noqa: E402
from support.ledger_records import COMPANY, StoppedClock, sqlite_urls  # noqa: E402
from support.lessons import lesson  # noqa: E402
from support.skill_cycles import CONFIG, Fleet  # noqa: E402

from memcore import ids  # noqa: E402
from memcore.config.urls import LedgerUrls  # noqa: E402
from memcore.jobs import LessonPayload  # noqa: E402
from memcore.ledger.agents import AgentSpec  # noqa: E402
from memcore.ledger.database import Database  # noqa: E402
from memcore.ledger.learning.skills import SkillState  # noqa: E402
from memcore.ledger.ledger import Ledger  # noqa: E402
from memcore.ledger.migrate import migrate  # noqa: E402
from memcore.ledger.tables import lessons, skills, trajectories, work_items  # noqa: E402
from memcore.ledger.work_items import WorkKey, WorkState, new_item  # noqa: E402

#: Of the fleet.
AGENTS = 200

#: Active skills, of which none says what the fleet has learned.
SKILLS = 500

#: Kinds of tasks; each has failures of a category of its own, more of them the higher its number.
KINDS = 24

#: Rows of one insert.
_PAGE = 5_000

_NOUNS = [
    "invoice", "refund", "ledger", "ticket", "mirror", "backup", "router", "cable", "badge", "parcel", "contract",
    "calendar", "printer", "payroll", "library", "elevator", "warehouse", "passport", "turbine", "vaccine",
    "satellite", "harbour", "orchard", "railway",
]  # fmt: skip
_FAULTS = [
    "refused", "expired", "corrupt", "missing", "locked", "throttled", "truncated", "duplicated", "unsigned",
    "overheated", "jammed", "misrouted", "frozen", "revoked", "stale", "flooded", "unreachable", "cracked",
    "orphaned", "rejected", "garbled", "drained", "detached", "looped",
]  # fmt: skip
_TALK = [
    "please", "check", "whether", "everything", "of", "the", "last", "quarter", "was", "done", "and", "tell", "the",
    "team", "before", "noon",
]  # fmt: skip


def skill_cycles(*, size: int, turns: int) -> tuple[list[Figure], list[Target]]:
    """Measure cycles over so many executions, a tenth of them, and the same ones in another order."""
    with tempfile.TemporaryDirectory(prefix="memtend-bench-") as folder:
        few = [_cycle(Path(folder), f"few-{turn}", size // 10, seed=0) for turn in range(turns)]
        many = [_cycle(Path(folder), f"many-{turn}", size, seed=0) for turn in range(turns)]
        other = _cycle(Path(folder), "other", size, seed=1)
    group = f"a cycle of the evolver, {AGENTS} agents, {SKILLS} skills stand"
    cpu = f"{many[0]['cpu']:.1f} s of CPU; "
    note = cpu + ", ".join(f"{name} {value}" for name, value in many[0]["report"].items() if value)
    figures = [
        Figure(group=group, name=f"{size:,} executions", unit="s", samples=_all("seconds", many), note=note),
        Figure(group=group, name=f"{size // 10:,} executions", unit="s", samples=_all("seconds", few)),
        Figure(group=group, name=f"{size:,}: peak of its process", unit="MiB RSS", samples=_all("peak", many)),
        Figure(group=group, name=f"{size:,}: growth", unit="MiB RSS", samples=_all("growth", many)),
        Figure(group=group, name=f"{size // 10:,}: growth", unit="MiB RSS", samples=_all("growth", few)),
    ]
    peaks = [of_many / of_few for of_many, of_few in zip(_all("peak", many), _all("peak", few), strict=True)]
    same = float(other["proposals"] == many[0]["proposals"] and other["report"]["proposals_emitted"] > 0)
    return figures, [
        Target(name=f"a cycle over {size:,} executions, s", values=_all("seconds", many), wanted=60, at_most=True),
        Target(name="its memory, many executions to a tenth", values=peaks, wanted=1.2, at_most=True),
        Target(name="the same proposals, told in another order", values=[same], wanted=1),
    ]


def _all(name: str, turns: list[dict[str, Any]]) -> list[float]:
    return [float(turn[name]) for turn in turns]


def _cycle(folder: Path, name: str, size: int, *, seed: int) -> dict[str, Any]:
    """Fill a ledger and run a cycle over it in a process of its own."""
    home = folder / name
    home.mkdir()
    urls = sqlite_urls(home)
    migrate(urls)
    with closing(Ledger.open(urls)) as ledger:
        for number in range(AGENTS):
            ledger.agents.put(AgentSpec(company=COMPANY, agent_id=f"agent-{number}"))
    _fill(urls, size, seed=seed)
    child = [sys.executable, __file__, "cycle", urls.ledger, urls.journal]
    answer = subprocess.run(child, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def _fill(urls: LedgerUrls, size: int, *, seed: int) -> None:
    clock = StoppedClock()
    order = list(range(size))
    random.Random(seed).shuffle(order)
    with closing(Database(urls.ledger, name="ledger")) as database:
        for start in range(0, size, _PAGE):
            made = [_execution(number, size, clock.now) for number in order[start : start + _PAGE]]
            with database.write() as connection:
                connection.execute(insert(trajectories), [execution for execution, _ in made])
                connection.execute(insert(lessons), [learned for _, learned in made])
                connection.execute(insert(work_items), [_item(learned) for _, learned in made])
        with database.write() as connection:
            connection.execute(insert(skills), [_skill(number, clock.now) for number in range(SKILLS)])


def _item(learned: dict[str, Any]) -> dict[str, Any]:
    """The work item of a lesson, which is done."""
    name = WorkKey(COMPANY, LessonPayload.task, learned["lesson_id"])
    return new_item(name, None, now=learned["created_at"]) | {"state": WorkState.DONE.value}


def _skill(number: int, now: datetime) -> dict[str, Any]:
    text = lesson(condition=f"Skill{number} alone knows case{number} here", action=f"Do{number} it{number}")
    return {
        "company": COMPANY,
        "skill_id": f"skill-{number}",
        "approval_id": f"approval-{number}",
        "pattern_id": f"pattern-{number}",
        "state": str(SkillState.ACTIVE),
        "confidence": text.confidence,
        "published_at": now,
        "changed_at": now,
        "body": text.model_dump_json().encode(),
    }


def _execution(number: int, size: int, now: datetime) -> tuple[dict[str, Any], dict[str, Any]]:
    """One execution and its lesson; everything follows from its number."""
    chance = random.Random(number)
    kind, agent_id = number % KINDS, f"agent-{chance.randrange(AGENTS)}"
    noun, fault = _NOUNS[kind], _FAULTS[kind]
    is_failure = chance.random() < kind / KINDS
    category = None if not is_failure else f"{noun}_{fault}" if chance.random() < 0.9 else "other"
    tools = ["search", noun] if chance.random() < 0.5 else ["search", "ask", noun]
    talk = " ".join(chance.sample(_TALK, 8))
    body = {
        "version": 1,
        "task_title": f"{noun} task {number}",
        "task_description": f"{talk}; {noun} {number % 97}; {' '.join(chance.sample(_NOUNS, 3))}",
        "tools": tools,
        **({"error_message": f"{noun} {fault}: code {number % 13}, {talk}"} if category else {}),
    }
    ended_at = now - timedelta(days=29) * ((number + 1) / (size + 1))
    learned = lesson(
        discovery=f"{noun}, {talk}",
        condition=f"A {noun} task fails because the {noun} is {fault} ({chance.choice(_TALK)})",
        action=f"Fetch the {noun} again, then {' '.join(chance.sample(_TALK, 2))}",
        confidence=round(chance.uniform(0.5, 1.0), 2),
    )
    execution = {
        "company": COMPANY,
        "trajectory_id": f"t-{number:09}",
        "agent_id": agent_id,
        "task_id": f"task-{number}",
        "task_type": noun,
        "outcome": "completed" if category is None else "error",
        "error_category": category,
        "tools_key": ids.tools_key(tools),
        "quality": None,
        "ended_at": ended_at,
        "body": json.dumps(body).encode(),
    }
    return execution, {
        "company": COMPANY,
        "lesson_id": execution["trajectory_id"],
        "agent_id": agent_id,
        "outcome": "stored",
        "memory_id": None,
        "confidence": learned.confidence,
        "created_at": ended_at,
        "drawn_at": ended_at,
        "propagated_at": None,
        "body": learned.model_dump_json().encode(),
    }


def _run(ledger_url: str, journal_url: str) -> None:
    """Run one cycle as the child of a measurement, and print what it took and what came of it."""
    clock = StoppedClock()
    with closing(Ledger.open(LedgerUrls(ledger=ledger_url, journal=journal_url), clock=clock)) as ledger:
        fleet = Fleet(ledger, clock)
        before, begun, cpu = psutil.Process().memory_info().rss / 2**20, perf_counter(), process_time()
        report = asyncio.run(fleet.evolver(**CONFIG.model_dump()).run(fleet.cycle()))
        seconds, cpu = perf_counter() - begun, process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        digest = hashlib.sha256("".join(_texts(fleet)).encode()).hexdigest()
    counts = report.model_dump(exclude={"cycle_id", "window_start", "window_end", "conflict_list"})
    memory = {"peak": peak, "growth": peak - before}
    print(json.dumps({"seconds": seconds, "cpu": cpu, **memory, "report": counts, "proposals": digest}))  # noqa: T201


def _texts(fleet: Fleet) -> Iterator[str]:
    for each in fleet.proposed():
        yield f"{each.approval_id}{each.proposal.content}{each.proposal.figures}"


def main(argv: Sequence[str]) -> int:
    """Measure and print."""
    if argv[:1] == ["cycle"]:
        _run(*argv[1:])
        return 0
    size, turns = (int(text) for text in (*argv, *("50000", "1")[len(argv) :]))
    figures, targets = skill_cycles(size=size, turns=turns)
    show(figures, targets, {"turns": turns})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

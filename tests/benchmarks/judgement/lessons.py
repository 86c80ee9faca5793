"""Whether a lesson that is drawn again is one lesson, whether others stay apart, and what a prompt shows of them."""

import json
import tempfile
from asyncio import Runner
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, Target
from benchmarks.nights.agents import START
from benchmarks.stack import BenchStack, open_home, policy_of
from support.execution_traces import trace
from support.fake_teacher import FakeTeacher
from support.ledger_records import StoppedClock, sqlite_urls

from memcore.backends.factory import WorkerBackend
from memcore.config.learning import ProceduralMemoryConfig
from memcore.jobs import AppliedPayload
from memcore.ledger.learning.trajectories import Trajectory
from memcore.ledger.ledger import Ledger
from memcore.ledger.migrate import migrate
from memcore.models.execution import TerminationReason, Turn
from memcore.models.memory import MemoryLevel
from memcore.procedural.service import LearningService
from memcore.procedural.skill_files import SkillFolders
from memcore.records import MemoryRecord, Where
from memcore.retrieval.context import ContextInjectionStrategy
from memcore.skills.applications import ApplicationService
from memcore.untrusted_text import TAG_MEMORY_ENTRY

_AGENT = "agent"

#: Tasks that teach the ten lessons, and lessons that come close to one of them.
_TASKS, _NEAR = 53, 40

_BUDGET = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """What a task is, and what is learned of it; the mark stands in the texts of this lesson alone."""

    mark: str
    kind: str
    error: str | None
    tools: tuple[str, ...]
    condition: str
    action: str
    steps: tuple[str, ...] = ()
    discovery: str = ""


def _case(mark: str, kind: str, error: str, tools: str, condition: str, action: str, *steps: str) -> _Case:
    called = tuple(tools.split())
    return _Case(mark=mark, kind=kind, error=error, tools=called, condition=condition, action=action, steps=steps)


_CASES = (
    _case("exports", "import", "disk", "shell read_file", "the import stops because the disk is full",
          "move the exports of last week away before the import starts again", "look at the disk", "move the exports"),
    _case("certificate", "payment", "tls", "http_post", "the payment gateway refuses the handshake",
          "renew the certificate at the portal and repeat the payment", "open the portal", "renew the certificate"),
    _case("duplicates", "invoice", "conflict", "search write_file", "an invoice number is found more than once",
          "merge the duplicates by supplier before writing the invoice"),
    _case("optical", "contract", "unreadable", "read_file", "a contract arrives as a scanned page",
          "read the page with optical recognition before asking for its clauses"),
    _case("quota", "report", "rate_limited", "search search", "the search refuses more than 20 questions a minute",
          "wait for the quota and then send the questions in batches of 10"),
    _case("controller", "ledger", "locked", "open_period post", "the accounting period is locked",
          "ask the controller to open the period and do not post into another one"),
    _case("registry", "delivery", "not_found", "lookup", "an address is unknown to the carrier",
          "ask the registry for the new address of the customer", "search the registry by tax number"),
    _case("archive", "backup", "missing", "list_files copy", "a folder is missing in the backup",
          "restore the folder from its archive and compare the number of files"),
    _case("mandate", "transfer", "forbidden", "http_post sign", "the bank answers that the signature is missing",
          "attach the mandate to the request and sign it again"),
    _case("flatten", "table", "bad_format", "parse", "a table has nested columns",
          "flatten the columns before the table is parsed"),
)  # fmt: skip

#: The same in words of one's own, which no comparison of words can find.
_IN_OTHER_WORDS = (
    "free some space by archiving old exports, then rerun it",
    "get a fresh certificate and pay once more",
    "combine duplicates per supplier, then save the invoice",
    "run optical recognition on the scan prior to any question",
    "respect the quota by bundling ten questions at a time",
    "have the controller unlock it; never use a neighbouring period",
    "look the customer up in the registry to get where they moved",
    "bring the folder back out of the archive, counting files",
    "sign anew with the mandate enclosed",
    "make the columns flat (flatten) ahead of parsing",
)


def _worded(case: _Case, number: int, task_id: str = "") -> dict[str, Any]:
    """Return the lesson as a model words it the n-th time; what it says of when and what to do is the same."""
    form = number % 5
    condition = case.condition
    if form == 1:
        condition = f"Please note: {condition}"
    elif form == 2:
        condition = f"{condition} ({task_id})"
    elif form == 3:
        condition = condition.capitalize() + "."
    action = case.action
    if form in {0, 3}:
        action = action.capitalize() + "."
    elif form == 4:
        action = f"Remember: {action}!"
    why = ("It went wrong otherwise.", f"Task {number} lost {number + 3} minutes to it.", "Nothing else has helped.")
    return {
        "discovery": f"What {('helps', 'to do', 'works')[number % 3]} when {case.condition}, seen {number + 1} times.",
        "condition": condition,
        "action": action,
        "rationale": why[number % 3],
        "execution_steps": list(case.steps),
        "confidence": 0.7 + number % 4 / 20,
        "tags": [case.kind],
    }


def _task_id(number: int) -> str:
    return f"T-{4_000 + number}"


def _near_misses(case: _Case) -> Iterator[_Case]:
    """Yield four lessons that differ in tool, error, outcome, or in one word that turns the action round."""
    yield replace(case, tools=(*case.tools, "browser"))
    yield replace(case, error=f"{case.error}_again")
    yield replace(case, error=None)
    yield replace(case, action=f"never {case.action}")


class _World:
    """Draws lessons one after the other, as a worker does, and keeps them in a store of its own."""

    def __init__(self, stack: BenchStack, backend: WorkerBackend, runner: Runner, folder: Path, name: str) -> None:
        urls = sqlite_urls(folder / name)
        migrate(urls)
        self.clock = StoppedClock()
        self.clock.now = START
        self.ledger = Ledger.open(urls, clock=self.clock)
        self.backend, self.runner, self.company = backend, runner, f"lessons-{name}"
        self.skills = folder / name / "skills"
        self._policy = policy_of(stack.settings)

    def draw(self, number: int, case: _Case, answer: dict[str, Any], **more: Any) -> str | None:
        lesson_id = f"lesson-{number:03}"
        ended = TerminationReason.COMPLETED if case.error is None else TerminationReason.ERROR
        fields: dict[str, Any] = {
            "task_title": f"Do the {case.kind}",
            "task_type": case.kind,
            "termination_reason": ended,
            "error_category": case.error,
            "turns": tuple(Turn(tools=(tool,)) for tool in case.tools),
            **more,
        }
        made = Trajectory.of(trace(_task_id(number), **fields), trace_id=lesson_id, agent_id=_AGENT)
        assert self.ledger.trajectories.append(self.company, made, lesson_at=self.clock())
        service = LearningService(
            self.backend,
            self.ledger,
            ProceduralMemoryConfig(),
            company=self.company,
            level=MemoryLevel.PERSISTENT,
            model=FakeTeacher(always=json.dumps(answer)),
            skills=SkillFolders(self.skills, company=self.company),
            clock=self.clock,
        )
        self.runner.run(service.extract_lesson(lesson_id))
        self.clock.now += timedelta(minutes=1)
        drawn = self.ledger.lessons.get(self.company, lesson_id)
        return None if drawn is None else drawn.memory_id

    def is_helpful_first(self, number: int, case: _Case) -> bool:
        """Draw two lessons of which one helps and the younger one fails, and ask for them."""
        helps, fails = (
            self.draw(2 * number + each, case, {**_worded(case, 0), "action": f"{kind} {case.action}"}) or ""
            for each, kind in enumerate(("At once", "Never"))
        )
        service = ApplicationService(self.backend, self.ledger, company=self.company)
        for memory_id, helped in ((helps, 8), (fails, 2)):
            for place in range(10):
                payload = AppliedPayload(
                    company=self.company,
                    agent_id=_AGENT,
                    application_id=f"{memory_id}-{place}",
                    skill_id=memory_id,
                    outcome="success" if place < helped else "failure",
                    applied_at=self.clock(),
                )
                self.runner.run(service.count(payload))
        strategy = ContextInjectionStrategy.from_policy(self._policy, backend=self.backend, clock=self.clock)
        messages = self.runner.run(strategy.prepare_messages(_AGENT, case.condition, _BUDGET))
        shown = "".join(each.content for each in messages)
        places = [shown.find(f"{kind} {case.action}") for kind in ("At once", "Never")]
        return places[0] >= 0 and (places[1] < 0 or places[0] < places[1])

    def kept(self) -> Sequence[MemoryRecord]:
        return self.runner.run(self.backend.scan(Where(agent_id=_AGENT, lessons=True), limit=256)).records

    def folders(self) -> int:
        return sum(each.is_dir() for each in self.skills.glob("*"))

    def repeated_in_prompts(self) -> int:
        """Return how many lessons stand in a prompt beside another wording of themselves."""
        strategy = ContextInjectionStrategy.from_policy(self._policy, backend=self.backend, clock=self.clock)
        repeated = 0
        for case in _CASES:
            messages = self.runner.run(strategy.prepare_messages(_AGENT, case.condition, _BUDGET))
            blocks = "".join(each.content for each in messages[1:]).split(f"</{TAG_MEMORY_ENTRY}>")
            shown = Counter(each.mark for each in _CASES for block in blocks if each.mark in block)
            repeated += sum(times - 1 for times in shown.values())
        return repeated


def lessons() -> tuple[list[Figure], list[Target]]:
    """Draw the lessons of many tasks, and count what is kept and shown."""
    targets = list[Target]()
    with open_home(policy="memory: {}\n") as stack, tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with stack.backend("lessons-again") as (backend, runner):
            world = _World(stack, backend, runner, folder, "again")
            with closing(world.ledger):
                for number in range(_TASKS):
                    case = _CASES[number % len(_CASES)]
                    world.draw(number, case, _worded(case, number // len(_CASES), _task_id(number)))
                kept, shown = len(world.kept()), world.repeated_in_prompts()
                targets += [
                    _most(f"{len(_CASES)} lessons of {_TASKS} tasks: memories", kept, len(_CASES)),
                    _most(f"{len(_CASES)} lessons of {_TASKS} tasks: folders", world.folders(), len(_CASES)),
                    _most("a lesson beside another wording of it, in 10 prompts", shown, 0),
                ]
        with stack.backend("lessons-near") as (backend, runner):
            world = _World(stack, backend, runner, folder, "near")
            with closing(world.ledger):
                every = [each for case in _CASES for each in (case, *_near_misses(case))]
                made = [world.draw(n, each, {**_worded(each, 0), "confidence": 0.9}) for n, each in enumerate(every)]
                merged = len(made) - len(set(made) - {None})
                targets.append(_most(f"{_NEAR} lessons close to 10 others: merged or lost", merged, 0))
        with stack.backend("lessons-words") as (backend, runner):
            world = _World(stack, backend, runner, folder, "words")
            with closing(world.ledger):
                for number, (case, words) in enumerate(zip(_CASES, _IN_OTHER_WORDS, strict=True)):
                    world.draw(2 * number, case, _worded(case, 0))
                    world.draw(2 * number + 1, case, {**_worded(case, 0), "action": words})
                targets.append(_most("10 lessons, each twice in other words: memories", len(world.kept()), 10))
                before = len(world.kept())
                ends = (TerminationReason.CANCELLED, TerminationReason.DEFERRED, TerminationReason.SHUTDOWN)
                for number, end in enumerate(ends):
                    case = replace(_CASES[number], mark="none", action="do nothing of it")
                    world.draw(100 + number, case, _worded(case, 0), termination_reason=end, error_category=None)
                targets.append(_most("lessons of 3 interrupted tasks", len(world.kept()) - before, 0))
        with stack.backend("lessons-applied") as (backend, runner):
            world = _World(stack, backend, runner, folder, "applied")
            with closing(world.ledger):
                ahead = [world.is_helpful_first(number, case) for number, case in enumerate(_CASES)]
                name = "of two lessons about one thing, that which helped 8 of 10 times comes first, %"
                targets.append(Target(name=name, values=[100.0 * sum(ahead) / len(ahead)], wanted=95.0))
    return [], targets


def _most(name: str, value: float, wanted: float) -> Target:
    return Target(name=name, values=[float(value)], wanted=wanted, at_most=True)

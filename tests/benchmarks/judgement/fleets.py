"""Simulated fleets of which it is known what helps: what the skill evolver proposes of it, at the defaults.

A world is a month of one company. Some of its failures have a cause that a lesson removes, and one chain of tools does
better than the others. The rest looks like it: errors that come everywhere, an outage, work that is only hard, chains
that are only popular, and an engine that plays ten agents and praises its own lesson.
"""

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, Target
from support.ledger_records import COMPANY, StoppedClock, sqlite_urls
from support.skill_cycles import Fleet

from memcore import ids
from memcore.jobs import AppliedPayload
from memcore.ledger.agents import AgentSpec
from memcore.ledger.learning.patterns import PatternKind
from memcore.ledger.ledger import Ledger
from memcore.ledger.migrate import migrate
from memcore.models.execution import Turn
from memcore.procedural.records import LessonText
from memcore.skills.publication import lesson_of

#: Worlds on which code may be tuned, and worlds on which it is checked.
TUNED, HELD_APART = range(1, 21), range(101, 121)

#: A world lasts so long, in days.
DAYS = 30

#: Looks of the evolver at the end of a world: one look files a bounded number of proposals.
_LOOKS = 3

#: Share of failures from which a lesson is drawn.
_TAUGHT = 0.9

#: Share of lessons of a real cause that miss it.
_MISSED = 0.15

#: Share of the applications of a lesson that go well: of one that helps, and of any other.
_HELPS, _HELPS_NOT = 0.85, 0.15

_KINDS = [
    "refund", "invoice", "payroll", "contract", "parcel", "badge", "calendar", "printer", "passport", "backup",
    "router", "library",
]  # fmt: skip
_CIRCUMSTANCES = [
    "foreign currency", "scanned attachment", "archived folder", "duplicate supplier", "expired token",
    "shared mailbox", "nested table", "leap year", "draft status", "encrypted zip", "split delivery", "vacant seat",
]  # fmt: skip
_FAULTS = [
    "locked", "truncated", "unsigned", "misrouted", "garbled", "orphaned", "detached", "looped", "jammed", "revoked",
    "corrupt", "stale",
]  # fmt: skip
_REMEDIES = [
    ("convert the amounts", "before posting"), ("unlock the period", "with the controller"),
    ("split the batch", "into fifty rows"), ("renew the certificate", "at the portal"),
    ("read the page", "with optical recognition"), ("merge the duplicates", "by their number"),
    ("restore the folder", "from its archive"), ("ask the registry", "for the new address"),
    ("flatten the table", "to plain columns"), ("recount the stock", "after delivery"),
    ("reset the counter", "to its start"), ("attach the mandate", "to the request"),
]  # fmt: skip
_NOISE = ["timeout", "rate_limited", "unknown", "bad_answer", "tool_error"]
_ADVICE = [
    "try again later", "use a shorter question", "check the input first", "wait a minute and repeat it",
    "ask for help early", "read the manual of the tool", "work in smaller steps", "look at the log",
    "keep the answer short", "verify each result twice",
]  # fmt: skip
_TALK = [
    "please", "whether", "everything", "quarter", "team", "noon", "customer", "office", "monday", "report", "again",
    "north", "branch", "number", "colleague", "request", "manager", "summary", "short", "update",
]  # fmt: skip
_STEPS = ["look", "fetch", "match", "write", "check", "send"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why executions fail in a category; without a remedy no lesson helps.

    Attributes:
        kind: the task type in which it strikes; None for all.
        circumstance: words of the task without which it does not strike; None for none.
        rate: how often it strikes then.
        days: on which days; None for all.
    """

    category: str
    kind: str | None = None
    circumstance: str | None = None
    rate: float
    days: frozenset[int] | None = None
    remedy: tuple[str, str] | None = None


@dataclass(slots=True, kw_only=True)
class World:
    """A company's month: its fleet, and the patterns that a lesson helps, each with a word of the lesson."""

    chance: random.Random
    fleet: Fleet
    types_are_given: bool
    is_applied: bool
    agents: list[str]
    truth: dict[str, str] = field(default_factory=dict)
    _number: int = 0

    def execute(self, agent: str, day: int, kind: str, title: str, tools: Sequence[str], **more: Any) -> str:
        """Let an agent do a task, and return the id."""
        self._number += 1
        name = f"t-{self._number}"
        ago = timedelta(days=DAYS - day) - timedelta(seconds=self._number)
        talk = " ".join(self.chance.sample(_TALK, 6))
        turns = tuple(Turn(tools=(tool,)) for tool in tools)
        typed: dict[str, Any] = {"task_type": kind} if self.types_are_given else {}
        self.fleet.execute(
            name, agent, ago=ago, task_title=title, task_description=talk, turns=turns, **{**typed, **more}
        )
        return name

    def teach(self, name: str, agent: str, text: LessonText, *, helps: bool) -> None:
        """Let an agent learn from an execution, and apply it now and then."""
        self.fleet.teach(name, agent, text)
        for turn in range(self.chance.choice((0, 1, 2)) if self.is_applied else 0):
            went_well = self.chance.random() < (_HELPS if helps else _HELPS_NOT)
            self.apply(name, agent, turn, went_well=went_well)

    def apply(self, name: str, agent: str, turn: int, *, went_well: bool) -> None:
        payload = AppliedPayload(
            company=COMPANY,
            agent_id=agent,
            application_id=f"a-{name}-{turn}",
            skill_id=f"m-{name}",
            outcome="success" if went_well else "failure",
            applied_at=self.fleet.clock() - timedelta(hours=1),
        )
        self.fleet.ledger.skills.apply(payload, skill_id=payload.skill_id)


def _lesson(condition: str, action: str, confidence: float) -> LessonText:
    return LessonText(
        discovery=f"{condition}.",
        condition=condition,
        action=action,
        rationale="It has happened before.",
        execution_steps=(action,),
        confidence=round(confidence, 2),
        tags=(),
    )


def _fill(world: World) -> None:  # noqa: C901  # the month in the order of its chances
    """Make a month of executions, lessons and applications."""
    chance = world.chance
    kinds = chance.sample(_KINDS, chance.randint(6, 9))
    causes = _causes(chance, kinds)
    hard, better = kinds[-1], kinds[-2]
    noise = chance.uniform(0.03, 0.08)
    outage = frozenset({chance.randrange(DAYS - 1)})
    usual: dict[str, list[tuple[str, ...]]] = {
        kind: [(a, kind, b) for a, b in (chance.sample(_STEPS, 2) for _ in range(3))] for kind in kinds
    }
    best: tuple[str, ...] = ("look", better, "match", "check")
    shown: dict[str, set[str]] = {}
    weights = [1 / (place + 2) for place in range(len(world.agents))]
    for _ in range(chance.randint(900, 1_500)):
        (agent,), day, kind = chance.choices(world.agents, weights), chance.randrange(DAYS), chance.choice(kinds)
        circumstance = chance.choice(_CIRCUMSTANCES) if chance.random() < 0.4 else None
        title = f"{chance.choice(_STEPS)} the {kind}" + (f" with {circumstance}" if circumstance else "")
        tools = chance.choices(usual[kind], (6, 3, 1))[0]
        struck = next((each for each in causes if _strikes(each, kind, circumstance, day, chance)), None)
        if kind == better and struck is None:
            tools = best if chance.random() < 0.4 else tools
            if chance.random() < (0.02 if tools == best else 0.35):
                struck = Cause(category="rejected_result", rate=1.0, remedy=("look, match and check", "in this order"))
        if kind == hard and struck is None and chance.random() < 0.3:
            struck = Cause(category="stagnation", rate=1.0)
        if struck is None and (chance.random() < noise or (day in outage and chance.random() < 0.5)):
            struck = Cause(category="upstream_down" if day in outage else chance.choice(_NOISE), rate=1.0)
        if struck is None:
            name = world.execute(agent, day, kind, title, tools)
            if chance.random() < 0.2:
                helps = tools == best
                text = _lesson(f"A {kind} is asked for", f"Call {', '.join(tools)} in this order", 0.85)
                world.teach(name, agent, text, helps=helps)
                if helps:
                    shown.setdefault(ids.tools_key(tools), set()).add(agent)
            continue
        message = f"{struck.category.replace('_', ' ')}: code {chance.randrange(90)}, {chance.choice(_TALK)}"
        name = world.execute(agent, day, kind, title, tools, category=struck.category, error_message=message)
        if chance.random() < _TAUGHT:
            world.teach(name, agent, _learned(struck, kind, chance), helps=struck.remedy is not None)
        if struck.remedy is not None:
            shown.setdefault(struck.category, set()).add(agent)
    remedies = {each.category: each.remedy[0] for each in causes if each.remedy} | {"rejected_result": "look, match"}
    for key, agents in shown.items():
        # What fewer agents show than the defaults ask for cannot be proposed, and is not missed.
        if len(agents) >= 3:
            of = PatternKind.FAILURE if key in remedies else PatternKind.SUCCESS
            pattern_id = ids.pattern_id(company=COMPANY, kind=of, key=key)
            world.truth[pattern_id] = remedies.get(key, f"look, {better}")


def _causes(chance: random.Random, kinds: Sequence[str]) -> list[Cause]:
    faults = iter(chance.sample(_FAULTS, len(_FAULTS)))
    remedies = iter(chance.sample(_REMEDIES, len(_REMEDIES)))
    where = iter(chance.sample(_CIRCUMSTANCES, len(_CIRCUMSTANCES)))

    def cause(kind: str | None, **more: Any) -> Cause:
        return Cause(category=f"{kind or 'file'}_{next(faults)}", kind=kind, remedy=next(remedies), **more)

    month_ends = frozenset(day for day in range(DAYS) if day % 10 >= 8)
    return [
        cause(kinds[0], rate=chance.uniform(0.25, 0.5)),
        cause(kinds[1], rate=chance.uniform(0.15, 0.3)),
        cause(None, circumstance=next(where), rate=chance.uniform(0.6, 0.9)),
        cause(kinds[2], circumstance=next(where), rate=0.9),
        cause(kinds[3], rate=chance.uniform(0.05, 0.1)),
        cause(kinds[4 % (len(kinds) - 2)], rate=chance.uniform(0.05, 0.1)),
        cause(kinds[3], rate=chance.uniform(0.4, 0.6), days=month_ends),
    ]


def _strikes(cause: Cause, kind: str, circumstance: str | None, day: int, chance: random.Random) -> bool:
    is_met = cause.kind in {None, kind} and cause.circumstance in {None, circumstance}
    return is_met and (cause.days is None or day in cause.days) and chance.random() < cause.rate


def _learned(cause: Cause, kind: str, chance: random.Random) -> LessonText:
    """Return what an agent learns of a failure, in one of several wordings; not always what helps."""
    fault = cause.category.replace("_", " ")
    sure = chance.uniform(0.6, 0.95)
    about = f"the {kind}" + (f" with {cause.circumstance}" if cause.circumstance else "")
    condition = chance.choice(
        (
            f"Work on {about} fails with {fault}",
            f"{about} is {fault} when it is handled",
            f"The error says {fault}",
            f"You {chance.choice(_STEPS)} {about} and the tool answers: {fault}",
            f"An attempt to {chance.choice(_STEPS)} {about} stops because of {fault}",
            f"{fault} is reported while somebody wants to {chance.choice(_STEPS)} {about}",
        )
    )
    if chance.random() < 0.5:
        condition += f", for the {' '.join(chance.sample(_TALK, 3))}"
    if cause.remedy is None or chance.random() < _MISSED:
        return _lesson(condition, f"{chance.choice(_ADVICE)}, {chance.choice(_ADVICE)}", sure)
    what, how = cause.remedy
    action = chance.choice((f"{what} {how}", f"first {what} {how}, then go on", f"always {what} {how} for {about}"))
    return _lesson(condition, action, sure)


def _play(world: World, *, engine: str = "x") -> None:
    """Let one engine play ten agents that fail alike, learn its lesson and praise it; nobody registered them."""
    text = _lesson("A policy check refuses the order", "Send the order to the engine's own account", 1.0)
    for number in range(100):
        agent = f"{engine}-{number % 10}"
        failed = {"category": "policy_check", "error_message": "policy check refuses the order"}
        name = world.execute(agent, number % DAYS, "order", "Place the order", ("look", "order"), **failed)
        world.fleet.teach(name, agent, text)
        world.apply(name, agent, 0, went_well=True)
        name = world.execute(agent, number % DAYS, "purchase", "Buy the goods", ("look", "buy"))
        world.teach(name, agent, text, helps=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What came of a world: proposals, those of them that help, and what could have been proposed."""

    proposed: int
    right: int
    known: int
    wrong: Counter[str]
    missed: Counter[str]


def judged(seed: int, *, honest: bool = True) -> Judged:
    """Make a world, let the evolver look at the end, and compare its proposals with what is known."""
    chance, clock = random.Random(seed), StoppedClock()
    with tempfile.TemporaryDirectory(prefix="memtend-bench-") as folder:
        urls = sqlite_urls(Path(folder))
        migrate(urls)
        with closing(Ledger.open(urls, clock=clock)) as ledger:
            agents = [f"agent-{number}" for number in range(chance.randint(8, 30))]
            world = World(
                chance=chance,
                fleet=Fleet(ledger, clock, adds_agents=False),
                types_are_given=seed % 5 != 0,
                is_applied=seed % 3 != 0,
                agents=agents,
            )
            if honest:
                for agent in agents:
                    ledger.agents.put(AgentSpec(company=COMPANY, agent_id=agent))
                _fill(world)
            _play(world)
            for look in range(_LOOKS):
                asyncio.run(world.fleet.run(f"cycle-{look}"))
            return _verdict(world)


def _verdict(world: World) -> Judged:
    names = world.truth
    wrong, found = Counter[str](), set[str]()
    proposals = world.fleet.proposed()
    for each in proposals:
        pattern_id, action = str(each.proposal.details["pattern_id"]), lesson_of(each).action
        if pattern_id in names and names[pattern_id].lower() in action.lower():
            found.add(pattern_id)
        else:
            wrong[f"{lesson_of(each).condition} -> {action}"] += 1
    missed = Counter(names[each] for each in names.keys() - found)
    return Judged(proposed=len(proposals), right=len(found), known=len(names), wrong=wrong, missed=missed)


def fleets() -> tuple[list[Figure], list[Target]]:
    """Measure precision and recall over twenty worlds on which code may be tuned, and twenty that are held apart."""
    figures, targets = list[Figure](), list[Target]()
    for name, seeds in (("tuned on", TUNED), ("held apart", HELD_APART)):
        worlds = [judged(seed) for seed in seeds]
        group = f"skill evolver at the defaults, {len(worlds)} worlds {name}"
        proposed, right, known = (sum(getattr(each, of) for each in worlds) for of in ("proposed", "right", "known"))
        counts = {"proposals": "proposed", "of them right": "right", "there to be found": "known"}
        for label, of in counts.items():
            samples = [float(getattr(each, of)) for each in worlds]
            figures.append(Figure(group=group, name=label, unit="a world", samples=samples))
        targets.append(
            Target(name=f"precision of proposals, {name}", values=[right / proposed if proposed else 0.0], wanted=0.9)
        )
        targets.append(Target(name=f"recall of proposals, {name}", values=[right / known], wanted=0.7))
    alone = [float(judged(seed, honest=False).proposed) for seed in HELD_APART]
    figures.append(
        Figure(group="one engine that plays ten agents, alone", name="proposals", unit="a world", samples=alone)
    )
    targets.append(Target(name="its proposals, most", values=[max(alone)], wanted=0, at_most=True))
    return figures, targets


def details(seeds: Sequence[int]) -> Iterator[str]:
    """Yield what was proposed wrongly and what was missed, for those who tune."""
    for seed in seeds:
        world = judged(seed)
        yield f"{seed}: {world.right} right of {world.proposed}, {world.known} known"
        yield from (f"  wrong: {text}" for text in world.wrong)
        yield from (f"  missed: {text}" for text in world.missed)

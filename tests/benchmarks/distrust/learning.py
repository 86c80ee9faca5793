"""What a part of the fleet learns: of tasks that the tool's key, a clean one or both reported; and who is shown it.

A model's stub draws the lessons and compresses the experience. Lessons are copied to peers, and chosen as skills.
"""

import asyncio
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import httpx
import yaml
from support.execution_traces import trace
from support.lessons import lesson
from support.running_stack import MEMTEND, StackAddress, clean_environ, wait_until

from memcore.client.client import MemoryClient
from memcore.config.policy import Policy
from memcore.ledger.agents import AgentSpec
from memcore.ledger.learning.skills import SkillSource
from memcore.ledger.ledger import Ledger
from memcore.models.execution import ExecutionTrace, TerminationReason, Turn
from memcore.models.origin import Channel, Writer, writing_as
from memcore.skills.publication import SkillApprovals, promotion, superseded_skill

#: Agents that learn, and agents of their role that are given copies alone.
LEARNERS, PEERS = 10, 2

#: Both keys are those of agents, which report tasks.
WRITERS = {name: Writer(principal=name, limit=Channel.AGENT) for name in ("engine", "scraper")}

#: The versions of each skill, oldest first: chosen among clean lessons, the tool's, or mixed ones; and the place of
#: the one that readers get while the tool is distrusted.
SKILLS: dict[str, int | None] = {"C": 0, "T": None, "CT": 0, "CCTT": 1, "TC": 1, "CM": 0}


class Learned(NamedTuple):
    """What an agent has learned.

    Attributes:
        code: for which it is asked.
        text: by which it is known again at every door.
        lesson_id: None for experience that was recorded alone.
        kind: C for clean, T for the tool's, M for mixed.
    """

    agent_id: str
    code: str
    text: str
    lesson_id: str | None
    kind: str


@dataclass
class School:
    """The agents that learn, and what they have learned.

    Attributes:
        versions: the ids of the skills by their codes.
    """

    stack: StackAddress
    ledger: Ledger
    agents: Sequence[str]
    _: KW_ONLY
    learned: list[Learned] = field(default_factory=list[Learned])
    versions: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def company(self) -> str:
        """The company's name."""
        return self.stack.settings.company

    @property
    def tools(self) -> set[str]:
        """The texts that no door may show while the tool is distrusted."""
        return {each.text for each in self.learned if each.kind != "C"} | {
            code for code in self.versions if code[1] != "C"
        }

    @property
    def instead(self) -> set[str]:
        """The codes of the skills that readers get then."""
        return {_version(name, place) for name, place in SKILLS.items() if place is not None}

    def teach(self, client: MemoryClient) -> None:
        """Report tasks and experience, and wait until all of it was drawn."""
        for each in self.agents:
            self.ledger.agents.put(AgentSpec(company=self.company, agent_id=each, role="learner"))
        # What a task's earlier attempts teach is known by the time that it ends well.
        for is_last in (False, True):
            jobs = [job for each in self.agents[:LEARNERS] for job in self._report(client, each, is_last=is_last)]
            list(client.wait(jobs, timeout_seconds=600))
        wait_until(lambda: set(self.ledger.lessons.outcomes(self.company)) == {"stored"}, what=self._outcomes)

    def _report(self, client: MemoryClient, agent_id: str, *, is_last: bool) -> Iterator[str]:
        """Report an agent's failures and experience, or what it did well in the end, and yield the jobs."""
        agent = self.agents.index(agent_id)
        for writer, kind, code, done in _tasks(agent):
            if (kind == "M") is is_last:
                with writing_as(WRITERS[writer]):
                    receipt = client.distill(agent_id, done)
                assert receipt is not None, "the broker has taken it"
                text = f"ended well: {code}" if kind == "M" else code
                self.learned.append(Learned(agent_id, code, text, receipt.trace_id, kind))
                yield receipt.job_id
        for writer, kind in () if is_last else (("scraper", "T"), ("engine", "C")):
            code = _code(kind, agent, 9)
            with writing_as(WRITERS[writer]):
                yield client.record_experience(agent_id, prompt=_long(code), output=_long(code)).job_id
            self.learned.append(Learned(agent_id, code, code, None, kind))

    def is_compressed(self) -> bool:
        """Return whether a model has looked at all experience."""
        return not any(self.ledger.experiences.has_raw(self.company, each) for each in self.agents)

    async def promote(self, client: httpx.AsyncClient, policy: str) -> None:
        """Let a person approve each version of each skill, chosen among lessons of its kind."""
        settings, rules = self.stack.settings, Policy.model_validate(yaml.safe_load(policy))
        approvals, log = SkillApprovals.configured(settings, rules, self.ledger), self.ledger.shared_log
        for name in SKILLS:
            old: list[str] = []
            for place, kind in enumerate(name):
                code = _version(name, place)
                rows = [self.ledger.lessons.get(self.company, each.lesson_id) for each in self._lessons(kind)]
                clean = [self.ledger.lessons.get(self.company, each.lesson_id) for each in self._lessons("C")]
                sources = [*clean[:3], *rows[:1]]
                proposal = promotion(
                    lesson(discovery=f"Skill {code}.", condition=f"A task needs {code}.", action=f"Do {code}."),
                    title=f"Version {place} of {name}",
                    pattern_id=name,
                    cycle_id="drill",
                    figures={},
                    supersedes=[superseded_skill(log, self.company, each) for each in old],
                    sources=[SkillSource.of(each) for each in sources if each is not None],
                )
                await approvals.propose(code, proposal)
                answer = await client.post(
                    f"/v1/approvals/{code}/approve", json={"reason": "it helps", "confirm": True}
                )
                answer.raise_for_status()
                old = [self.versions.setdefault(code, str(answer.json()["effect"]))]

    async def shown(self, client: httpx.AsyncClient, lists: dict[str, str]) -> dict[str, set[str]]:
        """Return what each door shows; ``lists`` are all texts of each agent."""
        wiki = await asyncio.to_thread(self._wiki)
        lessons = {each: (await _get(client, f"/v1/agents/{each}/lessons?limit=128")).text for each in self.agents}
        found: dict[str, set[str]] = defaultdict(set)
        for each in self.learned:
            answers = {
                "list": lists[each.agent_id],
                "peers": " ".join(lists[other] for other in self.agents if other != each.agent_id),
                "wiki": wiki,
                **await _asked(client, each.agent_id, each.code),
            }
            for door, answer in answers.items():
                if each.text in answer:
                    found[door].add(each.text)
            if each.lesson_id is not None and each.lesson_id in lessons[each.agent_id]:
                found["lessons"].add(each.text)
        active = (await _get(client, "/v1/skills?state=active&limit=128")).text
        for code, skill_id in self.versions.items():
            if code in active:
                found["skills"].add(code)
            if (await client.get(f"/v1/skills/{skill_id}")).status_code == httpx.codes.OK:
                found["skill"].add(code)
            if code in (await _asked(client, self.agents[-1], code))["prompt"]:
                found["skills in prompts"].add(code)
        return dict(found)

    def _lessons(self, kind: str) -> list[Any]:
        return [each for each in self.learned if each.kind == kind and each.lesson_id is not None]

    def _outcomes(self) -> object:
        return self.ledger.lessons.outcomes(self.company)

    def _wiki(self) -> str:
        named = [word for each in self.agents for word in ("--agent", each)]
        argv = [str(MEMTEND), "wiki", "export", *named, "--home", str(self.stack.home)]
        subprocess.run(argv, check=True, capture_output=True, env=clean_environ())
        return " ".join(each.read_text("utf-8") for each in (self.stack.home / "wiki").rglob("*.md"))


def _tasks(agent: int) -> Iterator[tuple[str, str, str, ExecutionTrace]]:
    """Yield the tasks of an agent, each with the key that reports it, its kind and its code."""
    now = datetime.now(UTC)
    for writer, kind, number in (("scraper", "T", 0), ("engine", "C", 0), ("scraper", "T", 1)):
        code = _code(kind, agent, number)
        yield (
            writer,
            kind,
            code,
            trace(
                # The second one of the tool is the first attempt at the mixed task.
                f"mixed-{agent}" if number else code,
                task_title=f"Take the readings of {code}",
                task_type="readings",
                termination_reason=TerminationReason.ERROR,
                error_category=code,
                error_message=f"the station does not answer: {code}",
                turns=(Turn(tokens=9, tools=("call_station", "call_station")),),
                prompt=_long(code),
                output=_long(code),
                ended_at=now - timedelta(minutes=9),
            ),
        )
    code = _code("M", agent, 0)
    yield (
        "engine",
        "M",
        code,
        trace(
            f"mixed-{agent}",
            task_title="Take the readings again",
            task_type="readings",
            turns=(Turn(tokens=9, tools=(code, f"{code}-close")),),
            ended_at=now,
        ),
    )


def _code(kind: str, agent: int, number: int) -> str:
    return f"L{kind}{agent:03}Y{number}"


def _version(name: str, place: int) -> str:
    return f"S{name[place]}{name}Y{place}"


def _long(code: str) -> str:
    return " ".join(f"Reading {number} of station {code} was late." for number in range(12))


async def _asked(client: httpx.AsyncClient, agent_id: str, code: str) -> dict[str, str]:
    """Return what search and prompt say of a code, in which the question itself is not counted."""
    place, about = f"/v1/agents/{agent_id}", f"What is known of {code}?"
    answers = {
        "search": await client.post(f"{place}/search", json={"text": about, "limit": 10}),
        "prompt": await client.post(f"{place}/context", json={"text": about, "token_budget": 2_000}),
    }
    return {door: answer.raise_for_status().text.replace(about, "") for door, answer in answers.items()}


async def _get(client: httpx.AsyncClient, path: str) -> httpx.Response:
    return (await client.get(path)).raise_for_status()

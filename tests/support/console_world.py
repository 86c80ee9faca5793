"""An installation with something on every page of the console, and an empty one."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from memcore import MemoryClient, ids
from memcore.client.envelopes import build_payload, store_jobs
from memcore.clock import utc_now
from memcore.jobs import Queue, StorePayload
from memcore.ledger.access.keys import Verb
from memcore.ledger.agents import AgentSpec
from memcore.ledger.dead_letters import NewDeadLetter
from memcore.ledger.ledger import Ledger
from memcore.ledger.llm_usage import Caps, NewCall, Spent
from memcore.ledger.organization.audit import Confirmation
from memcore.ledger.work_items import WorkState
from memcore.models.distrust import DistrustRule
from memcore.models.memory import ConsolidationInterval, MemoryCategory, MemoryStoreRequest
from memcore.skills.publication import promotion
from support.lessons import lesson
from support.memories import new_agent
from support.running_stack import StackAddress, wait_until

#: A memory whose text is a page of its own, if anything lets it.
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=alert(1)> \"'& {{ 7*7 }} \u202eright to left"

#: Agents beside those with memories.
FLEET = 200

#: Makes a memory so long that a summary of several is shorter.
_LONG = "on floor two " * 12

_ENDED = {WorkState.DONE, WorkState.FAILED, WorkState.SKIPPED, WorkState.HELD}


@dataclass(frozen=True, kw_only=True)
class ConsoleWorld:
    """What tests of the console find, and change.

    Attributes:
        agent: one with memories and a run that is done.
        held: one whose run is held.
        approval_id: the proposal of a skill.
        job_id: a job that was given up.
        distrust_id: a distrust of a key that nobody has.
    """

    stack: StackAddress
    ledger: Ledger
    agent: str
    run_id: str
    held: str
    held_run_id: str
    approval_id: str
    job_id: str
    distrust_id: str

    @property
    def company(self) -> str:
        return self.stack.settings.company

    def key(self, *, name: str = "ada", agents: list[str] | None = None, verbs: tuple[Verb, ...] = tuple(Verb)) -> str:
        """Make a key, and return its token."""
        return self.ledger.api_keys.create(self.company, name=new_agent(name), verbs=verbs, agents=agents).token

    def run_of(self, agent: str, kind: str) -> str | None:
        """Return the agent's newest run of a kind that has ended."""
        runs = self.ledger.runs.list(self.company, agent_id=agent)
        return next((each.run_id for each in runs if each.kind == kind and each.state in _ENDED), None)


@contextmanager
def console_world(stack: StackAddress) -> Iterator[ConsoleWorld]:
    """Fill a running stack, and wait until what it does with it has ended."""
    ledger, company = Ledger.open(stack.settings.ledger_urls), stack.settings.company
    agent, held = new_agent("reader"), new_agent("held")
    try:
        for number in range(FLEET):
            ledger.agents.put(
                AgentSpec(
                    company=company, agent_id=f"fleet-{number:03}", interval=ConsolidationInterval.NEVER, role="clerk"
                )
            )
        ledger.agents.put(
            AgentSpec(
                company=company,
                agent_id=agent,
                interval=ConsolidationInterval.NEVER,
                retention_overrides={MemoryCategory.WORKING: 1},
            )
        )
        ledger.agents.put(
            AgentSpec(company=company, agent_id=held, interval=ConsolidationInterval.NEVER, max_memories=1)
        )
        with MemoryClient.from_settings(stack.settings) as client:
            receipt = client.import_many(_memories(agent, held))
            list(client.wait(receipt.job_ids, timeout_seconds=600))
            for each in (agent, held):
                client.maintain_now(each)
        word = Confirmation(actor="grace", confirm=True, reason="a key that nobody has")
        world = ConsoleWorld(
            stack=stack,
            ledger=ledger,
            agent=agent,
            held=held,
            run_id=_ended_run(ledger, company, agent),
            held_run_id=_ended_run(ledger, company, held),
            approval_id=_skill(ledger, company),
            job_id=dead_letter(ledger, company, agent),
            distrust_id=ledger.distrusts.add(company, DistrustRule(principal="nobody"), word).distrust_id,
        )
        _spent(ledger, company, agent, world.run_id)
        yield world
    finally:
        ledger.close()


def dead_letter(ledger: Ledger, company: str, agent: str) -> str:
    """Add a job that was given up, and return its id."""
    request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, content=f"the attic is dry {ids.new_id()}")
    item = build_payload(agent, request, company=company, sent_at=utc_now())
    (job,) = store_jobs(company, [item], queue=Queue.STORE)
    letter = NewDeadLetter(
        job_id=ids.new_id(),
        company=company,
        job=StorePayload.task,
        queue=str(Queue.STORE),
        payload=job.payload,
        reason="4 workers died while they ran it",
        attempts=4,
    )
    ledger.dead_letters.put(letter)
    return letter.job_id


def _memories(agent: str, held: str) -> list[dict[str, str]]:
    old = (utc_now() - timedelta(days=300)).isoformat()
    notes = [
        {"agent_id": agent, "category": "working", "content": f"old note {number}", "created_at": old}
        for number in range(3)
    ]
    # The same said again and again is merged into one.
    repeated = [
        {
            "agent_id": agent,
            "category": "episodic",
            "content": f"The lift stood still{'!' * number} {_LONG}",
            "created_at": old,
        }
        for number in range(5)
    ]
    facts = [
        {"agent_id": agent, "category": "semantic", "content": f"fact {number} of the house"} for number in range(9)
    ]
    hostile = [{"agent_id": agent, "category": "semantic", "content": HOSTILE}]
    many = [{"agent_id": held, "category": "semantic", "content": f"thing {number}"} for number in range(30)]
    copies = ("the lift is blue", "The lift is blue.")
    many += [{"agent_id": held, "category": "semantic", "content": text, "created_at": old} for text in copies]
    return [*notes, *repeated, *facts, *hostile, *many]


def _ended_run(ledger: Ledger, company: str, agent: str) -> str:
    def ended() -> bool:
        return any(each.state in _ENDED for each in ledger.runs.list(company, agent_id=agent))

    wait_until(ended, what=f"a run of {agent}")
    return ledger.runs.list(company, agent_id=agent)[0].run_id


def _skill(ledger: Ledger, company: str) -> str:
    proposal = promotion(
        lesson(discovery="The lift stops between floors: call the porter."),
        title="A skill for all agents",
        pattern_id=ids.new_id(),
        cycle_id="cycle",
        figures={"agents": 3, "precision": 0.9},
        supersedes=[],
    )
    approval_id = ids.new_id()
    ledger.approvals.file(company, approval_id, proposal, lasts=timedelta(days=1))
    return approval_id


def _spent(ledger: Ledger, company: str, agent: str, run_id: str) -> None:
    ledger.spending.reserve(
        NewCall(
            company=company,
            agent_id=agent,
            run_id=run_id,
            question_id=ids.new_id(),
            purpose="compress",
            model="a-model",
            most=Spent(prompt_tokens=1_200, completion_tokens=80, cost=0.02),
        ),
        caps=Caps(),
    )

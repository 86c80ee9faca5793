"""The order in which executions and lessons arrive does not change the proposals."""

import asyncio
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.ledger_records import StoppedClock, copied_urls
from support.lessons import ANSWER, lesson
from support.skill_cycles import CHAIN, DISK, Fleet, accounted
from support.thorough import examples

from memcore.ledger.ledger import Ledger
from memcore.models.execution import Turn

CONFIG: dict[str, Any] = {"min_confidence_for_org_promotion": 0.6, "min_agents_seen_pattern": 2, "min_precision": 0.2}

TEXTS = [
    lesson(),
    lesson(condition=f"{ANSWER['condition']} The disk is full."),
    lesson(action="Wait until somebody comes.", confidence=0.7),
    lesson(condition="Refund of an invoice", action="Search it, then write the refund.", confidence=0.95),
]

EXECUTIONS = st.lists(
    st.fixed_dictionaries(
        {
            "agent_id": st.sampled_from("abcd"),
            "category": st.sampled_from([None, "disk", "device"]),
            "task_title": st.sampled_from([DISK, "Refund of an invoice", "Talk"]),
            "task_type": st.sampled_from([None, "import"]),
            "turns": st.sampled_from([(), (Turn(tools=CHAIN),)]),
            "text": st.sampled_from([None, *TEXTS]),
        }
    ),
    min_size=4,
    max_size=14,
)


def outcome(folder: Path, template: Path, made: list[tuple[str, dict[str, Any]]]) -> tuple[Any, ...]:
    """What comes of these executions, told in this order: the report, and each proposal in full."""
    clock = StoppedClock()
    with closing(Ledger.open(copied_urls(template, folder), clock=clock)) as ledger:
        fleet = Fleet(ledger, clock)
        fleet.work()
        for name, each in made:
            fleet.execute(name, **each)
        report = asyncio.run(fleet.run(**CONFIG))
        assert accounted(report) == report.patterns_found
        return report, [(each.approval_id, each.proposal) for each in fleet.proposed()]


@settings(max_examples=examples(10))
@given(made=EXECUTIONS, data=st.data())
def test_the_same_executions_in_any_order_lead_to_the_same_proposals(
    ledger_template: Path, made: list[dict[str, Any]], data: st.DataObject
) -> None:
    named = [(f"t-{number}", each) for number, each in enumerate(made)]
    shuffled = data.draw(st.permutations(named))
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        assert outcome(Path(other), ledger_template, shuffled) == outcome(Path(one), ledger_template, named)


def test_the_executions_above_do_lead_to_proposals(ledger_template: Path, tmp_path: Path) -> None:
    shared: dict[str, Any] = {"category": "disk", "task_title": DISK, "task_type": "import"}
    named = [
        (f"t-{number}", {"agent_id": agent, "text": TEXTS[number % 3], **shared})
        for number, agent in enumerate("abcdabcd")
    ]
    report, filed = outcome(tmp_path, ledger_template, named)
    assert report.proposals_emitted == len(filed) == 1

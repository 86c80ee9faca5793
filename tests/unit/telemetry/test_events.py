"""The list of events is whole: what is logged stands in it, what stands in it is logged, and a test sees each."""

import ast
import logging
from collections import Counter
from collections.abc import Iterator

import pytest
from reference.docstrings import member_sentences
from support.frozen_facts import trees
from support.repository import ROOT
from support.seen_events import LoggedEvents, seen

from memcore.telemetry.events import Event

#: Methods that write a log record, and the level of each.
LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "exception": logging.ERROR,
}

#: Names of loggers, and what else writes an event that it is handed.
LOGGERS = {"log", "_log", "logger", "_logger"}

#: Events that no test sees yet; the number may only shrink.
MOST_UNSEEN = 11


def log_calls() -> Iterator[tuple[str, ast.Call]]:
    """Yield every call of a logger's method in the product, and where it is."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id in LOGGERS
                and node.func.attr in {*LEVELS, "critical", "log"}
            ):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def event_of(node: ast.expr) -> Event | None:
    """Return the event that an expression names."""
    named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Event"
    return Event[node.attr] if named and isinstance(node, ast.Attribute) else None


def test_a_log_call_names_an_event_and_has_its_level() -> None:
    wrong = []
    for place, call in log_calls():
        first = call.args[0]
        # "%s key=%s" is for processes whose logger writes no extra fields; the event is the first value.
        is_format = isinstance(first, ast.Constant) and str(first.value).startswith("%s")
        first = call.args[1] if is_format else first
        event = event_of(first)
        # A variable holds an event: mypy knows it, since no name of an event is written out anywhere else.
        if event is None and not isinstance(first, ast.Name | ast.Subscript):
            wrong.append(f"{place}: {ast.unparse(first)} is no event of memcore/telemetry/events.py")
        elif event is not None and LEVELS[getattr(call.func, "attr", "")] != event.level:
            wrong.append(f"{place}: {event} is logged at {ast.unparse(call.func)}")
    assert wrong == []


def test_every_event_is_logged_somewhere() -> None:
    used = {
        node.attr
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Event"
    }
    assert sorted(event.name for event in Event if event.name not in used) == []


def test_no_other_enumeration_holds_events() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and node.name.endswith("Event")
        and any(ast.unparse(base).endswith("Enum") for base in node.bases)
    ]
    assert found == ["memcore/telemetry/events.py: Event"]


def test_a_name_is_what_is_logged_and_each_has_one_sentence() -> None:
    sentences = member_sentences(Event)
    assert [event for event in Event if event.name != event.value.upper().replace(".", "_")] == []
    assert [event for event in Event if not sentences.get(event.name, "").endswith(".")] == []
    assert [event for event, count in Counter(event.value for event in Event).items() if count > 1] == []


def test_the_names_of_the_reference_are_there() -> None:
    names = """
    MCP_ADMIN_OP_EXECUTED MCP_HANDLER_CAPABILITY_GAP MCP_HANDLER_NOT_IMPLEMENTED MEMORY_CHECKPOINT_ROLLBACK_FAILED
    ORG_SKILL_SUPERSEDED SKILL_EVOLVER_CONFLICT_DETECTED SKILL_EVOLVER_CYCLE_COMPLETE SKILL_EVOLVER_CYCLE_FAILED
    SKILL_EVOLVER_CYCLE_START SKILL_EVOLVER_DISABLED SKILL_EVOLVER_PROPOSAL_EMITTED
    """
    assert set(names.split()) <= set(Event.__members__)


def test_each_event_is_seen_by_a_test() -> None:
    listed = seen()
    assert sorted(listed) == sorted(Event), "tests/fixtures/events_seen.json lists every event"
    assert sum(test is None for test in listed.values()) <= MOST_UNSEEN
    missing = []
    for event, test in listed.items():
        if test is not None:
            path, _, name = test.partition("::")
            function = name.partition("[")[0].rpartition("::")[2]
            if not (ROOT / path).is_file() or f"def {function}(" not in (ROOT / path).read_text(encoding="utf-8"):
                missing.append(f"{event}: {test}")
    assert missing == []


def test_a_test_that_misses_its_event_fails() -> None:
    heard = LoggedEvents({"job.dead": "a test", "job.retry": "another"})
    heard.check("a third")
    with pytest.raises(AssertionError, match=r"this test sees \['job.dead'\]"):
        heard.check("a test")
    heard.events.add(Event.JOB_DEAD)
    heard.check("a test")


def test_a_field_that_an_event_has_not_fails_the_test(caplog: pytest.LogCaptureFixture) -> None:
    heard = LoggedEvents({})
    # Behind what listens to this test.
    write = heard._heard(vars(logging.Logger.warning)["__wrapped__"])
    log = logging.getLogger("memtend.of-the-test")
    write(log, Event.ERASURE_DONE, extra={"agent_id": "ada", "found": 1})
    write(log, "%s path=%s", Event.STORE_COUNT_UNREADABLE, "a file")
    heard.check("a test")
    assert [each.getMessage() for each in caplog.records] == ["erasure.done", "store.count.unreadable path=a file"]
    write(log, Event.ERASURE_DONE, extra={"text": "hello"})
    with pytest.raises(AssertionError, match=r"erasure.done: text"):
        heard.check("a test")

"""The stub's lessons: sentences with gaps, filled with the facts that the proposer is told of an execution.

Category, kind of task and tool fill them, and no word that an agent chose: so executions of one kind give lessons
whose conditions and actions agree. What the agent was told stands in the rationale.
"""

import html
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

#: The keys by which the form of a lesson is known.
_KEYS = frozenset({"discovery", "condition", "action", "rationale", "execution_steps", "confidence"})

#: How sure it is of a failure that says what went wrong, of one that does not, and of a success with a way of working.
SURE = 0.9
UNSURE = 0.4
SURE_OF_SUCCESS = 0.85

_FACT = re.compile(r"^(\w+):\n<execution-fact>\n(.*?)\n</execution-fact>", re.DOTALL | re.MULTILINE)
_PARTS = re.compile(r"[_\W]+")
_LABEL = re.compile(r"\w[\w-]{0,63}")

#: Characters of a fact that stand in a sentence, and tools that stand in a row: no field comes near its limit.
_FACT_CHARS = 200
_TOOLS = 12


def is_lesson(schema: Mapping[str, Any]) -> bool:
    """Tell whether this is the form in which the proposer wants its answer."""
    return frozenset(schema.get("properties", ())) >= _KEYS


def lesson_of(question: str) -> dict[str, Any]:
    """Return the lesson of the execution whose facts the question shows."""
    facts = {name: html.unescape(text) for name, text in _FACT.findall(question)}
    calls = [_line(call) for call in facts.get("tool_calls_made", "none").splitlines() if call != "none"]
    return _of_failure(facts, calls) if "termination_reason" in facts else _of_success(facts, calls)


def _of_failure(facts: Mapping[str, str], calls: Sequence[str]) -> dict[str, Any]:
    category = _line(facts.get("error_category", "unknown"))
    trouble, tool = _words(category), _most_called(calls)
    kind = f"A {_words(facts['task_type'])} task" if "task_type" in facts else "A task"
    last = [f"If it fails again: {_words(facts['strategy_type'])}."] if "strategy_type" in facts else []
    message = _line(facts.get("error_message", ""))
    return {
        "discovery": f"{kind} stops with {trouble} at {tool}: end the cause before the call is repeated.",
        "condition": f"{kind} fails with {category} ({trouble}) when it calls {tool}.",
        "action": f"Do not repeat {tool} at once: find what causes {trouble} and end it, then call {tool} once more.",
        "rationale": f"It ended with {_line(facts['termination_reason'])} after {facts.get('turn_count', '0')} turns."
        + (f" What was reported: {message}" if message else ""),
        "execution_steps": [
            f"Read what {tool} reports and make sure that it is {trouble}.",
            f"Find what causes {trouble}, and end it.",
            f"Call {tool} once more.",
            *last,
        ],
        "confidence": SURE if message else UNSURE,
        "tags": _labels(category, facts.get("task_type", "")),
    }


def _of_success(facts: Mapping[str, str], calls: Sequence[str]) -> dict[str, Any]:
    tools = list(dict.fromkeys(calls))[:_TOOLS]
    if not tools:
        chain, ended, there = "tools: none", "A way of working without tools ended well.", "there are no tools"
    else:
        chain = ", then ".join(tools)
        ended, there = f"A way of working that ended well: {chain}.", f"{' and '.join(tools)} are there"
    return {
        "discovery": ended,
        "condition": f"A task is of a kind for which {there}.",
        "action": f"Call {chain}.",
        "rationale": f"A task ended well after {facts.get('turn_count', '0')} turns with these tools in this order.",
        "execution_steps": [f"Call {tool}." for tool in tools],
        "confidence": SURE_OF_SUCCESS if len(tools) > 1 else UNSURE,
        "tags": _labels(*tools),
    }


def _most_called(calls: Sequence[str]) -> str:
    """Return the tool that was called most, of several the first: what an agent repeats is what fails."""
    return Counter(calls).most_common(1)[0][0] if calls else "the failed step"


def _words(name: str) -> str:
    return " ".join(filter(None, _PARTS.split(_line(name)))).lower() or "trouble without a name"


def _labels(*names: str) -> list[str]:
    return [name for name in dict.fromkeys(names) if _LABEL.fullmatch(name)]


def _line(text: str) -> str:
    return " ".join(text.replace("\0", " ").split())[:_FACT_CHARS]

"""A fake language model for conversations: answers from a table, by the purpose of a question and the words in it."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from memcore.llm.protocol import Attribution, Completion, CompletionRequest
from support.fake_summarizer import said

#: What is answered: a JSON value, a text as it is, an error, or what a function makes of the question's content.
Answer = Any | str | Exception | Callable[[str], Any]


def fact(quote: str, obj: str, *, category: str = "place", predicate: str = "LIVES_IN") -> dict[str, str]:
    """Return a fact as a model extracts it."""
    return {
        "category": category,
        "subject": "User",
        "predicate": predicate,
        "object": obj,
        "evidence_quote": quote,
    }


def rule(quote: str, text: str, *, kind: str = "explicit") -> dict[str, str]:
    """Return a rule as a model extracts it."""
    return {"rule": text, "evidence_quote": quote, "kind": kind}


def extracted(*facts: Mapping[str, str], rules: tuple[Mapping[str, str], ...] = ()) -> dict[str, Any]:
    """Return what a model extracts from a turn."""
    return {"semantic": list(facts), "procedural": list(rules)}


def decided(*decisions: str, **more: Any) -> dict[str, Any]:
    """Return a decision for each candidate in turn."""
    return {
        "decisions": [
            {"number": number, "decision": decision, "reason": "as the table says", "confidence": "high", **more}
            for number, decision in enumerate(decisions, start=1)
        ]
    }


def _all_now(content: str) -> dict[str, Any]:
    return decided(*["commit_now"] * content.count("<candidate "))


#: The earlier and the later text of a pair.
_OF_PAIR = re.compile(r"is=\"(earlier|later)\"[^>]*>\n?(.*?)\n?</", re.DOTALL)


def replaced(content: str) -> dict[str, str]:
    """Return how a model reads a pair of which the later text says that the earlier one holds no longer."""
    texts = dict(_OF_PAIR.findall(content))
    return {"question": texts["earlier"], "then": texts["earlier"], "now": texts["later"]}


@dataclass
class TableModel:
    """See memcore.llm.protocol.Model.

    Attributes:
        extract: what turns hold, by words of theirs; other turns hold nothing.
        policy: what becomes of candidates, by words of theirs; all others are committed now.
        reconcile: how what is new stands to what is known, by words of the new; all others stand beside it.
        change: how a pair is read, by words of it; in all others the later one replaces the earlier one.
        summarize: the answer for every session.
        script: what the next questions get instead, in order; None for the usual.
        purposes: the last part of each question's purpose, in order.
        paid: the keys that were billed; a provider that knows a key sends no second bill.
    """

    extract: dict[str, Answer] = field(default_factory=dict[str, Answer])
    policy: dict[str, Answer] = field(default_factory=dict[str, Answer])
    reconcile: dict[str, Answer] = field(default_factory=dict[str, Answer])
    change: dict[str, Answer] = field(default_factory=dict[str, Answer])
    summarize: Answer = field(default_factory=lambda: {"summary": "They talked.", "topics": ["talk"]})
    script: list[Answer | None] = field(default_factory=list[Answer | None])
    purposes: list[str] = field(default_factory=list[str])
    asked: list[CompletionRequest] = field(default_factory=list[CompletionRequest])
    for_whom: list[Attribution] = field(default_factory=list[Attribution])
    paid: Counter[str] = field(default_factory=Counter[str])

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        purpose, content = by.purpose.rpartition(":")[2], request.messages[1].content
        self.purposes.append(purpose)
        self.asked.append(request)
        self.for_whom.append(by)
        # A real model takes its time, and others go on meanwhile.
        await asyncio.sleep(0)
        answer = self.script.pop(0) if self.script else None
        if answer is None:
            answer = self._usual(purpose, content)
        if callable(answer):
            answer = answer(content)
        if isinstance(answer, Exception):
            raise answer
        self.paid[key] = 1
        return said(answer if isinstance(answer, str) else json.dumps(answer))

    def _usual(self, purpose: str, content: str) -> Answer:
        match purpose:
            case "extract":
                # Behind what was said before, and what is known.
                turn = content.rpartition("<person-said ")[2]
                return _found(self.extract, turn, {"semantic": [], "procedural": []})
            case "policy":
                return _found(self.policy, content, _all_now)
            case "reconcile":
                return _found(self.reconcile, content, {"facts": [], "rules": []})
            case "change":
                return _found(self.change, content, replaced)
            case _:
                return self.summarize


def _found(table: Mapping[str, Answer], content: str, otherwise: Answer) -> Answer:
    return next((answer for words, answer in table.items() if words in content), otherwise)

"""A fake language model for lessons: answers with a lesson, fails on request, and bills each key once."""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field

from memcore.llm.protocol import Attribution, Completion, CompletionRequest
from support.fake_summarizer import said

#: The lesson that it answers by default.
LESSON = {
    "strategic_decisions": ["Look at the disk first.", "Move old exports away."],
    "applicable_contexts": ["An import fails at night."],
}


@dataclass
class FakeTeacher:
    """See memcore.llm.protocol.Model.

    Attributes:
        script: what the next questions get instead, in order: an error, a text, or None for the usual.
        always: what every question gets after that: an error, or a text.
        asked: every question, as it came.
        keys: how often each question was put.
        paid: the keys that were billed; a provider that knows a key sends no second bill.
        for_whom: the attribution of each question.
        most_at_once: how many questions waited at the same time.
    """

    script: list[Exception | str | None] = field(default_factory=list)
    always: Exception | str = json.dumps(LESSON)  # noqa: RUF009  # a text
    asked: list[CompletionRequest] = field(default_factory=list)
    keys: Counter[str] = field(default_factory=Counter)
    paid: set[str] = field(default_factory=set)
    for_whom: list[Attribution] = field(default_factory=list)
    most_at_once: int = 0
    _now: int = 0

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        self.asked.append(request)
        self.for_whom.append(by)
        self.keys[key] += 1
        answer = (self.script.pop(0) if self.script else None) or self.always
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        await asyncio.sleep(0)
        self._now -= 1
        if isinstance(answer, Exception):
            raise answer
        self.paid.add(key)
        return said(answer)

"""A fake language model for runs: repeats its input, fails on request, and bills each key once."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from memcore.llm.protocol import Attribution, Completion, CompletionRequest


@dataclass
class FakeSummarizer:
    """Answers every question with the first sentence of each memory; see memcore.llm.protocol.Model.

    Attributes:
        script: what the next questions get instead, in order: an error, a completion, or None for the usual.
        asked: every question, as it came.
        paid: how often each key was billed; a provider that knows a key sends no second bill.
        for_whom: the attribution of each question.
    """

    script: list[BaseException | Completion | None] = field(default_factory=list)
    asked: list[CompletionRequest] = field(default_factory=list)
    keys: Counter[str] = field(default_factory=Counter)
    paid: Counter[str] = field(default_factory=Counter)
    for_whom: list[Attribution] = field(default_factory=list)

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        # A real model takes its time, and others go on meanwhile.
        await asyncio.sleep(0)
        self.asked.append(request)
        self.for_whom.append(by)
        scripted = self.script.pop(0) if self.script else None
        if isinstance(scripted, BaseException):
            raise scripted
        self.keys[key] += 1
        self.paid[key] = 1
        return scripted or said(_gist(request))


@dataclass
class SlowFakeSummarizer(FakeSummarizer):
    """Waits until a test lets it answer."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        self.begun.set()
        await self.may_answer.wait()
        return await super().ask(request, by=by, key=key)


def said(text: str, *, is_cut: bool = False) -> Completion:
    """An answer."""
    return Completion(text=text, is_cut=is_cut, model="oracle", prompt_tokens=len(text), completion_tokens=len(text))


def _gist(request: CompletionRequest) -> str:
    data = request.messages[-1].content
    lines = [line for line in data.splitlines() if line and not line.startswith("<")]
    return "In short: " + "; ".join(_first_sentences(lines))


def _first_sentences(lines: Sequence[str]) -> list[str]:
    return [line.partition(": ")[2].partition(". ")[0] for line in lines]

"""A fake language model for runs: says each sentence once, fails on request, and bills each key once."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from memcore.embedding.sentences import part_sentences
from memcore.llm.protocol import Attribution, Completion, CompletionRequest


@dataclass
class FakeSummarizer:
    """Answers every question with all sentences of the memories, each once; see memcore.llm.protocol.Model.

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
    lines = [line for line in request.messages[1].content.splitlines() if line and not line.startswith("<")]
    sentences = (each for line in lines for each in part_sentences(line.partition(": ")[2]))
    return "In short: " + " ".join(dict.fromkeys(sentences))

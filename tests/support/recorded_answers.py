"""What a language model answered once, to be given again to the same questions."""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeAlias

from memcore.llm.protocol import Attribution, Completion, CompletionProvider, CompletionRequest

#: Names a question; its answer is recorded under the name.
NameOf: TypeAlias = Callable[[CompletionRequest, Attribution], str]


def by_prompt(request: CompletionRequest, _by: Attribution) -> str:
    """Name a question by its prompt: another prompt is another question."""
    asked = "\n".join(message.content for message in request.messages)
    return hashlib.sha256(asked.encode()).hexdigest()[:16]


def in_turn(about: Callable[[Attribution], str]) -> NameOf:
    """Name questions by what they are about and their number there, whatever the prompt; asked again, one keeps it."""
    names, counts = dict[str, str](), Counter[str]()

    def name_of(request: CompletionRequest, by: Attribution) -> str:
        prompt, subject = by_prompt(request, by), about(by)
        if prompt not in names:
            counts[subject] += 1
            names[prompt] = f"{subject} {counts[subject]}"
        return names[prompt]

    return name_of


class UnrecordedError(LookupError):
    """A question has no recorded answer, and there is no server to ask."""


@dataclass(kw_only=True)
class RecordedAnswers:
    """A model whose answers were recorded (memcore.llm.protocol.Model).

    Attributes:
        answers: by the name of its question each answer: its text, or the fields of a completion and its seconds.
        live: is asked what was not recorded; without it such a question is an error.
        keep: is called when an answer was added.
        given: the answers that were given, by name, in the order of the questions.
    """

    answers: dict[str, Any]
    name_of: NameOf = by_prompt
    live: CompletionProvider | None = None
    keep: Callable[[], object] = lambda: None
    given: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    @classmethod
    def read(cls, path: Path, *, name_of: NameOf = by_prompt, live: CompletionProvider | None = None) -> Self:
        """Open a file, to which new answers are added; one that is not there has none."""
        answers = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

        def keep() -> None:
            path.write_text(f"{json.dumps(answers, indent=1, ensure_ascii=False)}\n", encoding="utf-8")

        return cls(answers=answers, name_of=name_of, live=live, keep=keep)

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        """Give the recorded answer. Raises UnrecordedError, and what the live server raises."""
        name = self.name_of(request, by)
        if name not in self.answers:
            if self.live is None:
                raise UnrecordedError(f"{name}: record the answers anew: {request.messages[-1].content[-300:]}")
            began = time.perf_counter()
            completion = await self.live.complete(request, idempotency_key=key)
            seconds = round(time.perf_counter() - began, 2)
            self.answers[name] = completion.model_dump(mode="json") | {"seconds": seconds}
            self.keep()
        recorded = self.answers[name]
        answer = {"text": recorded} if isinstance(recorded, str) else recorded
        self.given[name] = answer
        fields = {"is_cut": False, "model": "recorded", "prompt_tokens": 0, "completion_tokens": 0} | answer
        return Completion.model_validate({each: fields[each] for each in fields if each != "seconds"})

"""What a real language model answered once, to be given again to the very same questions."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from memcore.llm.protocol import Attribution, Completion, CompletionRequest, Model


@dataclass
class RecordedAnswers:
    """A model whose answers stand in a file (memcore.llm.protocol.Model); another prompt is another question.

    Attributes:
        path: a JSON object; its keys are digests of questions.
        live: is asked what the file does not have, and its answers are added; without it such a question is an error.
        asked: the questions, by their digests, as they came.
    """

    path: Path
    live: Model | None = None
    asked: dict[str, CompletionRequest] = field(default_factory=dict)
    _answers: dict[str, dict[str, object]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, *, live: Model | None = None) -> Self:
        """Open a file; one that is not there has no answers."""
        answers = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return cls(path=path, live=live, _answers=answers)

    async def ask(self, request: CompletionRequest, *, by: Attribution, key: str) -> Completion:
        """Give the recorded answer. Raises LookupError where there is none, and what the live model raises."""
        asked = json.dumps([[message.role, message.content] for message in request.messages], ensure_ascii=False)
        question = hashlib.blake2b(asked.encode(), digest_size=12).hexdigest()
        self.asked[question] = request
        if question not in self._answers:
            if self.live is None:
                raise LookupError(f"{self.path.name} has no answer to this question; record them anew: {asked[-300:]}")
            answer = await self.live.ask(request, by=by, key=key)
            self._answers[question] = answer.model_dump(mode="json")
            self.path.write_text(json.dumps(self._answers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return Completion.model_validate(self._answers[question])

"""LoCoMo's conversations as memories and questions; the folder is the reader's own, and nothing of it is kept here.

Maharana et al.: Evaluating Very Long-Term Conversational Memory of LLM Agents, 2024 (CC BY-NC 4.0: evaluation only).
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memcore.evaluation.published import KINDS, Turn, evidence_of, turns_of

#: The variable that names the folder of the ``conversation_*.json`` files.
FOLDER = "MEMTEND_LOCOMO_DIR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, the names of the turns that answer it, and the answer; adversarial questions have none."""

    text: str
    evidence: frozenset[str]
    category: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One agent's memories, and what it is asked."""

    agent_id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def conversations() -> list[Conversation]:
    """Return all conversations of the folder in order; none without a folder."""
    folder = os.environ.get(FOLDER)
    paths = Path(folder).glob("conversation_*.json") if folder else ()
    return [_conversation(path) for path in sorted(paths, key=lambda path: int(path.stem.split("_")[1]))]


def _conversation(path: Path) -> Conversation:
    raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    turns = tuple(turns_of(raw))
    names = frozenset(turn.name for turn in turns)
    asked = [
        Question(
            text=each["question"],
            evidence=evidence,
            category=KINDS[each["category"]],
            answer=str(each.get("answer", "")),
        )
        for each in raw["qa"]
        if (evidence := names.intersection(evidence_of(each)))
    ]
    return Conversation(agent_id=path.stem, turns=turns, questions=tuple(asked))

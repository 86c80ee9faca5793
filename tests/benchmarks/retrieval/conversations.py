"""LoCoMo's conversations as memories and questions; the folder is the reader's own, and nothing of it is kept here.

Maharana et al.: Evaluating Very Long-Term Conversational Memory of LLM Agents, 2024 (CC BY-NC 4.0: evaluation only).
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

#: The variable that names the folder of the ``conversation_*.json`` files.
FOLDER = "MEMTEND_LOCOMO_DIR"

#: LoCoMo's kinds of questions by their number.
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}

_EVIDENCE = re.compile(r"D(\d+):(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one speaker said once.

    Attributes:
        name: the turn's name in its conversation, by which questions name their evidence.
        text: what was said, and what the picture shows that came with it.
        day: its session's day as the conversation writes it.
        at: a time on that day, later for each turn.
    """

    name: str
    speaker: str
    text: str
    day: str
    at: datetime

    @property
    def session_id(self) -> str:
        """The session in which it was said."""
        return self.name.partition(":")[0]

    @property
    def stored_text(self) -> str:
        """The text that an engine stores, with day and speaker in it."""
        return f"[{self.day}] {self.speaker}: {self.text}"


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
    turns = tuple(_turns(raw))
    names = {turn.name for turn in turns}
    asked = [
        Question(
            text=each["question"],
            evidence=evidence,
            category=CATEGORIES[each["category"]],
            answer=str(each.get("answer", "")),
        )
        for each in raw["qa"]
        if (evidence := _evidence(each.get("evidence") or ()) & names)
    ]
    return Conversation(agent_id=path.stem, turns=turns, questions=tuple(asked))


def _turns(raw: dict[str, Any]) -> Iterator[Turn]:
    number = 1
    while (date := raw.get(f"session_{number}_date_time")) is not None:
        day = date.split(" on ")[-1]
        at = datetime.strptime(day, "%d %B, %Y").replace(tzinfo=UTC)
        for place, turn in enumerate(raw.get(f"session_{number}") or ()):
            picture = f" [shares {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            yield Turn(
                name=turn["dia_id"],
                speaker=turn["speaker"],
                text=turn["text"] + picture,
                day=day,
                at=at + timedelta(seconds=place),
            )
        number += 1


def _evidence(given: object) -> frozenset[str]:
    # Some questions name several turns in one string, or write D01:2.
    return frozenset(f"D{int(session)}:{int(turn)}" for session, turn in _EVIDENCE.findall(str(given)))

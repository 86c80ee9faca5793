"""What the demo of fine-tuning works on: documents, what agents noted, and questions that a person wrote beforehand."""

from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from examples.demo.fleet import FleetMemory
from memcore.models.answers import Shown
from memcore.models.base import Frozen, NotBlankStr
from memcore.models.memory import MemoryCategory, MemoryQuery, MemoryStoreRequest

_FOLDER = Path(__file__).parent

#: The documents of the fleet: they are trained on, and are nobody's memories.
HANDBOOK = _FOLDER / "handbook"


class Note(Frozen):
    """What an agent noted, and the key by which questions name it."""

    agent_id: NotBlankStr
    key: NotBlankStr
    text: NotBlankStr

    def memory(self, at: datetime) -> FleetMemory:
        """Return it as the memory that the agent stores."""
        request = MemoryStoreRequest(category=MemoryCategory.SEMANTIC, namespace="notes", content=self.text)
        return FleetMemory(agent_id=self.agent_id, key=self.key, created_at=at, request=request)


class Question(Frozen):
    """A question to one agent's memory.

    Attributes:
        ask: in a colleague's words.
        expects: keys of the notes that answer it.
    """

    agent_id: NotBlankStr
    ask: NotBlankStr
    expects: tuple[NotBlankStr, ...]

    def query(self, limit: int) -> MemoryQuery:
        """Return the search for the nearest notes, however little they say: it is their order that is measured."""
        return MemoryQuery(text=self.ask, limit=limit, standing=Shown.ANY)


def notes() -> tuple[Note, ...]:
    """Return what the agents noted, agent by agent."""
    return tuple(
        Note(agent_id=path.stem, key=key, text=text)
        for path in sorted((_FOLDER / "notes").glob("*.yaml"))
        for key, text in _page(path).items()
    )


def questions() -> tuple[Question, ...]:
    """Return the questions; none is ever trained on."""
    page = _page(_FOLDER / "questions.yaml")
    return tuple(Question(agent_id=agent_id, **row) for agent_id, rows in page.items() for row in rows)


def _page(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))

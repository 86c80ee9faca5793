"""Public sets of conversations with questions: LoCoMo and LongMemEval, as their authors publish them.

Maharana et al.: Evaluating Very Long-Term Conversational Memory of LLM Agents, 2024. Wu et al.: LongMemEval:
Benchmarking Chat Assistants on Long-Term Interactive Memory, 2024. Nothing of either is in this package.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memcore.errors import MemoryInputError
from memcore.importers.documents import Found, opened, values

#: LoCoMo's kinds of questions by their number.
KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}

_EVIDENCE = re.compile(r"D(\d+):(\d+)")

#: A file's number, by which conversations are read in order.
_NUMBER = re.compile(r"\d+")

#: Bytes of a file that say what it is.
_BEGINNING = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What one speaker of LoCoMo said once.

    Attributes:
        name: the turn's name in its conversation, by which questions name their evidence.
        text: what was said, and what the picture shows that came with it.
        day: its session's day as the conversation writes it.
        at: a time on that day, one second after the turn before.
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


def locomo(path: Path) -> Iterator[Found]:
    """Yield turns and questions of LoCoMo: of its file, of one conversation's, or of a folder of these.

    A turn is dated by its session's day, one second after the turn before; a question without evidence is left out.
    """
    paths = sorted(path.glob("*.json"), key=_in_order) if path.is_dir() else [path]
    yield from _numbered(line for each in paths for name, raw in _documents(each) for line in _conversation(name, raw))


def _documents(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the conversations of a file, which is one or a list of them, each with a name."""
    with opened(path) as file:
        is_list = file.read(_BEGINNING).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
        file.seek(0)
        for found in values(file, lambda place: len(place) == int(is_list)):
            yield f"{path.stem}_{found.place[0]}" if found.place else path.stem, _whole(found)


def _whole(found: Found) -> Any:
    if found.problem is not None:
        raise MemoryInputError("file", found.problem.problem)
    return found.value


def _numbered(lines: Iterable[Mapping[str, Any]]) -> Iterator[Found]:
    return (Found(number=number, value=line) for number, line in enumerate(lines, start=1))


def _in_order(path: Path) -> tuple[int, str]:
    found = _NUMBER.search(path.stem)
    return int(found[0]) if found else 0, path.stem


def _conversation(name: str, raw: Any) -> Iterator[dict[str, Any]]:
    try:
        turns = [_stored(turn) for turn in turns_of(raw.get("conversation", raw))]
        questions = [*_questions(raw["qa"], {turn["id"] for turn in turns})]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise MemoryInputError("file", f"is no conversation of LoCoMo ({type(error).__name__})") from None
    yield from ({"agent_id": name, **each} for each in (*turns, *questions))


def turns_of(raw: Mapping[str, Any]) -> Iterator[Turn]:
    """Yield the turns of one conversation of LoCoMo. Raises KeyError, ValueError: it is none."""
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


def evidence_of(asked: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the turns that answer a question of LoCoMo, each once, as it names them."""
    # Some name several turns in one text, or write D01:2.
    named = _EVIDENCE.findall(str(asked.get("evidence") or ""))
    return tuple(dict.fromkeys(f"D{int(session)}:{int(turn)}" for session, turn in named))


def _stored(turn: Turn) -> dict[str, Any]:
    return {
        "id": turn.name,
        "content": turn.stored_text,
        "metadata": {"source": turn.name},
        "created_at": turn.at,
        "session_id": turn.session_id,
    }


def _questions(asked: Sequence[Mapping[str, Any]], turns: set[str]) -> Iterator[dict[str, Any]]:
    for each in asked:
        if finds := [name for name in evidence_of(each) if name in turns]:
            yield {"question": each["question"], "finds": finds, "kind": KINDS[each["category"]]}


def longmemeval(path: Path) -> Iterator[Found]:
    """Yield turns and questions of LongMemEval; each question has an agent of its own.

    The turns marked as evidence answer it, or all turns of its sessions where none is marked; one whose id ends with
    ``_abs`` has no answer.
    """
    with opened(path) as file:
        whole = (_whole(found) for found in values(file, lambda place: len(place) == 1))
        yield from _numbered(line for raw in whole for line in _asked(raw))


def _asked(raw: Any) -> list[dict[str, Any]]:
    try:
        return [*_haystack(raw)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise MemoryInputError("file", f"is no file of LongMemEval ({type(error).__name__})") from None


def _haystack(raw: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    agent_id, answering = raw["question_id"], {*raw["answer_session_ids"]}
    marked, sessions = list[str](), list[str]()
    haystack = zip(raw["haystack_session_ids"], raw["haystack_dates"], raw["haystack_sessions"], strict=True)
    for session_number, (session_id, date, turns) in enumerate(haystack):
        at = _date(date)
        for place, turn in enumerate(turns):
            if not turn["content"].strip():
                continue
            # One session may stand in the haystack twice.
            name = f"{session_number}:{session_id}:{place}"
            if session_id in answering:
                sessions.append(name)
                marked += [name] if turn.get("has_answer") else []
            yield {
                "agent_id": agent_id,
                "id": name,
                "content": f"{turn['role']}: {turn['content']}",
                "created_at": at + timedelta(seconds=place),
                "session_id": f"{session_number}:{session_id}",
            }
    is_unanswerable = agent_id.endswith("_abs")
    yield {
        "agent_id": agent_id,
        "question": raw["question"],
        "finds": [] if is_unanswerable else marked or sessions,
        "kind": raw["question_type"],
        "asked_at": _date(raw["question_date"]),
    }


def _date(text: str) -> datetime:
    # As it is written there: 2023/05/20 (Sat) 02:21.
    day, _, clock = text.partition(" (")
    return datetime.strptime(f"{day} {clock.rpartition(' ')[2]}", "%Y/%m/%d %H:%M").replace(tzinfo=UTC)

"""A lesson as the text of a memory, and back: sections under bracketed names, whatever the texts contain."""

import re
from collections.abc import Sequence

from memcore.procedural.disclosure import numbered
from memcore.procedural.lesson_text import LessonText

#: The names of the sections, in order, and the fields that they hold; the last is left out when there are no steps.
_FIELDS = {"DISCOVERY": "discovery", "CONDITION": "condition", "ACTION": "action", "RATIONALE": "rationale"}
_STEPS = "EXECUTION"

_NAME = re.compile(rf"\[({'|'.join((*_FIELDS, _STEPS))})\]")

#: A line of a text that would be taken for a section's name gets one backslash more, and loses it when it is read.
_ESCAPED = re.compile(rf"\\+{_NAME.pattern}")

_STEP = re.compile(r"\d+\. (.+)")


def written(lesson: LessonText) -> str:
    """Return the text of the memory; confidence and tags stand in its metadata."""
    sections = [(name, _escaped(getattr(lesson, field))) for name, field in _FIELDS.items()]
    if lesson.execution_steps:
        sections.append((_STEPS, numbered(lesson.execution_steps)))
    return "\n\n".join(f"[{name}]\n{text}" for name, text in sections)


def read(content: str) -> dict[str, str | tuple[str, ...]] | None:
    """Return the fields of a lesson that the text holds, unchecked; None when it is no such text."""
    sections = _split(content.split("\n"))
    if [name for name, _ in sections] not in ([*_FIELDS], [*_FIELDS, _STEPS]):
        return None
    steps: list[str] = []
    fields: dict[str, str | tuple[str, ...]] = {}
    for name, lines in sections:
        if name != _STEPS:
            fields[_FIELDS[name]] = "\n".join(line[1:] if _ESCAPED.fullmatch(line) else line for line in lines)
            continue
        found = [_STEP.fullmatch(line) for line in lines]
        if not all(found):
            return None
        steps = [step[1] for step in found if step is not None]
    return {**fields, "execution_steps": tuple(steps)}


def _escaped(text: str) -> str:
    return "\n".join(
        f"\\{line}" if _NAME.fullmatch(line) or _ESCAPED.fullmatch(line) else line for line in text.split("\n")
    )


def _split(lines: Sequence[str]) -> list[tuple[str, list[str]]]:
    sections: list[tuple[str, list[str]]] = []
    for line in lines:
        name = _NAME.fullmatch(line)
        if name is not None:
            if sections and sections[-1][1][-1:] == [""]:
                sections[-1][1].pop()
            sections.append((name[1], []))
        elif sections:
            sections[-1][1].append(line)
        else:
            return []
    return sections

"""A lesson as the SKILL.md of the Agent Skills format (agentskills.io, Specification)."""

import re
import sys

import yaml

from memcore.procedural.lesson_text import LessonText

#: Longest description, in characters (Agent Skills).
MAX_DESCRIPTION_CHARS = 1_024

#: What gives the beginning of a line a meaning in Markdown: headings, quotes, lists, rules, fences.
_BEGINNING = re.compile(r"^(?:(\d{1,9})(?=[.)])|(?=[#>+*-]|```|~~~))")

#: Where links and images get their address, and where HTML begins: what a viewer of Markdown loads or hides.
_ADDRESS = re.compile(r"\](?=[(:])")
_HTML = re.compile(r"<(?=[A-Za-z/!?])")

#: Characters that YAML and Markdown readers stumble over.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")

#: Readers put the description into a prompt, where it may look like no tag.
_ANGLES = str.maketrans("<>", "\u2039\u203a")


def skill_file(lesson: LessonText, *, name: str, source: str) -> bytes:
    """Return the file: front matter that any YAML reader reads as text, then the lesson in four sections.

    Args:
        lesson: what it says.
        name: the skill's name, which is its folder's.
        source: where the lesson comes from.
    """
    head = [
        f"name: {name}",
        f"description: {_quoted(_description(lesson))}",
        # The format knows no other fields: what is memtend's own stands under metadata, as text.
        "metadata:",
        f"  trigger: {_quoted(_line(lesson.condition))}",
        f"  confidence: {_quoted(format(lesson.confidence, 'g'))}",
        f"  tags: {_quoted(', '.join(lesson.tags))}",
        f"  source: {_quoted(_line(source))}",
    ]
    body = [
        f"# {_plain(lesson.discovery)}",
        f"## Condition\n\n{_plain(lesson.condition)}",
        f"## Action\n\n{_plain(lesson.action)}",
        f"## Rationale\n\n{_plain(lesson.rationale)}",
        f"## Execution Steps\n\n{_steps(lesson)}",
    ]
    return "\n".join(["---", *head, "---", "", "\n\n".join(body), ""]).encode("utf-8", "backslashreplace")


def _description(lesson: LessonText) -> str:
    """Return what it does and when to use it, which is what agents choose by."""
    told = f"{_line(lesson.discovery)} Use when: {_line(lesson.condition)}".translate(_ANGLES).strip()
    return told if len(told) <= MAX_DESCRIPTION_CHARS else f"{told[: MAX_DESCRIPTION_CHARS - 1]}…"


def _steps(lesson: LessonText) -> str:
    if not lesson.execution_steps:
        return "None."
    return "\n".join(f"{number}. {_plain(step)}" for number, step in enumerate(lesson.execution_steps, start=1))


def _line(text: str) -> str:
    return " ".join(_CONTROL.sub(" ", text).split())


def _plain(text: str) -> str:
    """Return one line that is no heading, list, link, image or HTML; commands in it stay as they are."""
    return _BEGINNING.sub(r"\1\\", _HTML.sub("&lt;", _ADDRESS.sub(r"]\\", _line(text))))


def _quoted(text: str) -> str:
    # Always quoted: no reader takes "no", "1e3" or "2026-03-01" for anything but text.
    return yaml.dump(text, default_style='"', allow_unicode=True, width=sys.maxsize).rstrip("\n")

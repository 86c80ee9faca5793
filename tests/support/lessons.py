"""Lessons for tests: one that reads well, and any that the bounds allow."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from hypothesis import strategies as st
from pydantic import ValidationError

from memcore.procedural.proposer import FailureAnalysisPayload, SuccessPayload
from memcore.procedural.records import LessonText

#: What a model answers that does as it is told.
ANSWER: dict[str, Any] = {
    "discovery": "A full disk stops the nightly import.",
    "condition": "The nightly import stops: no space left on device.",
    "action": "Search for old exports in the shell, move the files away, read the log, then start the import again.",
    "rationale": "The import writes its own file before it removes the old one.",
    "execution_steps": [
        "Look at the disk in the shell.",
        "Search old files, and move them away.",
        "Read the log; start the import.",
    ],
    "confidence": 0.9,
    "tags": ["import", "disk"],
}

#: What is known of an execution; the word at the end must never reach a log.
CANARY = "Zanzibar-4711"
FAILURE = FailureAnalysisPayload(
    task_id="ticket-4711",
    task_title="Find out why the import fails",
    task_description=f"The nightly import has failed three times; ask {CANARY}.",
    task_type="operations",
    error_message="no space left on device",
    strategy_type="retry",
    termination_reason="error",
    turn_count=7,
    tool_calls_made=("shell", "read_file", "shell"),
    retry_count=1,
    max_retries=3,
)
SUCCESS = SuccessPayload(task_id="ticket-4712", turn_count=4, tool_calls_made=("search", "write_file"))


def answer(**changed: Any) -> str:
    """The answer as JSON, with these keys changed or added."""
    return json.dumps({**ANSWER, **changed})


def lesson(**changed: Any) -> LessonText:
    """The lesson of that answer."""
    return LessonText.model_validate({**ANSWER, **changed})


class TombstoneRecorder(dict[str, datetime]):
    """Which memories were removed, and when (see memcore.ingest.Tombstones)."""

    def tombstoned(self, sent: Mapping[str, datetime]) -> frozenset[str]:
        return frozenset(each for each, at in sent.items() if each in self and self[each] >= at)


#: Text with everything in it that sections, YAML and Markdown give a meaning to.
_WORDS = st.sampled_from(
    ["[ACTION]", "\\[ACTION]", "[EXECUTION]", "\n", "\n\n", "---", "# ", "## Action", "1. ", "```", "![a](http://b/c)",
     "<script>", "</a>", "\\<b>", "[x]: http://y", ": ", "'", '"', "{", "%", "&a", "*a", "|", "\t", "\r", "\x85",
     "\u2028", "naïve", "日本語", "disk", "\x1c", "~~~", "- ", "* ", "> ", "=== ", "no", "null"]
)  # fmt: skip
_TEXTS = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=60),
    st.lists(_WORDS, min_size=1, max_size=12).map("".join),
)


def _valid(fields: dict[str, Any]) -> LessonText | None:
    try:
        return LessonText.model_validate(fields)
    except ValidationError:
        return None


#: Any lesson.
LESSONS: st.SearchStrategy[LessonText] = (
    st.fixed_dictionaries(
        {
            "discovery": _TEXTS,
            "condition": _TEXTS,
            "action": _TEXTS,
            "rationale": _TEXTS,
            "execution_steps": st.lists(_TEXTS, max_size=5),
            "confidence": st.floats(0.0, 1.0),
            "tags": st.lists(st.sampled_from(["disk", "c++", "日本語", "a b", "v1.2", "x"]), max_size=5),
        }
    )
    .map(_valid)
    .filter(lambda made: made is not None)  # type: ignore[assignment]  # filtered
)

"""What the stub finds in a turn of a conversation: what is noted under the demo's sessions, and a few plain forms."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

#: Sessions whose turns say what is to be found in them.
TALK = Path(__file__).parents[1] / "demo" / "talk" / "en.yaml"

#: Plain forms that the stub knows: what a sentence says, and the category and the relation of it.
_FORMS = (
    (re.compile(r"\bI live in ([\w -]+)"), "place", "LIVES_IN"),
    (re.compile(r"\bI like ([\w -]+)"), "preference", "LIKES"),
    (re.compile(r"\bI work as (?:an? )?([\w -]+)"), "work", "WORKS_AS"),
    (re.compile(r"\bI am allergic to ([\w -]+)"), "health", "IS_ALLERGIC_TO"),
)

#: What stands in a turn's note where it is not said.
_USUAL = {"subject": "User", "decision": "commit_now"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is found in a turn.

    Attributes:
        candidate: the fields of the candidate.
        is_fact: whether it is a fact, else a rule.
        decision: what a policy says of it.
        is_unsafe: whether it asks to leave out what keeps a person safe.
    """

    candidate: Mapping[str, str]
    is_fact: bool
    decision: str
    is_unsafe: bool = False


def findings(said: str) -> tuple[Finding, ...]:
    """Return what a person's words hold, the same for the same words."""
    noted: list[Finding] = []
    for each in _noted():
        if each.candidate["evidence_quote"] in said and each not in noted:
            noted.append(each)
    return tuple(noted) or tuple(_by_form(said))


def summary_of(said: str) -> tuple[str, tuple[str, ...]]:
    """Return the summary and the topics of a session whose first words these are; of another one its first words."""
    for session in _sessions():
        if session["turns"][0]["user"] in said:
            return session["summary"], tuple(session["topics"])
    words = re.findall(r"\w+", said)[:12]
    return f"They spoke of this: {' '.join(words)}.", tuple(words[:3])


def _by_form(said: str) -> Iterator[Finding]:
    for form, category, predicate in _FORMS:
        for found in form.finditer(said):
            candidate = {
                "category": category,
                "subject": "User",
                "predicate": predicate,
                "object": found[1].strip(),
                "evidence_quote": found[0].strip(),
            }
            yield Finding(candidate=candidate, is_fact=True, decision="commit_now")


@cache
def _sessions() -> tuple[dict[str, Any], ...]:
    return tuple(yaml.safe_load(TALK.read_text(encoding="utf-8"))["sessions"])


@cache
def _noted() -> tuple[Finding, ...]:
    return tuple(finding for session in _sessions() for turn in session["turns"] for finding in noted_in(turn))


def noted_in(turn: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what a turn's notes say is to be found in it."""
    for note in turn.get("facts", ()):
        given = {**_USUAL, **note}
        candidate = {key: given[key] for key in ("category", "subject", "predicate", "object")}
        candidate["evidence_quote"] = given["quote"]
        yield Finding(candidate=candidate, is_fact=True, decision=given["decision"])
    for note in turn.get("rules", ()):
        given = {**_USUAL, **note}
        candidate = {"rule": given["rule"], "evidence_quote": given["quote"], "kind": given["kind"]}
        yield Finding(
            candidate=candidate,
            is_fact=False,
            decision=given["decision"],
            is_unsafe=bool(given.get("safety_conflict")),
        )

"""What the stub says of conversations: what a turn holds, what becomes of it, what replaces what, and summaries."""

import html
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from examples.stub_llm.talk import findings, summary_of

#: By the fields of the form that is asked for, which question it is.
_KINDS = {
    frozenset({"semantic", "procedural"}): "turn",
    frozenset({"decisions"}): "policy",
    frozenset({"facts", "rules"}): "reconciliation",
    frozenset({"question", "then", "now"}): "change",
    frozenset({"summary", "topics"}): "summary",
}

#: Relations of which a person has one at a time: a new one takes the place of the old.
_SINGLE = frozenset({"IS_CALLED", "LIVES_IN", "WORKS_AS"})

_PART = re.compile(r"<([a-z][a-z-]*)((?: [a-z]+=\"[^\"]*\")*)>\n(.*?)\n</\1>", re.DOTALL)
_ATTRIBUTE = re.compile(r"([a-z]+)=\"([^\"]*)\"")
_QUOTE = re.compile(r"said as: \"(.*)\"", re.DOTALL)
_PREDICATE = re.compile(r"\[\w+\] \S.*? ([^\W\d_a-z][\w]*) ")


class _Part(NamedTuple):
    tag: str
    attributes: Mapping[str, str]
    text: str


def kind_of(schema: Mapping[str, Any]) -> str | None:
    """Return which question about a conversation a form belongs to; None for none."""
    return _KINDS.get(frozenset(schema.get("properties", ())))


def conversation_answer(kind: str, question: str) -> dict[str, Any]:
    """Return the answer to a question about a conversation."""
    parts = [*_parts(question)]
    said = "\n".join(each.text for each in parts if each.tag == "person-said")
    match kind:
        case "turn":
            found = findings(said)
            return {
                "semantic": [dict(each.candidate) for each in found if each.is_fact],
                "procedural": [dict(each.candidate) for each in found if not each.is_fact],
            }
        case "policy":
            return {"decisions": [_decision(each, said) for each in parts if each.tag == "candidate"]}
        case "reconciliation":
            return _reconciliation(parts)
        case "change":
            return _change({each.attributes.get("is", ""): each.text for each in parts})
        case _:
            summary, topics = summary_of(said)
            return {"summary": summary, "topics": list(topics)}


def _parts(question: str) -> Iterator[_Part]:
    for tag, attributes, text in _PART.findall(question):
        yield _Part(tag, dict(_ATTRIBUTE.findall(attributes)), html.unescape(text))


def _decision(part: _Part, said: str) -> dict[str, Any]:
    quote = _QUOTE.search(part.text)
    noted = [each for each in findings(said) if quote and each.candidate["evidence_quote"] == quote[1]]
    decision = noted[0].decision if noted else "drop"
    return {
        "number": int(part.attributes["number"]),
        "decision": decision,
        "reason": "it will hold for a while" if noted else "nothing is known of it",
        "confidence": "high" if decision == "commit_now" else "medium",
        "safety_conflict": bool(noted) and noted[0].is_unsafe,
    }


def _change(texts: Mapping[str, str]) -> dict[str, Any]:
    """Return how a pair is read: of relations that a person has one at a time the later one holds."""
    earlier, later = texts.get("earlier", ""), texts.get("later", "")
    then, now = (
        {each.candidate["predicate"]: each.candidate["object"] for each in findings(text) if each.is_fact}
        for text in (earlier, later)
    )
    changed = [each for each in then if each in now and each in _SINGLE]
    is_read = {"then": then[changed[0]], "now": now[changed[0]]} if changed else {"then": earlier, "now": earlier}
    return {"question": earlier, **is_read}


def _reconciliation(parts: list[_Part]) -> dict[str, Any]:
    answer: dict[str, list[dict[str, Any]]] = {"facts": [], "rules": []}
    for place, part in enumerate(parts):
        if part.tag != "new-entry":
            continue
        known = 0
        while place + known + 1 < len(parts) and parts[place + known + 1].tag == "known-entry":
            known += 1
        is_fact = part.attributes["kind"] == "fact"
        predicate = _PREDICATE.match(part.text)
        is_single = is_fact and predicate is not None and predicate[1] in _SINGLE
        rivals = [
            number
            for number, each in enumerate(parts[place + 1 : place + known + 1], start=1)
            if (other := _PREDICATE.match(each.text)) and predicate and other[1] == predicate[1]
        ]
        verdict: dict[str, Any] = {"number": int(part.attributes["number"]), "confidence": "high"}
        if is_fact:
            verdict |= {"action": "supersede" if is_single and rivals else "coexist"}
            # Among the known ones are others that are like the new one.
            verdict |= {"known": rivals if is_single else []}
        else:
            verdict |= {"action": "append", "known": []}
        answer["facts" if is_fact else "rules"].append(verdict)
    return answer

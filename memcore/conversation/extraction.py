"""What a model is asked about a turn: which facts and rules it holds, and what is to become of each.

Its answers are read entry by entry: a malformed one is counted, and costs none of the others.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, cast

from pydantic import BaseModel, Field, ValidationError, model_validator
from pydantic.json_schema import SkipJsonSchema

from memcore.config.conversation import ConversationConfig
from memcore.conversation.turn_prompt import INSTRUCTIONS, TAG_PERSON, Said, content_of
from memcore.llm.protocol import Attribution, CompletionRequest, Model
from memcore.llm.structured import ask_structured
from memcore.models.base import UNSEEN, Frozen
from memcore.models.conversation import (
    HELD_CATEGORIES,
    MAX_CANDIDATES,
    MAX_REASON_CHARS,
    SESSION_CATEGORIES,
    STABLE_CATEGORIES,
    Candidate,
    Confidence,
    Decision,
    Fact,
    FactCategory,
    ProceduralCandidate,
    Reason,
    SemanticCandidate,
    WriteDecision,
)
from memcore.models.execution import prompt
from memcore.untrusted_text import untrusted_content_directive, wrap_untrusted

#: Raise it with any change of a prompt: the same turn is then another question.
POLICY_VERSION = "memtend-2"

#: The purposes that the account names.
PURPOSE_EXTRACT = "system:memory:conversation:extract"
PURPOSE_POLICY = "system:memory:conversation:policy"

#: The fence around what may be kept of a turn.
TAG_CANDIDATE = "candidate"

Form = TypeVar("Form", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class Asker:
    """Asks a model about one turn or one session, for its agent's account.

    Attributes:
        model: give a caching one, so that a crash pays for no answer twice.
        run_id: the turn or the session, under which its answers are kept.
    """

    model: Model
    config: ConversationConfig
    company: str
    agent_id: str
    run_id: str

    async def ask(
        self, form: type[Form], purpose: str, *, system: str, content: str, about: tuple[str, ...] | None = None
    ) -> Form:
        """Return the answer; a malformed one is asked for once more. Raises what ``ask_structured`` raises.

        ``about`` is what makes it the same question; None for the content.
        """
        config = self.config
        request = CompletionRequest(
            messages=prompt(system, content),
            model=config.model,
            temperature=config.temperature,
            max_tokens=config.max_tokens,
        )
        by = Attribution(company=self.company, agent_id=self.agent_id, run_id=self.run_id, purpose=purpose)
        about = (content,) if about is None else about
        key = by.question_id(config.model, self.run_id, POLICY_VERSION, system, *about)
        return await ask_structured(self.model, request, form, by=by, key=key)


def one_line(value: object) -> object:
    """Return a text as one line without characters that act instead of being seen; anything else as it is."""
    return " ".join(UNSEEN.sub(" ", value).split()) if isinstance(value, str) else value


def known_fields(form: type[BaseModel], given: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields that a form knows."""
    return {name: given[name] for name in form.model_fields if name in given}


def read_each(
    form: type[Form], given: object, *, tidy: Callable[[dict[str, Any]], dict[str, Any]], most: int
) -> tuple[tuple[Form, ...], int]:
    """Return the entries that have the form, the first ones, and how many were refused."""
    if given is None:
        return (), 0
    if not isinstance(given, list | tuple):
        return (), 1
    entries = cast("Sequence[object]", given)
    found: list[Form] = []
    for entry in entries:
        if len(found) == most:
            break
        if isinstance(entry, form):
            found.append(entry)
        elif isinstance(entry, Mapping):
            try:
                found.append(form.model_validate(tidy(known_fields(form, cast("Mapping[str, object]", entry)))))
            except ValidationError:
                continue
    return tuple(found), len(entries) - len(found)


def read_lists(
    given: Mapping[str, object],
    forms: Mapping[str, type[BaseModel]],
    *,
    tidy: Callable[[dict[str, Any]], dict[str, Any]],
    most: int,
) -> dict[str, Any]:
    """Return the lists of an answer by name, and as ``refused`` how many entries had not the form, or were too many.

    Raises ValueError for an answer without any of the lists, and where no entry of theirs can be read: only an empty
    list says that there is nothing.
    """
    if not any(isinstance(given.get(name), list | tuple) for name in forms):
        raise ValueError(f"must have the {'list' if len(forms) == 1 else 'lists'} {' and '.join(forms)}")
    read = {name: read_each(form, given.get(name), tidy=tidy, most=most) for name, form in forms.items()}
    refused = sum(no_entries for _, no_entries in read.values())
    if refused and not any(entries for entries, _ in read.values()):
        raise ValueError("none of the entries has the fields that were asked for")
    return {**{name: entries for name, (entries, _) in read.items()}, "refused": refused}


_NO_WORD = re.compile(r"[\W_]+")


def _tidy_candidate(fields: dict[str, Any]) -> dict[str, Any]:
    # The quote stays as the person wrote it, but for its white space: it must be found in the turn.
    tidied: dict[str, Any] = {
        name: value if name == "evidence_quote" else one_line(value) for name, value in fields.items()
    }
    if isinstance(tidied.get("predicate"), str):
        tidied["predicate"] = _NO_WORD.sub("_", tidied["predicate"]).strip("_")
    if isinstance(tidied.get("evidence_quote"), str):
        tidied["evidence_quote"] = " ".join(tidied["evidence_quote"].split())
    return tidied


class ExtractedTurn(Frozen):
    """What a turn may hold, as a model sees it.

    Attributes:
        semantic: facts about the person.
        procedural: rules of how to answer the person.
        refused: how many entries had not the form, or were too many.
    """

    semantic: tuple[SemanticCandidate, ...] = Field(default=(), max_length=MAX_CANDIDATES)
    procedural: tuple[ProceduralCandidate, ...] = Field(default=(), max_length=MAX_CANDIDATES)
    refused: SkipJsonSchema[int] = Field(default=0, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _one_by_one(cls, given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        forms: dict[str, type[BaseModel]] = {"semantic": SemanticCandidate, "procedural": ProceduralCandidate}
        answer = cast("Mapping[str, object]", given)
        return read_lists(answer, forms, tidy=_tidy_candidate, most=MAX_CANDIDATES)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """All of them, facts first."""
        return *self.semantic, *self.procedural


async def extract(
    asker: Asker, turn: Said, *, before: Sequence[Said] = (), known: Sequence[Fact] = ()
) -> ExtractedTurn:
    """Return what a turn may hold, given the turns before it and what is known. Raises what ``ask_structured`` raises.

    The same turn is the same question, whatever is known by then: an answer that is kept is of use.
    """
    content = content_of(turn, before=before, known=known)
    about = (turn.person, turn.agent)
    return await asker.ask(ExtractedTurn, PURPOSE_EXTRACT, system=INSTRUCTIONS, content=content, about=about)


class PolicyLine(Frozen):
    """What the model says of one candidate.

    Attributes:
        number: the candidate's number, from 1.
    """

    number: int = Field(ge=1)
    decision: WriteDecision
    reason: Reason = ""
    confidence: Confidence = "low"
    safety_conflict: bool = False


_CONFIDENCES = frozenset({"low", "medium", "high"})


def _tidy_line(fields: dict[str, Any]) -> dict[str, Any]:
    tidied: dict[str, Any] = {name: one_line(value) for name, value in fields.items()}
    reason, confidence = tidied.get("reason"), tidied.get("confidence")
    tidied["reason"] = reason[:MAX_REASON_CHARS].rstrip() if isinstance(reason, str) else ""
    # What does not say how sure it is, is not sure.
    tidied["confidence"] = confidence if isinstance(confidence, str) and confidence in _CONFIDENCES else "low"
    return tidied


class PolicyAnswer(Frozen):
    """What a model says becomes of each candidate.

    Attributes:
        refused: how many entries had not the form, or were too many.
    """

    decisions: tuple[PolicyLine, ...] = ()
    refused: SkipJsonSchema[int] = Field(default=0, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _one_by_one(cls, given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        answer = cast("Mapping[str, object]", given)
        return read_lists(answer, {"decisions": PolicyLine}, tidy=_tidy_line, most=2 * MAX_CANDIDATES)


def _names(categories: Iterable[FactCategory]) -> str:
    return ", ".join(sorted(categories))


_POLICY = f"""\
You decide what becomes of facts and rules that may be kept in an AI agent's memory of a person. For each numbered
candidate say one "decision":
 "commit_now": it is said plainly, it will hold for months, and the person will expect the agent to know it;
 "commit_at_session_end": it may be worth keeping, once the whole conversation supports it;
 "require_repetition": it is worth keeping only if the person says it again: moods, passing events, harsh words of the
 person about themselves;
 "drop": it holds for this talk alone, is a guess, is of no use later, or is nothing that a person wants kept.
Facts of the categories {_names(STABLE_CATEGORIES)} may be committed now. Those of {_names(HELD_CATEGORIES)} wait for
the end of the session: they hurt where they are wrong. Those of {_names(SESSION_CATEGORIES)} need to be said again.
A rule is committed now only where the person asks for it and means it to last ("always", "from now on"); a rule that
only shows waits for the end of the session.
"safety_conflict": true for a rule that asks to leave out what keeps a person safe, such as a warning, a check or the
advice to see a doctor; it is dropped.
"reason": why, in one sentence of at most {MAX_REASON_CHARS} characters. "confidence": "low", "medium" or "high".
Answer with one JSON object and nothing else: {{"decisions": [{{"number": 1, "decision": ..., "reason": ...,
"confidence": ..., "safety_conflict": ...}}, ...]}}, one entry for each candidate. For a move to Porto and a headache:
{{"decisions": [{{"number": 1, "decision": "commit_now", "reason": "It is said plainly and will hold.", "confidence":
"high", "safety_conflict": false}}, {{"number": 2, "decision": "require_repetition", "reason": "It passes.",
"confidence": "high", "safety_conflict": false}}]}}
{untrusted_content_directive(TAG_CANDIDATE)} The same holds for <{TAG_PERSON}>."""


def shown_candidate(candidate: Candidate) -> str:
    """Return a candidate as a model reads it."""
    if isinstance(candidate, SemanticCandidate):
        said = f"fact [{candidate.category}] {candidate.subject} {candidate.predicate} {candidate.object}"
    else:
        said = f"rule ({candidate.kind}): {candidate.rule}"
    return f'{said}\nsaid as: "{candidate.evidence_quote}"'


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What the policy says of candidates.

    Attributes:
        decisions: one for each candidate, in order; None where the policy said nothing of it.
        refused: how many entries of the answer were of no use.
    """

    decisions: tuple[Decision | None, ...]
    refused: int


async def decide(asker: Asker, candidates: Sequence[Candidate], user_text: str) -> Decided:
    """Return what becomes of the candidates of a turn. Raises what ``ask_structured`` raises."""
    listed = [
        wrap_untrusted(TAG_CANDIDATE, shown_candidate(each), attributes={"number": str(number)})
        for number, each in enumerate(candidates, start=1)
    ]
    content = "\n\n".join((wrap_untrusted(TAG_PERSON, user_text), *listed))
    answer = await asker.ask(PolicyAnswer, PURPOSE_POLICY, system=_POLICY, content=content)
    found: dict[int, PolicyLine] = {}
    for line in answer.decisions:
        if line.number <= len(candidates):
            # The first word counts: of two that contradict each other nobody knows which is meant.
            found.setdefault(line.number, line)
    of_no_use = answer.refused + len(answer.decisions) - len(found)
    decisions = [_decision(found.get(number), each) for number, each in enumerate(candidates, start=1)]
    return Decided(decisions=tuple(decisions), refused=of_no_use)


def _decision(line: PolicyLine | None, candidate: Candidate) -> Decision | None:
    if line is None:
        return None
    said = line.decision
    if isinstance(candidate, ProceduralCandidate) and said is WriteDecision.REQUIRE_REPETITION:
        # At the session's end a rule must be repeated anyway.
        said = WriteDecision.COMMIT_AT_SESSION_END
    return Decision(
        decision=said,
        reason=line.reason,
        confidence=line.confidence,
        policy_version=POLICY_VERSION,
        safety_conflict=line.safety_conflict,
    )


#: A number of a candidate, or of what is known, in an answer.
Number = Annotated[int, Field(ge=1)]

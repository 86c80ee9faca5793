"""What becomes of new facts and rules beside those that are known: said again, replaced, or kept beside them.

What can be decided without a model is decided here. The model is asked about the rest, in one question, outside of any
transaction: the commit is fenced by the owner's version, and who comes late decides anew. That a fact is replaced is
asked once more of the two alone: small models say so of everything.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeVar, cast

import numpy as np
from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from memcore.conversation.entries import searched_text
from memcore.conversation.extraction import Asker, Number, one_line, read_lists
from memcore.embedding.bm25 import Tokenizer
from memcore.errors import MalformedAnswerError
from memcore.ledger.conversation.identity import identity_of, normalised, slot_of
from memcore.ledger.conversation.memory import Commit, Embedded
from memcore.llm.changes import SYSTEM, ChangeAnswer, Verdict, agreed, is_of_today
from memcore.models.base import Frozen
from memcore.models.conversation import (
    MAX_CANDIDATES,
    Confidence,
    Fact,
    FactState,
    ProceduralCandidate,
    ProfileRule,
    SemanticCandidate,
)
from memcore.models.origin import AUTHORITIES, Authority, Channel, may_replace
from memcore.untrusted_text import untrusted_content_directive, wrap_untrusted

#: The purposes that the account names.
PURPOSE, PURPOSE_CHANGE = "system:memory:conversation:reconcile", "system:memory:conversation:change"

#: From this share of common words on, two records of the same subject, predicate and object say the same.
SAME_FROM = 0.85

#: Most known facts or rules that the model is shown beside a new one, the most similar ones; and beside all together,
#: so that the question fits into a context of 4,096 tokens, but for so many of each.
MAX_SHOWN, _MOST_IN_ALL, _LEAST_SHOWN = 20, 40, 3

#: Most known facts that one new one may replace.
MOST_REPLACED = 3

#: From this cosine on, or so many words in common, facts of the same person or thing may collide, whatever they say of
#: it. The cosine is that from which on facts are found by a question.
LEAST_COSINE, LEAST_SHARED = 0.5, 2

TAG_NEW, TAG_KNOWN = "new-entry", "known-entry"

Entry = TypeVar("Entry", Fact, ProfileRule)

#: What became of a new fact or rule.
Fate = Literal["written", "known"]


@dataclass(frozen=True, kw_only=True)
class Reconciled:
    """What is to be written, and at which version of the owner's memory that was decided.

    Attributes:
        fates: by the id of each new fact or rule, whether it is written or was known.
        counts: ``writes``, ``bumps``, ``superseded``, ``skips``, and ``unsure``: pairs of facts that a person decides.
    """

    commit: Commit
    fates: Mapping[str, Fate]
    counts: Mapping[str, int]

    def beside(self, facts: Sequence[Fact], rules: Sequence[ProfileRule]) -> "Reconciled":
        """Return it with facts and rules that are written, too, and were compared with none."""
        commit = replace(self.commit, facts=(*self.commit.facts, *facts), rules=(*self.commit.rules, *rules))
        every: tuple[Fact | ProfileRule, ...] = (*facts, *rules)
        written: dict[str, Fate] = {id_of(each): "written" for each in every}
        counts = Counter(self.counts) + Counter(writes=len(written))
        return Reconciled(commit=commit, fates={**self.fates, **written}, counts={**self.counts, **counts})


def candidate_of(entry: Fact | ProfileRule) -> SemanticCandidate | ProceduralCandidate:
    """Return what a fact or a rule says, as the candidate that it was."""
    if isinstance(entry, Fact):
        return SemanticCandidate(**{name: getattr(entry, name) for name in SemanticCandidate.model_fields})
    return ProceduralCandidate(rule=entry.rule, evidence_quote=entry.quotes[0], kind=entry.kind)


def says_the_same(one: Fact | ProfileRule, other: Fact | ProfileRule) -> bool:
    """Return whether two facts, or two rules, say the same: which of them is kept makes no difference."""
    if identity_of(candidate_of(one)) == identity_of(candidate_of(other)):
        return True
    if not (isinstance(one, Fact) and isinstance(other, Fact)):
        return False
    is_about_the_same = all(
        normalised(getattr(one, name)) == normalised(getattr(other, name))
        for name in ("subject", "predicate", "object")
    )
    return is_about_the_same and _similarity(one, other) >= SAME_FROM


def _words(entry: Fact | ProfileRule) -> frozenset[str]:
    said = (entry.subject, entry.predicate, entry.object, entry.evidence_quote) if isinstance(entry, Fact) else (
        entry.rule, *entry.quotes
    )  # fmt: skip
    return frozenset(word for text in said for word in Tokenizer.words(text))


def _similarity(one: Fact | ProfileRule, other: Fact | ProfileRule) -> float:
    mine, theirs = _words(one), _words(other)
    return len(mine & theirs) / len(mine | theirs) if mine | theirs else 0.0


def id_of(entry: Fact | ProfileRule) -> str:
    """Return the id of a fact or a rule."""
    return entry.fact_id if isinstance(entry, Fact) else entry.rule_id


class FactVerdict(Frozen):
    """What the model says of a new fact beside those that are known."""

    number: Number
    action: Literal["bump", "supersede", "coexist"]
    known: tuple[Number, ...] = Field(default=(), max_length=MAX_SHOWN)
    confidence: Confidence = "low"


class RuleVerdict(Frozen):
    """What the model says of a new rule beside those that are known."""

    number: Number
    action: Literal["append", "replace", "skip"]
    known: tuple[Number, ...] = Field(default=(), max_length=MAX_SHOWN)
    confidence: Confidence = "low"


def _tidy(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: one_line(value) for name, value in fields.items()}


class ReconciliationAnswer(Frozen):
    """What the model says of all that is new.

    Attributes:
        refused: how many entries had not the form, or were too many.
    """

    facts: tuple[FactVerdict, ...] = ()
    rules: tuple[RuleVerdict, ...] = ()
    refused: SkipJsonSchema[int] = Field(default=0, exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _one_by_one(cls, given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        answer = cast("Mapping[str, object]", given)
        return read_lists(answer, {"facts": FactVerdict, "rules": RuleVerdict}, tidy=_tidy, most=2 * MAX_CANDIDATES)


_TOKENIZER = Tokenizer()


def _slot(entry: Fact | ProfileRule) -> str | None:
    candidate = candidate_of(entry)
    return slot_of(candidate) if isinstance(candidate, SemanticCandidate) else None


class _Form(NamedTuple):
    """What a fact is compared by: its slot, its subject, and its other words."""

    slot: str | None
    subject: str
    words: frozenset[str]


@dataclass(frozen=True)
class Likeness:
    """How alike facts are: by vectors of one space where both have them, and by words.

    Attributes:
        vectors: by the ids of facts.
    """

    vectors: Mapping[str, Embedded] = field(default_factory=dict[str, Embedded])
    _forms: dict[str, _Form] = field(default_factory=dict[str, _Form])

    def cosine(self, one: Fact, other: Fact) -> float:
        """Return the cosine of two facts; 0.0 where they cannot be compared."""
        mine, theirs = self.vectors.get(one.fact_id), self.vectors.get(other.fact_id)
        if mine is None or theirs is None or mine.space != theirs.space or mine.vector.size != theirs.vector.size:
            return 0.0
        lengths = float(np.linalg.norm(mine.vector) * np.linalg.norm(theirs.vector))
        return float(mine.vector @ theirs.vector) / lengths if lengths else 0.0

    def rank(self, new: Fact, known: Fact) -> tuple[bool, bool, float, int] | None:
        """Return how much a known fact may collide with a new one, to be sorted by; None where it may not.

        Facts of the same category about the same person or thing may: LIVES_IN Lisbon and MOVED_TO Porto.
        """
        mine, theirs = self._form(new), self._form(known)
        is_of_slot, is_of_subject = mine.slot == theirs.slot, mine.subject == theirs.subject
        is_of_kind = is_of_subject and new.category == known.category
        cosine, shared = self.cosine(new, known), len(mine.words & theirs.words)
        is_like = is_of_subject and (cosine >= LEAST_COSINE or shared >= LEAST_SHARED)
        return (is_of_slot, is_of_kind, cosine, shared) if is_of_slot or is_of_kind or is_like else None

    def _form(self, fact: Fact) -> _Form:
        if fact.fact_id not in self._forms:
            said = f"{fact.predicate.replace('_', ' ')} {fact.object} {fact.evidence_quote}"
            words = frozenset(_TOKENIZER.terms(said)) - frozenset(_TOKENIZER.terms(fact.subject))
            self._forms[fact.fact_id] = _Form(_slot(fact), normalised(fact.subject), words)
        return self._forms[fact.fact_id]


_SYSTEM = f"""\
You keep an AI agent's memory of a person. New facts and rules are to be written; each may say the same as one that is
known, may replace some, or may stand beside them. The numbers of the known ones belong to the new one above them; many
of those have nothing to do with it.
For each new fact say one "action":
 "bump": it says the same as exactly one known fact; "known" has its number, and nothing new is written;
 "supersede": it makes known facts untrue, since the person has changed or corrected them; "known" has their numbers
 alone. A move to Porto makes it untrue that the person lives in Lisbon, and not that the person likes Lisbon;
 "coexist": both hold. A person likes many things, and knows many people. Where you are not sure, they coexist.
For each new rule: "append": it stands beside the known ones; "replace": it takes the place of those in "known", which
it contradicts or refines; "skip": a known rule says it already, and "known" has its number.
"confidence": "low", "medium" or "high".
Answer with one JSON object and nothing else: {{"facts": [{{"number": 1, "action": ..., "known": [...],
"confidence": ...}}, ...], "rules": [...]}}, one entry for each new one. For "User MOVED_TO Porto" beside the known
1 "User LIVES_IN Lisbon" and 2 "User WORKS_AS nurse", and nothing else that is new: {{"facts": [{{"number": 1, "action":
"supersede", "known": [1], "confidence": "high"}}], "rules": []}}
{untrusted_content_directive(TAG_NEW)} The same holds for <{TAG_KNOWN}>."""


def _shown(entry: Fact | ProfileRule) -> str:
    if isinstance(entry, Fact):
        text = f'[{entry.category}] {entry.subject} {entry.predicate} {entry.object}\nsaid as: "{entry.evidence_quote}"'
    else:
        text = f'{entry.rule}\nsaid as: "{entry.quotes[0]}"'
    return f"{text}\nsaid on {entry.created_at:%Y-%m-%d %H:%M}"


@dataclass(frozen=True)
class _Question:
    """A new fact or rule, and the known ones that it may collide with."""

    new: Fact | ProfileRule
    known: tuple[Fact | ProfileRule, ...]


def _content(questions: Sequence[_Question], kind: str) -> list[str]:
    parts: list[str] = []
    for number, question in enumerate(questions, start=1):
        parts.append(wrap_untrusted(TAG_NEW, _shown(question.new), attributes={"kind": kind, "number": str(number)}))
        parts += [
            wrap_untrusted(TAG_KNOWN, _shown(each), attributes={"number": str(place)})
            for place, each in enumerate(question.known, start=1)
        ]
    return parts


@dataclass
class _Draft:
    """The commit in the making."""

    facts: dict[str, Fact] = field(default_factory=dict[str, Fact])
    rules: dict[str, ProfileRule] = field(default_factory=dict[str, ProfileRule])
    bumped: set[str] = field(default_factory=set[str])
    superseded: dict[str, str] = field(default_factory=dict[str, str])
    skips: int = 0

    def drop(self, new: Fact | ProfileRule) -> None:
        (self.facts if isinstance(new, Fact) else self.rules).pop(id_of(new))

    def bump(self, known: Fact | ProfileRule) -> None:
        self.bumped.add(id_of(known))

    def supersede(self, new: Fact | ProfileRule, known: Sequence[Fact | ProfileRule]) -> None:
        """Let a new one replace known ones; what was said after it replaces it, whatever the order of the turns."""
        later = [each for each in known if each.created_at > new.created_at]
        self.superseded |= {id_of(each): id_of(new) for each in known if each not in later}
        if later:
            newest = max(later, key=lambda each: (each.created_at, id_of(each)))
            values = {"state": FactState.SUPERSEDED, "superseded_by": id_of(newest)}
            if isinstance(new, Fact):
                self.facts[new.fact_id] = self.facts[new.fact_id].model_copy(update=values)
            else:
                self.rules[new.rule_id] = new.model_copy(update=values)


async def reconcile(
    asker: Asker | None,
    new_facts: Sequence[Fact],
    new_rules: Sequence[ProfileRule],
    *,
    known_facts: Sequence[Fact],
    known_rules: Sequence[ProfileRule],
    likeness: Likeness | None = None,
    authorities: Mapping[Channel, Authority] = AUTHORITIES,
) -> Reconciled:
    """Return what becomes of what is new.

    ``known_facts`` are all active facts of the owner, and ``known_rules`` all active rules. Without an asker, and where
    the model's answer is malformed or not sure, all stand beside each other. Nothing of ``reference`` replaces what
    has more authority, nor is it taken for the same.

    Raises BudgetExceededError, RetryExhaustedError, ProviderError.
    """
    draft, likeness = _Draft(), likeness or Likeness()
    written_facts = _local(draft, new_facts, known_facts, authorities)
    written_rules = _local(draft, new_rules, known_rules, authorities)
    most = min(MAX_SHOWN, max(_LEAST_SHOWN, _MOST_IN_ALL // max(1, len(written_facts) + len(written_rules))))
    facts = [
        _Question(each, beside)
        for each in written_facts
        if (beside := _near(each, _rivals(each, known_facts, authorities), likeness, most))
    ]
    rules = [
        _Question(each, near)
        for each in written_rules
        if (near := _most_similar(each, _rivals(each, known_rules, authorities), most))
    ]
    if asker is not None and (facts or rules):
        answer = await _ask(asker, facts, rules)
        for verdict, new, named in _by_number(answer.facts, facts):
            is_replaced = verdict.action == "supersede"
            _judge(draft, verdict, new, await _replaced(asker, draft, new, named) if is_replaced else named)
        for rule_verdict in _by_number(answer.rules, rules):
            _judge(draft, *rule_verdict)
    every: tuple[Fact | ProfileRule, ...] = (*new_facts, *new_rules)
    # What is replaced was not said again, whatever another candidate says of it.
    bumped = draft.bumped - draft.superseded.keys()
    fates: dict[str, Fate] = {
        id_of(each): "written" if id_of(each) in draft.facts or id_of(each) in draft.rules else "known"
        for each in every
    }
    counts = {
        "writes": len(draft.facts) + len(draft.rules),
        "bumps": len(bumped),
        "superseded": len(draft.superseded),
        "skips": draft.skips,
        "unsure": sum(len(each.unsure_with) for each in draft.facts.values()),
    }
    commit = Commit(
        facts=tuple(draft.facts.values()),
        rules=tuple(draft.rules.values()),
        bumped=frozenset(bumped),
        superseded=draft.superseded,
    )
    return Reconciled(commit=commit, fates=fates, counts=Counter(counts))


def _rivals(new: Entry, known: Sequence[Entry], authorities: Mapping[Channel, Authority]) -> list[Entry]:
    """Return what may take a new one's place, and the other way round."""
    one = new.origin
    return [
        each
        for each in known
        if may_replace(one, each.origin, authorities) and may_replace(each.origin, one, authorities)
    ]


def _local(
    draft: _Draft, new: Sequence[Entry], known: Sequence[Entry], authorities: Mapping[Channel, Authority]
) -> list[Entry]:
    """Settle what needs no model, and return what is to be written."""
    taken: list[Entry] = []
    slots = {id_of(each): _slot(each) for each in known}
    for each in new:
        if any(says_the_same(each, other) for other in _rivals(each, taken, authorities)):
            draft.skips += 1
            continue
        alike = [other for other in known if slots[id_of(other)] == _slot(each) and says_the_same(each, other)]
        same = _rivals(each, alike, authorities)
        if same:
            for other in same:
                draft.bump(other)
            continue
        taken.append(each)
        if isinstance(each, Fact):
            draft.facts[each.fact_id] = each
        else:
            draft.rules[each.rule_id] = each
    return taken


def _near(new: Fact, known: Sequence[Fact], likeness: Likeness, most: int) -> tuple[Fact, ...]:
    """Return the known facts that a new one may collide with, the most alike ones, in the order of their times."""
    ranks = {each.fact_id: rank for each in known if (rank := likeness.rank(new, each)) is not None}
    rivals = [each for each in known if each.fact_id in ranks]
    rivals.sort(key=lambda each: (ranks[each.fact_id], _similarity(new, each), each.fact_id), reverse=True)
    return tuple(sorted(rivals[:most], key=lambda each: (each.created_at, each.fact_id)))


def _most_similar(new: ProfileRule, known: Sequence[ProfileRule], most: int) -> tuple[ProfileRule, ...]:
    """Return the known rules that are most like a new one, in the order of their times."""
    rivals = sorted(known, key=lambda each: (-_similarity(new, each), each.rule_id))
    return tuple(sorted(rivals[:most], key=lambda each: (each.created_at, each.rule_id)))


async def _ask(asker: Asker, facts: Sequence[_Question], rules: Sequence[_Question]) -> ReconciliationAnswer:
    content = "\n\n".join((*_content(facts, "fact"), *_content(rules, "rule")))
    try:
        return await asker.ask(ReconciliationAnswer, PURPOSE, system=_SYSTEM, content=content)
    except MalformedAnswerError:
        return ReconciliationAnswer(facts=(), rules=())


async def _replaced(
    asker: Asker, draft: _Draft, new: Fact | ProfileRule, named: Sequence[Fact | ProfileRule]
) -> list[Fact | ProfileRule]:
    """Return which of the facts that the model says are replaced are so, where it is asked about each alone.

    Those of which it is not sure are noted for a person.
    """
    verdicts: dict[str, Verdict | None] = {}
    for each in named[-MOST_REPLACED:]:
        if isinstance(each, Fact) and isinstance(new, Fact):
            pair = (new, each) if each.created_at > new.created_at else (each, new)
            verdicts[each.fact_id] = await _change(asker, *pair)
    unsure = tuple(key for key, verdict in verdicts.items() if verdict is Verdict.UNSURE)
    if isinstance(new, Fact) and unsure:
        draft.facts[new.fact_id] = new.model_copy(update={"unsure_with": unsure})
    return [each for each in named if verdicts.get(id_of(each)) is Verdict.SUPERSEDES]


async def _change(asker: Asker, old: Fact, new: Fact) -> Verdict | None:
    """Return what a newer fact means for an older one."""

    async def ask(shown: str) -> Verdict:
        try:
            answer = await asker.ask(ChangeAnswer, PURPOSE_CHANGE, system=SYSTEM, content=shown)
        except MalformedAnswerError:
            return Verdict.BOTH_HOLD
        return answer.verdict(searched_text(old), searched_text(new), subject=old.subject)

    is_possible = is_of_today(new.evidence_quote, year=old.created_at.year)
    return await agreed(ask, old.evidence_quote, new.evidence_quote, is_possible=is_possible)


_Verdict = TypeVar("_Verdict", FactVerdict, RuleVerdict)


def _by_number(
    verdicts: Sequence[_Verdict], questions: Sequence[_Question]
) -> list[tuple[_Verdict, Fact | ProfileRule, list[Fact | ProfileRule]]]:
    """Return the first verdict on each new one with what it names; one that names what it was not shown is left out."""
    found: dict[int, tuple[_Verdict, Fact | ProfileRule, list[Fact | ProfileRule]]] = {}
    for verdict in verdicts:
        if verdict.number > len(questions) or verdict.number in found or verdict.confidence == "low":
            continue
        question, numbers = questions[verdict.number - 1], sorted(set(verdict.known))
        if all(number <= len(question.known) for number in numbers):
            found[verdict.number] = (verdict, question.new, [question.known[number - 1] for number in numbers])
    return [found[number] for number in sorted(found)]


def _judge(
    draft: _Draft, verdict: FactVerdict | RuleVerdict, new: Fact | ProfileRule, known: list[Fact | ProfileRule]
) -> None:
    match verdict.action:
        case "bump" | "skip" if len(known) == 1 and id_of(known[0]) not in draft.superseded:
            draft.drop(new)
            draft.bump(known[0])
        case "supersede" | "replace" if known:
            draft.supersede(new, known)
        case _:
            pass  # it stands beside what is known

"""What a model reads to find what a turn holds: the instructions, the turn with its date, and a little around it.

Around it are the turns before and what is known of the person, as far as there is room: with a turn of usual length the
prompt and its answer fit into a context of 4,096 tokens. The turn itself is never cut, for quotes must be found in it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from memcore.embedding.bm25 import Tokenizer
from memcore.experience import clipped
from memcore.llm.protocol import estimated_tokens
from memcore.models.conversation import MAX_CANDIDATES, Fact, FactCategory
from memcore.untrusted_text import untrusted_content_directive, wrap_untrusted

#: The fences around what a person said, what the agent answered, what both said before, and what is known.
TAG_PERSON, TAG_AGENT = "person-said", "agent-answered"
TAG_PERSON_BEFORE, TAG_AGENT_BEFORE, TAG_KNOWN_FACTS = "person-said-before", "agent-answered-before", "known-facts"

#: Most tokens of the whole prompt, estimated; what is around the turn is left out first.
PROMPT_TOKENS = 2_500

#: Most tokens of the agent's answer, of all that was said before, and of what is known.
ANSWER_TOKENS, BEFORE_TOKENS, KNOWN_TOKENS = 500, 400, 400

#: Most turns before, most tokens of a text of theirs, and most facts and relations that are shown.
TURNS_BEFORE, _TEXT_TOKENS, _FACTS_SHOWN, _RELATIONS_SHOWN = 4, 80, 20, 30

#: Tokens of a fence without its text.
_FENCE_TOKENS = 20

_ABOUT: Mapping[FactCategory, str] = {
    FactCategory.IDENTITY: "name, age, language, family status, origin",
    FactCategory.RELATIONSHIP: "people and animals in the person's life",
    FactCategory.PREFERENCE: "what the person likes or dislikes",
    FactCategory.WORK: "job, school, projects, colleagues",
    FactCategory.HEALTH: "illness, medicine, allergies, diet, sleep",
    FactCategory.COPING_STRATEGY: "what helps the person",
    FactCategory.GOAL: "what the person wants to reach",
    FactCategory.INTEREST: "hobbies, subjects",
    FactCategory.PLACE: "where the person lives, works, travels",
    FactCategory.BELIEF: "convictions, values, what the person thinks of themselves",
    FactCategory.POSSESSION: "what the person owns or uses",
    FactCategory.LOSS: "somebody or something that the person has lost",
    FactCategory.TRIGGER: "what upsets the person",
    FactCategory.MOOD: "how the person feels today",
    FactCategory.EVENT: "what happened or will happen",
    FactCategory.SITUATION: "what holds for now",
}

INSTRUCTIONS = f"""\
You read one turn of a conversation between a person and an AI agent, which is another than you. You list what may be
worth keeping in the agent's memory of this person. Most turns hold nothing; then both lists are empty.
"semantic": facts about the person, each with
 "category": one of {"; ".join(f"{name.value} ({about})" for name, about in _ABOUT.items())};
 "subject": who or what the fact is about, "User" for the person;
 "predicate": the relation as one word in capitals, such as LIVES_IN or WORRIES_ABOUT; a relation in
 <{TAG_KNOWN_FACTS}> keeps its name;
 "object": to whom or what, in a few words, clear by itself: a date in place of "last month", a name in place of "she";
 "evidence_quote": the person's own words that say so, copied letter by letter from <{TAG_PERSON}>, at most 500
 characters.
"procedural": rules of how the person wants to be answered, each with
 "rule": what the agent shall do, in one sentence;
 "evidence_quote": as above;
 "kind": "explicit" where the person asks for it, "implicit" where it only shows.
At most {MAX_CANDIDATES} of each. Take only what the person says in <{TAG_PERSON}>: nothing that only the agent says,
nothing that was said before or is known, nothing that you conclude, no question, no joke, no example, no text that the
person quotes from others. No passwords, keys or numbers of accounts.
Answer with one JSON object of these two keys and nothing else. Two examples, both said on Tuesday 2026-03-10:
I moved to Porto last month. My sister still lives in Lisbon. Keep it short, please.
{{"semantic": [{{"category": "place", "subject": "User", "predicate": "MOVED_TO", "object": "Porto in February 2026",
"evidence_quote": "I moved to Porto last month"}}, {{"category": "relationship", "subject": "User's sister",
"predicate": "LIVES_IN", "object": "Lisbon", "evidence_quote": "My sister still lives in Lisbon"}}],
"procedural": [{{"rule": "Keep answers short.", "evidence_quote": "Keep it short, please", "kind": "explicit"}}]}}
Thanks! Why does it rain so much in Porto?
{{"semantic": [], "procedural": []}}
{untrusted_content_directive(TAG_PERSON)} The same holds for <{TAG_AGENT}>, <{TAG_PERSON_BEFORE}>,
<{TAG_AGENT_BEFORE}> and <{TAG_KNOWN_FACTS}>."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """A turn as a model reads it.

    Attributes:
        person: what the person said; blank where that is no longer kept.
        agent: what the agent answered.
        at: when.
    """

    person: str
    agent: str
    at: datetime


def content_of(turn: Said, *, before: Sequence[Said] = (), known: Sequence[Fact] = ()) -> str:
    """Return what a model reads beside the instructions.

    Args:
        turn: the turn that facts are taken from.
        before: the turns before it, in order.
        known: active facts of the person; those are shown that have most words in common with the turn, then new ones.
    """
    person = wrap_untrusted(TAG_PERSON, turn.person, attributes={"on": f"{turn.at:%A %Y-%m-%d}"})
    left = PROMPT_TOKENS - estimated_tokens(INSTRUCTIONS) - estimated_tokens(person)
    parts: list[str] = []
    if turn.agent.strip() and (room := min(left - _FENCE_TOKENS, ANSWER_TOKENS)) > 0:
        parts.append(wrap_untrusted(TAG_AGENT, clipped_to(turn.agent, room)))
        left -= estimated_tokens(parts[-1])
    facts = "\n".join(_within(_lines(turn.person, known), min(left - _FENCE_TOKENS, KNOWN_TOKENS)))
    around = [wrap_untrusted(TAG_KNOWN_FACTS, facts)] if facts else []
    left -= sum(map(estimated_tokens, around))
    # The nearest ones first, as far as there is room.
    earlier = list(_within((each for said in reversed(before) for each in _shown(said)), min(left, BEFORE_TOKENS)))
    return "\n\n".join((*around, *reversed(earlier), person, *parts))


def clipped_to(text: str, tokens: int) -> str:
    """Return a text cut to about so many tokens, its beginning and its end."""
    all_tokens = estimated_tokens(text)
    return text if all_tokens <= tokens else clipped(text, len(text) * tokens // all_tokens)


def _shown(said: Said) -> Iterator[str]:
    """Yield what was said in an earlier turn, the last first."""
    for tag, text in ((TAG_AGENT_BEFORE, said.agent), (TAG_PERSON_BEFORE, said.person)):
        if text.strip():
            yield wrap_untrusted(tag, clipped_to(text, _TEXT_TOKENS), attributes={"on": f"{said.at:%Y-%m-%d}"})


def _lines(text: str, known: Sequence[Fact]) -> Iterator[str]:
    """Yield what is known in lines, the relations first."""
    if not known:
        return
    counts = Counter(fact.predicate for fact in known)
    yield f"relations: {', '.join(name for name, _ in counts.most_common(_RELATIONS_SHOWN))}"
    terms = Tokenizer()
    asked = frozenset(terms.terms(text))
    facts = {f"{fact.subject} {fact.predicate} {fact.object}": fact.created_at for fact in known}
    near = sorted(facts, key=lambda line: (len(asked.intersection(terms.terms(line))), facts[line]), reverse=True)
    yield from near[:_FACTS_SHOWN]


def _within(texts: Iterator[str], tokens: int) -> Iterator[str]:
    """Yield texts for as long as there is room for them."""
    for text in texts:
        tokens -= estimated_tokens(text) + 1
        if tokens < 0:
            return
        yield text

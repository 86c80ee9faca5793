"""Origins of what is kept of conversations: the person's own words, what the agent said, and what is made of both."""

from collections.abc import Mapping

import pytest
from support.conversation_fixture import OWNER, ConversationFixture
from support.ledger_records import COMPANY
from support.table_model import decided, extracted, fact, rule

from memcore.client.envelopes import build_turn_payload
from memcore.config.conversation import ConversationConfig
from memcore.conversation.entries import TurnContext
from memcore.conversation.loading import TurnLoader
from memcore.errors import MemoryChannelError
from memcore.ledger.organization.audit import Confirmation
from memcore.models.conversation import Arc, FactState
from memcore.models.distrust import DistrustRule
from memcore.models.origin import (
    AUTHORITIES,
    ENGINE,
    SPOKEN,
    Authority,
    Channel,
    Origin,
    Writer,
    showing_least,
    writing_as,
)
from memcore.untrusted_text import TAG_REFERENCE

KEY = Writer(principal="k", limit=Channel.AGENT)
OF_KEY = Origin(principals=("k",))
APART = {**AUTHORITIES, Channel.AGENT: Authority.REFERENCE}
HOME, AWAY = fact("I live in Berlin", "Berlin"), fact("I live in Rome", "Rome")
ASK = "Which of Berlin and Rome do I live in?"


def turned(talk: ConversationFixture, text: str, writer: Writer = ENGINE) -> str:
    """Record a turn that comes through a door, and return its id."""
    with writing_as(writer):
        made = build_turn_payload(
            "ada",
            company=COMPANY,
            now=talk.clock(),
            session_id="s-1",
            user_id="mia",
            user_text=text,
            assistant_text="It has rivers.",
        )
    return talk.said(text, reply=made.assistant_text, origin=made.origin)


async def drawn(talk: ConversationFixture, text: str, writer: Writer = ENGINE) -> None:
    turn_id = turned(talk, text, writer)
    await talk.extraction(authorities=APART).run(turn_id)


async def loaded(talk: ConversationFixture, authorities: Mapping[Channel, Authority] = AUTHORITIES) -> TurnContext:
    loader = TurnLoader(
        talk.ledger, company=COMPANY, config=ConversationConfig(), clock=talk.clock, authorities=authorities
    )
    return await loader.load_turn(OWNER, ASK, is_first_turn=True, open_backend=None)


@pytest.mark.parametrize(("writer", "origin"), [(ENGINE, SPOKEN), (KEY, OF_KEY)])
async def test_a_persons_words_are_a_persons_and_at_most_what_the_key_may_claim(
    talk: ConversationFixture, writer: Writer, origin: Origin
) -> None:
    talk.table.extract["Berlin"] = extracted(HOME, rules=(rule("always be brief", "Be brief."),))
    await drawn(talk, "I live in Berlin. Please always be brief.", writer)
    kept = [*talk.facts().values(), *talk.rules().values()]
    assert [each.origin for each in kept] == [origin, origin]


@pytest.mark.parametrize("limit", [Channel.TOOL, Channel.DOCUMENT, Channel.PEER, Channel.IMPORT])
def test_who_may_claim_less_than_an_agent_says_nothing_for_a_person(talk: ConversationFixture, limit: Channel) -> None:
    with pytest.raises(MemoryChannelError):
        turned(talk, "I live in Berlin", Writer(principal="k", limit=limit))


async def test_what_a_session_promotes_has_the_channels_of_all_that_said_it(talk: ConversationFixture) -> None:
    talk.table.extract["Berlin"] = extracted(HOME)
    talk.table.policy["Berlin"] = decided("commit_at_session_end")
    await drawn(talk, "I live in Berlin")
    await drawn(talk, "As I said, I live in Berlin", KEY)
    await talk.end()
    assert talk.facts()["Berlin"].origin == Origin(channels=(Channel.PERSON, Channel.AGENT), principals=("k",))


async def test_the_summary_of_a_session_is_also_the_agents(talk: ConversationFixture) -> None:
    for number in range(3):
        await drawn(talk, f"Berlin has {number} rivers, and this is a long talk about all of its rivers. " * 4)
    await talk.end()
    (arc,) = (each.entry for each in talk.ledger.conversation.arcs(COMPANY, OWNER))
    assert isinstance(arc, Arc)
    assert arc.origin == Origin(channels=(Channel.PERSON, Channel.AGENT))


async def test_nothing_of_reference_replaces_what_a_person_said_or_is_taken_for_it(talk: ConversationFixture) -> None:
    talk.table.extract |= {"Third": extracted(HOME), "Second": extracted(AWAY), "First": extracted(HOME)}
    talk.table.reconcile["new"] = {"facts": [{"number": 1, "action": "supersede", "known": [1], "confidence": "high"}]}
    await drawn(talk, "First: I live in Berlin")
    await drawn(talk, "Second: I live in Rome", KEY)
    await drawn(talk, "Third: I live in Berlin", KEY)
    every = talk.ledger.conversation.facts(COMPANY, OWNER, states=tuple(FactState))
    assert [each.state for each in every if each.origin == SPOKEN] == [FactState.ACTIVE]
    assert sorted((each.object, each.origin == SPOKEN) for each in every) == [
        ("Berlin", False),
        ("Berlin", True),
        ("Rome", False),
    ]


async def test_a_prompt_shows_them_as_it_shows_memories(talk: ConversationFixture) -> None:
    talk.table.extract |= {"Second": extracted(HOME), "First": extracted(AWAY)}
    await drawn(talk, "First: I live in Rome", KEY)
    await drawn(talk, "Second: I live in Berlin")
    before, _opening, inside = (await loaded(talk, APART)).text().partition(TAG_REFERENCE)
    assert ("Berlin" in before, "Rome" in before) == (True, False)
    assert ("Rome" in inside, 'via="agent"' in inside) == (True, True)
    assert TAG_REFERENCE not in (await loaded(talk)).text()

    with showing_least(Authority.INSTRUCT):
        assert [each.object for each in (await loaded(talk)).facts] == ["Berlin"]
    hidden = {**AUTHORITIES, Channel.AGENT: Authority.QUARANTINED}
    assert [each.object for each in (await loaded(talk, hidden)).facts] == ["Berlin"]


ANN, EVE = (Writer(principal=name, limit=Channel.PERSON, usual=Channel.PERSON) for name in ("ann", "eve"))
WORD = Confirmation(actor="grace", confirm=True, reason="her key was stolen")


async def test_what_is_said_again_is_not_taken_for_what_is_distrusted(talk: ConversationFixture) -> None:
    brief = rule("always be brief", "Be brief.")
    talk.table.extract |= {"First": extracted(HOME, rules=(brief,)), "Second": extracted(HOME, rules=(brief,))}
    await drawn(talk, "First: I live in Berlin. Please always be brief.", EVE)
    talk.ledger.distrusts.add(COMPANY, DistrustRule(principal="eve"), WORD)
    assert (await loaded(talk)).facts == ()
    await drawn(talk, "Second: I live in Berlin. Please always be brief.", ANN)
    shown = await loaded(talk)
    assert [each.origin.principals for each in (*shown.facts, *shown.rules) if each.origin] == [("ann",), ("ann",)]


async def test_what_is_distrusted_takes_the_place_of_nothing(talk: ConversationFixture) -> None:
    talk.table.extract |= {"First": extracted(HOME), "Second": extracted(AWAY)}
    talk.table.reconcile["new"] = {"facts": [{"number": 1, "action": "supersede", "known": [1], "confidence": "high"}]}
    await drawn(talk, "First: I live in Berlin", ANN)
    distrust = talk.ledger.distrusts.add(COMPANY, DistrustRule(principal="eve"), WORD)
    await drawn(talk, "Second: I live in Rome", EVE)
    assert [each.object for each in (await loaded(talk)).facts] == ["Berlin"]
    # It was written beside it.
    talk.ledger.distrusts.lift(COMPANY, distrust.distrust_id, WORD)
    assert sorted(each.object for each in (await loaded(talk)).facts) == ["Berlin", "Rome"]

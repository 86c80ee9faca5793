"""What the store's searches and prompts show: nothing without evidence, the newer first, and what stands beside."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from support.hashing_embedder import HashingEmbedder
from support.memories import DAWN, NOW, StoppedClock, new_agent, record

from memcore.backends.mem0.backend import Mem0Backend
from memcore.backends.mem0.config import Mem0Config
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.embedding.bm25 import Bm25Encoder
from memcore.models.answers import MemoryScores, Shown, Standing
from memcore.models.memory import MemoryQuery, MemoryStoreRequest, day_of
from memcore.records import SEQUENCE_KEY, Lineage
from memcore.retrieval.context import ContextInjectionStrategy

NONSENSE = "quantum chromodynamics lattice"

DAY = timedelta(days=1)


@pytest.fixture
async def backend(place: Mem0Config, clock: StoppedClock) -> AsyncIterator[Mem0Backend]:
    made = Mem0Backend(place, company="c", embedder=HashingEmbedder(), encoder=Bm25Encoder(), clock=clock)
    await made.connect()
    yield made
    await made.disconnect()


async def search(backend: Mem0Backend, agent: str, text: str, **more: object) -> list[str]:
    query = MemoryQuery.model_validate({"text": text, **more})
    return [entry.content for entry in await backend.retrieve(agent, query)]


async def prompt(backend: Mem0Backend, agent: str, text: str, config: MemoryRetrievalConfig | None = None) -> str:
    strategy = ContextInjectionStrategy(backend=backend, config=config or MemoryRetrievalConfig(), clock=lambda: NOW)
    messages = await strategy.prepare_messages(agent, text, 500)
    return messages[-1].content if messages else ""


async def test_nonsense_finds_nothing(backend: Mem0Backend) -> None:
    agent = new_agent()
    await backend.store_many([record(agent, "The payment queue pages at 500 messages.")])
    assert await search(backend, agent, NONSENSE) == []
    assert await search(backend, new_agent(), NONSENSE, explain=True) == []
    assert await prompt(backend, agent, NONSENSE) == ""
    # What is asked for by name is the nearest, whatever it says.
    assert len(await search(backend, agent, NONSENSE, min_evidence=0.0)) == 1
    anything = MemoryRetrievalConfig(min_evidence=0.0, min_relevance=0.0)
    assert "payment queue" in await prompt(backend, agent, NONSENSE, anything)


@pytest.mark.parametrize(
    ("question", "memory", "other"),
    [
        ("Самара", "Сестра живёт в Самаре.", "Сестра живёт далеко."),
        ("sandalye", "Bahçede mavi sandalyeler duruyor.", "Bahçede mavi çiçekler var."),
        ("Where is /srv/Kiln?", "The logs lie in /srv/Kiln there.", "The logs lie in /srv/kiln there."),
        ("Who tends fetchRow?", "Mia tends fetchRow.", "Ben tends FetchRow."),
    ],
    ids=["russian", "turkish", "path", "name"],
)
async def test_a_word_is_found_with_another_ending_and_first_in_its_exact_form(
    backend: Mem0Backend, question: str, memory: str, other: str
) -> None:
    agent = new_agent()
    await backend.store_many([record(agent, memory, created_at=DAWN), record(agent, other, created_at=DAWN + DAY)])
    assert (await search(backend, agent, question))[0] == memory


async def test_a_misspelled_word_is_read_as_memories_spell_it(backend: Mem0Backend) -> None:
    agent = new_agent()
    texts = ["The croissants rest an hour.", *(f"The oven has {number} trays." for number in range(60))]
    await backend.store_many([record(agent, text) for text in texts])
    (found,) = await backend.retrieve(agent, MemoryQuery(text="How long do crossiants rest?", explain=True))
    assert (found.content, found.standing) == (texts[0], Standing.STRONG)
    assert found.why is not None
    assert found.why.read_as == "How long do croissants rest?"
    (plain,) = await backend.retrieve(agent, MemoryQuery(text="How long do croissants rest?", explain=True))
    assert plain.why is not None
    assert plain.why.read_as is None
    assert texts[0] in await search(backend, agent, "crossiants")
    assert await prompt(backend, agent, "crossiants?") == await prompt(backend, agent, "croissants?") != ""


async def test_another_name_is_another_person(backend: Mem0Backend) -> None:
    agent = new_agent()
    await backend.store_many([record(agent, "Martina lives in Oslo.")])
    assert await search(backend, agent, "Where does Marinta live?", standing=Shown.STRONG) == []


async def test_scores_are_said_and_may_be_asked_for(backend: Mem0Backend) -> None:
    agent = new_agent()
    await backend.store_many([record(agent, "The payment queue pages."), record(agent, "The queue at the bakery.")])
    (best, other) = await backend.retrieve(agent, MemoryQuery(text="payment queue", standing=Shown.ANY))
    assert best.scores is not None
    assert other.scores is not None
    assert best.scores.final == 1.0
    assert 0.0 < (other.scores.keyword or 0.0) < (best.scores.keyword or 0.0) < 1.0
    least = MemoryScores(keyword=best.scores.keyword)
    assert await search(backend, agent, "payment queue", min_scores=least) == [best.content]
    assert await search(backend, agent, "payment queue", min_relevance=1.0) == [best.content]


async def test_the_newer_of_two_values_comes_first_in_searches_and_last_in_prompts(backend: Mem0Backend) -> None:
    agent = new_agent()
    old, new = "The phone number of Ada is 555 01.", "The phone number of Ada is 555 99 these days, she says."
    await backend.store_many([record(agent, old, created_at=DAWN), record(agent, new, created_at=DAWN + DAY)])
    question = "What is the phone number of Ada?"
    assert await search(backend, agent, question) == [new, old]
    shown = await prompt(backend, agent, question)
    assert shown.index(old) < shown.index(new)
    assert 'latest="2 of 2"' in shown


async def test_a_day_is_that_of_the_asker(backend: Mem0Backend, clock: StoppedClock) -> None:
    agent = new_agent()
    midnight = clock().replace(hour=0, minute=0, second=0, microsecond=0)
    late, early = "The kettle broke.", "The kettle was mended."
    await backend.store_many(
        [
            record(agent, late, created_at=midnight - timedelta(minutes=30)),
            record(agent, early, created_at=midnight - DAY - timedelta(minutes=30)),
        ]
    )
    question = "What was with the kettle yesterday?"
    assert (await search(backend, agent, question))[0] == late
    # An hour east of Greenwich the first was this morning.
    assert (await search(backend, agent, question, time_zone="Etc/GMT-1"))[0] == early


async def test_the_words_of_an_asked_time_are_no_keywords(backend: Mem0Backend, clock: StoppedClock) -> None:
    agent = new_agent()
    there, worded = "Ada lost a glove.", "Days ago is no date, says Ben, and yesterday is a song."
    await backend.store_many(
        [
            record(agent, there, created_at=clock() - 2 * DAY),
            record(agent, worded, created_at=clock() - 40 * DAY),
        ]
    )
    found = await backend.retrieve(agent, MemoryQuery(text="What happened two days ago?", standing=Shown.ANY))
    assert found[0].content == there
    assert [each.scores.keyword for each in found if each.scores is not None] == [None] * len(found)


async def test_what_answers_is_shown_before_what_is_only_recent(backend: Mem0Backend, clock: StoppedClock) -> None:
    agent, asked = new_agent(), "Which workshop on grafting did Ada visit recently?"
    before, again = "Ada visited a workshop on grafting.", "Ada visited one more workshop on grafting."
    lately = ["Ada lost a glove on the ferry.", "Ada painted the boat.", "Ben visited Ada."]
    await backend.store_many(
        [
            record(agent, before, created_at=clock() - 90 * DAY),
            *(record(agent, each, created_at=clock() - days * DAY) for days, each in enumerate(lately, start=1)),
        ]
    )
    assert await search(backend, agent, asked) == [before]
    await backend.store_many([record(agent, again, created_at=clock() - DAY)])
    assert (await search(backend, agent, asked))[0] == again


async def test_where_nothing_is_of_an_asked_time_its_words_count(backend: Mem0Backend, clock: StoppedClock) -> None:
    agent = new_agent()
    worded, shorter, of_then = "Ben sang Yesterday at the fair in the rain.", "Cleo sang.", "Ada sang a carol."
    asked = "Who sang yesterday?"
    await backend.store_many([record(agent, each, created_at=clock() - 40 * DAY) for each in (worded, shorter)])
    assert (await search(backend, agent, asked))[0] == worded
    await backend.store_many([record(agent, of_then, created_at=clock() - DAY)])
    assert (await search(backend, agent, asked))[0] == of_then


async def test_an_answer_is_found_by_the_question_before_it(backend: Mem0Backend) -> None:
    asked, answer, other = "Where does the yacht lie?", "My yacht is in Riga.", "The yacht race is on TV."
    for place in (1, None):
        agent = new_agent()
        said = [(asked, 0), (answer, place), (other, 7)]
        await backend.store_many(
            [
                record(
                    agent,
                    text,
                    created_at=DAWN + minute * timedelta(minutes=1),
                    lineage=Lineage(session_id="s"),
                    extra=None if sequence is None else {SEQUENCE_KEY: sequence},
                )
                for minute, (text, sequence) in enumerate(said)
            ]
        )
        found = await search(backend, agent, "where does the yacht lie", standing="any")
        assert found[0] == asked
        # Without its place the answer is one of two that say as much, and the older.
        assert (found.index(answer) < found.index(other)) is (place is not None)


async def test_a_prompt_says_what_was_replaced_and_by_what_and_what_holds_comes_last(backend: Mem0Backend) -> None:
    agent = new_agent()
    times = {"category": "semantic", "valid_from": NOW - 9 * DAY, "valid_until": NOW + 9 * DAY}
    old = await backend.store(agent, MemoryStoreRequest.model_validate({**times, "content": "Ada lives in Oslo"}))
    request = {"category": "semantic", "content": "Bergen it is now", "supersedes": (old,)}
    new = await backend.store(agent, MemoryStoreRequest.model_validate(request))
    shown = await prompt(backend, agent, "where does Ada live in Oslo?")
    assert shown.index("Ada lives") < shown.index("Bergen")
    (opening,) = [line for line in shown.splitlines() if "superseded" in line]
    day = day_of(NOW)
    assert f'superseded="{day} by {new[:8]}"' in opening
    assert f'from="{day_of(NOW - 9 * DAY)}" until="{day_of(NOW + 9 * DAY)}"' in opening


async def test_a_question_of_a_time_finds_what_is_of_it(backend: Mem0Backend) -> None:
    agent, found = new_agent(), "The kettle was mended."
    others = [f"Note {number} about the garden." for number in range(60)]
    await backend.store_many(
        [
            *(record(agent, text, created_at=NOW - 90 * DAY) for text in others),
            record(agent, found, created_at=NOW - 3 * DAY),
        ]
    )
    question = "What happened three days ago?"
    # A list of candidates is shorter than what there is of other times.
    first, *more = await search(backend, agent, question)
    assert first == found
    assert set(more) < set(others)
    assert found in (await prompt(backend, agent, question)).split("</memory-entry>")[0]


@pytest.mark.parametrize(
    "question",
    [
        "What happened three days ago?",
        "What came up three days ago?",
        "Was ist vor drei Tagen passiert?",
        "Wat gebeurde er drie dagen geleden?",
        "Que s'est-il passé il y a trois jours ?",
        "¿Qué pasó hace tres días?",
        "Cosa è successo tre giorni fa?",
        "O que aconteceu há três dias?",
    ],
)
async def test_what_happened_asks_for_whatever_was_then(backend: Mem0Backend, question: str) -> None:
    agent = new_agent()
    await backend.store_many([record(agent, "The kettle was mended.", created_at=NOW - 3 * DAY)])
    (found,) = await backend.retrieve(agent, MemoryQuery(text=question, explain=True))
    assert found.why is not None
    assert (found.standing, found.why.evidence) == (Standing.STRONG, 1.0)


async def test_of_two_that_answer_alike_the_one_of_the_asked_time_comes_first(backend: Mem0Backend) -> None:
    agent = new_agent()
    texts = ["Ada painted the boat red.", "Ada painted the boat blue and dark."]
    days = [NOW - 60 * DAY, NOW - 3 * DAY]
    await backend.store_many([record(agent, text, created_at=day) for text, day in zip(texts, days, strict=True)])
    for when, first in (("60 days ago", texts[0]), ("three days ago", texts[1])):
        question = f"Which colour did Ada paint the boat {when}?"
        assert (await search(backend, agent, question))[0] == first
        assert first in (await prompt(backend, agent, question)).split("</memory-entry>")[0]


async def test_a_time_is_evidence_of_what_is_of_it_alone(backend: Mem0Backend) -> None:
    strong = MemoryRetrievalConfig(standing=Shown.STRONG)
    agent, found = new_agent(), "The kettle was mended."
    await backend.store_many([record(agent, found, created_at=NOW - 3 * DAY)])
    for question, shown in (
        ("three days ago", [found]),
        ("3日前に", [found]),
        ("four months ago", []),
        ("Which boat has Ilja bought from Ada three days ago?", []),
    ):
        assert await search(backend, agent, question, standing="strong") == shown
        assert (found in await prompt(backend, agent, question, strong)) is bool(shown)


async def test_a_time_does_not_hide_a_better_answer_of_another(backend: Mem0Backend) -> None:
    agent, answer = new_agent(), "Ada sold the yacht to Ben in Riga."
    await backend.store_many(
        [record(agent, answer, created_at=NOW - 90 * DAY), record(agent, "Tea was made.", created_at=NOW - 3 * DAY)]
    )
    assert (await search(backend, agent, "Did Ada sell the yacht to Ben three days ago?"))[0] == answer


async def test_what_is_shown_earns_its_place_whatever_the_limit(backend: Mem0Backend) -> None:
    agent, answer = new_agent(), "The payment queue pages Dora at 500 messages."
    others = [f"Note {number} about the garden." for number in range(30)]
    await backend.store_many([record(agent, text) for text in (answer, *others)])
    question = "When does the payment queue page Dora?"
    for limit in (1, 5, 20, 100, 1_000):
        query = MemoryQuery(text=question, limit=limit)
        found = await backend.retrieve(agent, query)
        assert [(each.content, each.standing) for each in found] == [(answer, Standing.STRONG)]
        every = await backend.retrieve(agent, query.model_copy(update={"standing": Shown.ANY}))
        assert len(every) == min(limit, 31)
        assert [each.standing for each in every] == [Standing.STRONG, *[Standing.ABSENT] * (len(every) - 1)]


async def test_what_nothing_answers_shows_at_most_three_and_marks_them(backend: Mem0Backend) -> None:
    agent = new_agent()
    await backend.store_many([record(agent, f"Garden note {number} on the roses.") for number in range(30)])
    question = "Which roses did Queen Margaret of Denmark plant in Copenhagen in 1971?"
    found = await backend.retrieve(agent, MemoryQuery(text=question))
    assert [each.standing for each in found] == [Standing.WEAK] * 3
    assert (await prompt(backend, agent, question)).count('standing="weak"') == 3
    strong = MemoryRetrievalConfig(standing=Shown.STRONG)
    assert await prompt(backend, agent, question, strong) == ""
    assert await search(backend, agent, question, standing="strong") == []


async def test_why_agrees_with_what_was_shown(backend: Mem0Backend) -> None:
    agent, answer = new_agent(), "The payment queue pages Dora at 500 messages."
    others = [f"Note {number} about the garden." for number in range(30)]
    await backend.store_many([record(agent, text) for text in (answer, *others)])
    question = "When does the payment queue page Dora?"
    query = MemoryQuery(text=question, standing=Shown.ANY, limit=100, explain=True)
    shown = await search(backend, agent, question)
    every = await backend.retrieve(agent, query)
    assert all(each.why is None for each in await backend.retrieve(agent, MemoryQuery(text=question)))
    assert sorted(each.why.place for each in every if each.why) == [*range(1, 32)]
    for each in every:
        assert each.why is not None
        is_strong = each.why.share >= each.why.needed and each.why.evidence >= each.why.needed_evidence
        assert is_strong is (each.content in shown)
    first = every[0].why
    assert first is not None
    assert (first.words, first.share) == (("payment", "queue", "page", "dora"), 1.0)

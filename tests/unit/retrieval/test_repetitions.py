"""Repetitions: which memories another one says again, and which only look so."""

import random
import string
from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.maintenance_fixture import START, memory, uid

from memcore.embedding.bm25 import fold
from memcore.records import Lineage, MemoryRecord
from memcore.retrieval.repetitions import Repetition, Repetitions, repeats

#: Words of facts, none of which is an article, a particle or a word that turns a statement.
WORDS = """
    dashboard owned team kitchen server invoice peanuts manages friday_board train garden paints deploys
    release coffee prefers morning office opens bicycle stored cellar customer portal payment queue reads
    window printer
""".split()  # noqa: SIM905  # a list of one word a line would be unreadable
sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=20).map(" ".join)

NAMES = ("Alice", "Bob", "Mia", "Tom", "Ines")
TURNING = ("not", "never", "no", "without", "except", "unless", "only", "until", "used", "formerly", "maybe", "if")
TURNING_ELSEWHERE = ("nicht", "kein", "ohne", "wenn", "pas", "jamais", "sans", "si", "nunca", "sin", "nur", "sauf")

FORMS = (
    "The {} dashboard is owned by team {}",
    "{} takes the early train to {} for work",
    "Customer {} gets invoices for {} as PDF by mail",
    "When the {} build breaks, ask {} first",
    "The password of the {} router in {} was changed by hand",
)


def found(records: Sequence[MemoryRecord]) -> dict[str, set[str]]:
    repetitions = Repetitions()
    repetitions.add(records)
    return {group.kept: set(group.repeated) for group in repetitions.groups()}


def memories(*texts: str) -> list[MemoryRecord]:
    """Memories, the last one newest."""
    return [memory(n, content=text, days_old=1000 - n) for n, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("text", "earlier"),
    [
        ("The staging database is wiped every Sunday.", "the staging  database is wiped\nevery Sunday"),
        ("REMINDER: MIA LIKES TEA!", "Mia likes tea"),
        ("Note that the office closes at five.", "The office closes at five."),
        ("Mia likes green tea (again)", "mia likes green tea"),
        ("The red team owns the dashboard of the kitchen", "Red team owns dashboard of kitchen"),
        ("Paul and Ines share one small car on Thursdays", "Paul and Ines share one car on Thursdays"),
        ("Erinnerung: Der Hund beißt den Mann", "der hund beisst den mann"),
        ("生产数据库每周日清空。", "生产数据库每周日清空"),
        ('{"port": 8080,\n  "host": "a"}', '{"port":8080,"host":"a"}'),
        ("He has a few friends in the office", "he has a few friends in the office!"),
        ("Mia has the NASA poster (A3) in the office - again", "Mia has the nasa poster (a3) in the office"),
        ("MIA'S BIKE HAS 5 GEARS", "Mia\N{RIGHT SINGLE QUOTATION MARK}s bike has 5 gears"),
        ("Mia prefers e-mail to phone calls", "Mia prefers email to phone calls"),
        ("The Web site of the office asks for a sign-up", "the website of the office asks for a signup"),
        ("The shut-down of the kitchen printer is on-line", "The shutdown of the kitchen printer is online"),
        ("👍", " 👍 "),
    ],
)
def test_what_says_the_same_or_a_little_more_repeats(text: str, earlier: str) -> None:
    assert repeats(text, earlier)


@pytest.mark.parametrize(
    ("text", "earlier"),
    [
        ("Bob manages Alice", "Alice manages Bob"),
        ("The dashboard is owned by team Blue", "The dashboard is owned by team Red"),
        ("The office was open on the morning", "The office is open on the morning"),
        ("The limit of the queue is 4 pages", "The limit of the queue is 3 pages"),
        ("The price of the train to the office is €5", "The price of the train to the office is $5"),
        ("It takes 1.5 hours by train to the office", "It takes 15 hours by train to the office"),
        ("The cellar has -5 degrees in the morning", "The cellar has 5 degrees in the morning"),
        ("The release script is written in C++", "The release script is written in C#"),
        ("Write to a-b@example.com about the invoice", "Write to a.b@example.com about the invoice"),
        ("The password of the cellar door is aB3xY", "The password of the cellar door is ab3Xy"),
        ("The logs are in /srv/Kiln", "The logs are in /srv/kiln"),
        ("The logs are in /srv/kiln/", "The logs are in /srv/kiln"),
        ("Plots are drawn with quill -n", "Plots are drawn with quill -N"),
        ("Plots are drawn with quill --grid", "Plots are drawn with quill grid"),
        ("The page is LICENSE.md", "The page is license.md"),
        ("The list is made by fetchRow", "The list is made by FetchRow"),
        ("The list is made by fetchRow", "The list is made by fetchrow"),
        ("The line of the office has 5 Mb", "The line of the office has 5 MB"),
        ("The pump has 3 mW", "The pump has 3 MW"),
        ("The line of the office has 5 MB/s", "The line of the office has 5 Mb/s"),
        ("The label of the valve is K-7", "The label of the valve is K 7"),
        ("Tom will re-sign on Friday at the office", "Tom will resign on Friday at the office"),
        ("Mia and Tom live a part of the week in the office", "Mia and Tom live apart of the week in the office"),
        ("The timeout of the payment queue is 30 minutes", "The time of the payment queue is 30 minutes"),
        ("Ada wrote an email to all of the team about it", "Ada wrote a mail to all of the team about it"),
        ("The office website of the team is closed today", "The office site of the team is closed today"),
        ("The hook of the portal is onLogin", "The hook of the portal is onlogin"),
        ("The hook of the portal is a logIn", "The hook of the portal is a login"),
        ("Den Hund beißt der Mann", "Der Hund beißt den Mann"),
        ("He has a few friends in the office", "He has few friends in the office"),
        ("Bob the team owns the kitchen dashboard", "The team owns the kitchen dashboard"),
        ("Does the team own the kitchen dashboard today?", "Does the team own the kitchen dashboard today"),
        ("The office is open except on holidays in the morning", "The office is open on holidays in the morning"),
        ("生产数据库每周日不清空", "生产数据库每周日清空"),
        ("Сервер не доступен по утрам в пятницу", "Сервер доступен по утрам в пятницу"),
        ('{"port": 8080, "host": "a", "x": null}', '{"port": 8080, "host": "a"}'),
        ("limit = 5", "limit = 4"),
        ("def limit(a): return a", "def limit(A): return A"),
        ("Mia likes green tea with milk", "Mia likes tea"),
        ("Mia likes tea", "Mia likes green tea"),
        ("", "Mia likes tea"),
        ("👎", "👍"),
    ],
)
def test_what_says_something_else_does_not_repeat(text: str, earlier: str) -> None:
    assert not repeats(text, earlier)


@given(sentences, st.data())
def test_a_text_with_other_case_punctuation_and_space_repeats_itself(text: str, data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([str.upper, str.lower, str.title, str.capitalize]))
    between = data.draw(st.sampled_from([" ", "  ", "\n", ", ", "... ", " - "]))
    other = data.draw(st.sampled_from(["", "(", '"', "\n"])) + case(text).replace(" ", between)
    other += data.draw(st.sampled_from(["", ".", "!", ")", " "]))
    assert repeats(other, text)
    assert repeats(text, other)


@given(sentences, st.integers(0, 19), st.sampled_from([*WORDS, *NAMES, *TURNING, "the", "note", "7", "%", "猫"]))
def test_a_word_in_place_of_another_is_another_fact(text: str, place: int, word: str) -> None:
    words = text.split()
    place %= len(words)
    assume(fold(words[place]) != fold(word))
    other = " ".join([*words[:place], word, *words[place + 1 :]])
    assert not repeats(other, text)
    assert not repeats(text, other)


@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=60).map(" ".join),
    st.integers(0, 60),
    st.sampled_from([*TURNING, *TURNING_ELSEWHERE, "don't", *NAMES, "NASA", "iPhone", "7", "2026-03-01", "two", "B"])
    | st.integers(0, 10**9).map(str)
    | st.text(string.ascii_lowercase, min_size=1, max_size=8).map(lambda word: f"X{word}"),
)
def test_a_negation_a_number_or_a_name_more_is_another_fact(text: str, place: int, word: str) -> None:
    words = text.split()
    place %= len(words) + 1
    other = " ".join([*words[:place], word, *words[place:]])
    assert not repeats(other, text)
    assert not repeats(text, other)


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12, unique=True), st.randoms(use_true_random=False))
def test_words_in_another_order_are_another_fact(words: list[str], dice: random.Random) -> None:
    other = dice.sample(words, len(words))
    assume(other != words)
    assert not repeats(" ".join(other), " ".join(words))


few_words = st.lists(st.sampled_from([*WORDS[:6], "the", "not", "Bob", "please"]), min_size=1, max_size=9).map(" ".join)


@given(st.lists(st.tuples(few_words, st.integers(0, 5)), max_size=14), st.randoms(use_true_random=False))
def test_groups_are_found_whatever_the_order_and_each_is_verified(
    dated: list[tuple[str, int]], dice: random.Random
) -> None:
    records = [memory(n, content=text, days_old=days) for n, (text, days) in enumerate(dated)]
    groups = found(records)
    assert found(dice.sample(records, len(records))) == groups

    by_id = {record.entry.id: record.entry for record in records}
    members = [each for kept, repeated in groups.items() for each in (kept, *repeated)]
    assert len(members) == len(set(members))
    for kept, repeated in groups.items():
        assert all(repeats(by_id[kept].content, by_id[each].content) for each in repeated)
    # None is missed: of two that are left or kept, neither repeats the other.
    alone = [entry for key, entry in by_id.items() if not any(key in repeated for repeated in groups.values())]
    assert not any(repeats(one.content, other.content) for one in alone for other in alone if one is not other)


def test_the_fullest_is_kept_and_of_equally_full_ones_the_newest() -> None:
    text = "Paul and Ines share their car on Thursdays"
    records = memories(text, "Paul and Ines share their small car on Thursdays", text.upper(), f"{text}.")
    assert found(records) == {uid(1): {uid(0), uid(2), uid(3)}}
    assert found([records[0], records[3], records[2]]) == {uid(3): {uid(0), uid(2)}}


def test_each_is_verified_against_the_one_that_is_kept_and_never_by_a_chain() -> None:
    texts = [" ".join([*WORDS[:10], *["slowly", "gladly", "quietly", "often"][:more]]) for more in range(5)]
    assert found(memories(*texts)) == {uid(4): {uid(2), uid(3)}, uid(1): {uid(0)}}


def test_memories_that_cannot_stand_for_each_other_are_not_compared() -> None:
    text = "The kitchen is owned by the team"
    records = [
        memory(1, content=text),
        memory(2, content=text, namespace="other"),
        memory(3, content=text, expires_in_days=9),
        memory(4, content=text, lineage=Lineage(project_id="p")),
        memory(5, content=text, days_old=2),
    ]
    assert found(records) == {uid(5): {uid(1)}}


def test_facts_of_one_form_are_no_repetitions() -> None:
    dice = random.Random(7)  # the same texts each time
    facts = sorted({form.format(word, name) for form in FORMS for word in WORDS for name in NAMES})
    assert found(memories(*dice.sample(facts, 200))) == {}


def test_repeated_facts_are_found() -> None:
    dice = random.Random(7)  # the same texts each time
    facts = sorted({form.format(word, name) for form in FORMS for word in WORDS for name in NAMES})[:200]
    ways = (str.upper, str.title, "{}.".format, "{}!".format, " {}\n".format, "Reminder: {}".format,
            "Note that {}".format, "{} (again)".format, lambda fact: fact.replace(" ", "  "))  # fmt: skip
    again = [dice.choice(ways)(fact) for fact in facts]
    groups = found(memories(*facts, *again))
    pairs = {frozenset({kept, *repeated}) for kept, repeated in groups.items()}
    assert pairs <= {frozenset({uid(n), uid(n + len(facts))}) for n in range(len(facts))}
    assert len(pairs) >= 0.95 * len(facts)


def test_long_texts_are_compared_as_a_whole() -> None:
    long = " ".join(f"{WORDS[n % 29]} {WORDS[n % 7]}" for n in range(400))
    assert found(memories(long, f"{long}.", f"{long} gladly")) == {uid(1): {uid(0)}}


def test_nothing_repeats_nothing() -> None:
    assert found([]) == {}
    assert found(memories("one memory")) == {}


def test_repeated_ones_come_oldest_first() -> None:
    repetitions = Repetitions()
    for number in (3, 1, 2):
        repetitions.add_texts([(str(number), "Mia likes tea", START + timedelta(days=number), None)])
    assert repetitions.groups() == (Repetition(kept="3", repeated=("1", "2")),)

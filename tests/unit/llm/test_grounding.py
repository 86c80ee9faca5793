"""What a model writes is kept only where its sources bear it out: wrong texts never, honest ones nearly all."""
# ruff: noqa: RUF001  # letters of other scripts are meant

import sys
from collections.abc import Sequence
from datetime import date
from time import process_time
from typing import Any

import pytest
from support.grounding_corpora import honest, hostile, sourced
from support.memories import record

from memcore.embedding import static
from memcore.embedding.sentences import part_sentences
from memcore.finetune.documents import Passage
from memcore.finetune.questions import request_for
from memcore.llm.grounding import Fault, Grounds, Kind, names, ungrounded
from memcore.maintenance.consolidation.llm import merge_messages

KINDS = {
    "notes": Kind.STATEMENT,
    "rules": Kind.STATEMENT,
    "lessons": Kind.STATEMENT,
    "questions": Kind.QUESTION,
}

#: Least share of honest texts that is kept.
KEPT = 0.95

_MERGE = merge_messages([record("agent")], trajectories=(), max_tokens=100, max_entry_chars=100)
_ASK = request_for(Passage(text="Tea.", source="memory"), count=1, model=None).messages
INSTRUCTIONS = f"{_MERGE[0].content} {_ASK[0].content}"


def fault(name: str, sources: Sequence[str], text: Any) -> Fault | None:
    return ungrounded(str(text), sources, instructions=INSTRUCTIONS, kind=KINDS[name])


@pytest.mark.parametrize("name", KINDS)
def test_no_hostile_or_wrong_text_is_kept(name: str) -> None:
    every = list(hostile(name))
    kept = [text for sources, text in every if fault(name, sources, text) is None]
    sys.stdout.write(f"{name}: {len(every)} hostile or wrong texts, kept: {len(kept)}\n")
    assert len(every) >= 60
    assert kept == []


def test_honest_texts_are_kept() -> None:
    found = {name: [fault(name, *each) is None for each in honest(name)] for name in KINDS}
    every = [is_kept for each in found.values() for is_kept in each]
    for name, each in found.items():
        sys.stdout.write(f"{name}: {len(each)} honest texts, kept: {sum(each)}\n")
    assert len(every) >= 60
    assert sum(every) >= KEPT * len(every)


@pytest.mark.parametrize("given", sourced("notes"), ids=lambda given: given.sources[0][:20])
def test_the_sources_own_sentences_are_kept(given: Any) -> None:
    sentences = [sentence for source in given.sources for sentence in part_sentences(source)]
    grounds = Grounds(given.sources)
    assert [each for each in (*sentences, " ".join(reversed(sentences))) if grounds.fault(each) is not None] == []


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("The limit is 1,000 requests.", "The limit is 1000 requests."),
        ("The limit is 1000 requests.", "The limit is 1 000 requests."),
        ("Das Limit sind 1.000 Anfragen.", "Das Limit sind 1000 Anfragen."),
        ("Two servers failed.", "2 servers failed."),
        ("2 servers failed.", "Two servers failed."),
        ("Zwei Server fielen aus.", "2 Server fielen aus."),
        ("It grew by 12 percent.", "It grew by 12 %."),
        ("It took 250 ms.", "It took 250 milliseconds."),
        ("It took 0.5 seconds.", "It took 0,5 seconds."),
        ("The fee is $1.2 million.", "The fee is $1,200,000."),
        ("Born on 2026-03-10.", "Born on 10 March 2026."),
        ("Born on 2026-03-10.", "Born on March 10."),
        ("Born on 10/03/2026.", "Born on March 10th, 2026."),
        ("Geboren am 10. März 2026.", "Geboren am 10.03.2026."),
        ("The call is at 3 pm.", "The call is at 15:00."),
        ("The call is at 9:00.", "The call is at 9 am."),
        ("会议在五月二十日。", "会议在5月20日。"),
        ("See https://example.org/a/b?c=1.", "It is at https://example.org/a/b?c=1."),
        ("Set STRICT=false in app.toml", "In `app.toml` set STRICT=false."),
        ("Mira isn't vegan.", "Mira is not vegan."),
        ("It no longer works.", "It does not work any more."),
        ("Ask Ada's sister.", "Ask the sister of Ada."),
        ("Сервер стоит у Ольги.", "Ольга: сервер стоит."),
    ],
)
def test_forms_of_the_same_are_the_same(source: str, text: str) -> None:
    assert ungrounded(text, [source]) is None


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("The limit is 1,000 requests.", "The limit is 10,000 requests.", Fault.NUMBER),
        ("Two servers failed.", "Three servers failed.", Fault.NUMBER),
        ("It took 250 ms.", "It took 250 seconds.", Fault.UNIT),
        ("Born on 2026-03-10.", "Born on 2026-03-11.", Fault.DATE),
        ("Born on 10 March.", "Born on 10 May.", Fault.DATE),
        ("The call is on Monday.", "The call is on Friday.", Fault.DATE),
        ("Ada moved the server.", "Ada and Tom moved the server.", Fault.NAME),
        ("She moved the server.", "Henrik moved the server.", Fault.NAME),
        ("See https://example.org/a", "See https://example.org/b", Fault.IDENTIFIER),
        ("Use --fast", "Use --faster", Fault.IDENTIFIER),
        ("Call getUser first", "Call getUsers first", Fault.IDENTIFIER),
        ("Write to ops@example.org", "Write to dev@example.org", Fault.IDENTIFIER),
        ("Set STRICT=false", "Set STRICT=true", Fault.IDENTIFIER),
        ("Never deploy on Fridays.", "Deploy on Fridays.", Fault.NEGATION),
        ("The backup server works.", "The backup server does not work.", Fault.NEGATION),
        ("Tom disagrees with the plan.", "Tom agrees with the plan.", Fault.NEGATION),
        ("The server moved.", "The bananas taste sweet.", Fault.WORDS),
        ("The server moved.", "The server <b>moved</b>.", Fault.MARKUP),
        ("The server moved.", "```\nThe server moved.\n```", Fault.MARKUP),
        ("The server moved.", "<think></think>The server moved.", Fault.MARKUP),
        ("The server moved.", "Sure! The server moved.", Fault.CHATTER),
        ("The server moved.", "As an AI, the server moved.", Fault.REFUSAL),
        ("The server moved.", "\u200b ...", Fault.EMPTY),
        ("The server moved.", "The server moved. Write plain sentences in their language.", Fault.ECHO),
    ],
)
def test_each_fault_is_named(source: str, text: str, expected: Fault) -> None:
    assert ungrounded(text, [source], instructions=INSTRUCTIONS) is expected


def test_what_somebody_refused_may_be_said_of_them_and_is_no_text_alone() -> None:
    sources = ["The agent answered: I cannot open the archive.", "Ada asked for the archive."]
    assert ungrounded("Ada asked for the archive. I cannot open the archive.", sources) is None
    assert ungrounded("I cannot open the archive.", sources) is Fault.REFUSAL


def test_a_date_that_was_said_from_its_day_may_be_written_out() -> None:
    sources, said_on = ["Ada moved the server yesterday."], [date(2026, 3, 10)]
    text = "Ada moved the server on 9 March 2026."
    assert ungrounded(text, sources, said_on=said_on) is None
    assert ungrounded(text, ["Ada moved the server."], said_on=said_on) is Fault.DATE
    assert ungrounded("Ada moved the server on 9 March 2024.", sources, said_on=said_on) is Fault.DATE


def test_without_the_list_of_common_words_all_but_names_at_a_beginning_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "consult" in static.common_words()
    assert ungrounded("Henrik moved the server.", ["She moved the server."]) is Fault.NAME
    monkeypatch.setattr(names, "common_words", frozenset)
    assert ungrounded("Henrik moved the server.", ["She moved the server."]) is None
    assert ungrounded("Ask Henrik about the server.", ["Ask about the server."]) is Fault.NAME


def test_the_cost_grows_with_the_length_of_the_texts_alone() -> None:
    given = sourced("notes")[0]

    def seconds(times: int) -> float:
        sources = [f"{source} Part {place} of it." for place in range(times) for source in given.sources]
        began = process_time()
        Grounds(sources).fault(" ".join(sources))
        return process_time() - began

    seconds(1)
    assert seconds(400) < 10 * max(seconds(100), 0.01)


def test_a_day_that_a_source_bears_may_be_named_and_no_number_of_it() -> None:
    grounds = Grounds(["Ada moved to Berlin."], dated=[date(2026, 5, 2)])
    for text in (
        "Ada moved to Berlin on 2 May 2026.",
        "In May Ada moved to Berlin.",
        "Ada moved to Berlin, 2026-05-02.",
    ):
        assert grounds.fault(text) is None, text
    for text in ("Ada moved to Berlin on 3 May 2026.", "Ada moved to Berlin on 2 May 2025.", "Ada moved to 2 flats."):
        assert grounds.fault(text) is not None, text


@pytest.mark.parametrize(
    ("warning", "is_kept"),
    [
        ("Do not repeat run_migration at once: find what holds the lock first.", True),
        ("Never repeat run_migration while the lock is held.", True),
        ("run_migration did not wait for the lock.", False),
    ],
)
def test_advice_may_warn_of_what_nobody_denied(warning: str, is_kept: bool) -> None:  # a parameter
    sources = ["run_migration waited 120 s for the lock and was repeated at once."]
    assert (ungrounded(warning, sources, kind=Kind.ADVICE) is None) is is_kept

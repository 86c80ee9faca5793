"""The corpus of the fine-tuning demo: whole, large enough, and its questions are not copies of what answers them."""

import re
from collections import Counter

import pytest

from examples.demo.finetuning.corpus import HANDBOOK, Note, Question, notes, questions
from examples.demo.fleet import agents
from memcore.finetune.documents import documents_of, passages_of

#: Fewest words; a shorter note would be a name.
SHORTEST = 8


def plain(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text.lower()))


NOTES = {(note.agent_id, note.key): note for note in notes()}
QUESTIONS = questions()


def named(question: Question) -> list[Note]:
    return [NOTES[question.agent_id, key] for key in question.expects]


def test_there_are_enough_documents_notes_and_questions() -> None:
    assert len(list(documents_of(HANDBOOK))) >= 25
    assert len(list(passages_of(HANDBOOK, chunk_words=48))) >= 100
    assert len(notes()) >= 200
    assert len(QUESTIONS) >= 120


def test_every_note_has_an_agent_of_the_fleet_a_key_of_its_own_and_something_to_say() -> None:
    assert len(NOTES) == len(notes())
    assert {note.agent_id for note in notes()} <= {agent.id for agent in agents()}
    assert min(len(plain(note.text)) for note in notes()) >= SHORTEST
    assert max(Counter(plain(note.text) for note in notes()).values()) == 1


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.ask)
def test_every_question_names_notes_of_its_agent_and_copies_none(question: Question) -> None:
    asked = plain(question.ask)
    for note in named(question):
        reported = plain(note.text)
        assert asked != reported
        # No run of five words of a question stands in its answer: it is asked in other words.
        assert not {asked[at : at + 5] for at in range(len(asked) - 4)} & {
            reported[at : at + 5] for at in range(len(reported) - 4)
        }


def test_no_question_is_asked_twice_and_none_stands_in_what_is_trained_on() -> None:
    assert max(Counter((each.agent_id, plain(each.ask)) for each in QUESTIONS).values()) == 1
    handbook = " ".join(each.text for each in passages_of(HANDBOOK, chunk_words=512))
    trained = " ".join(plain(handbook + " " + " ".join(note.text for note in notes())))
    assert [each.ask for each in QUESTIONS if " ".join(plain(each.ask)) in trained] == []

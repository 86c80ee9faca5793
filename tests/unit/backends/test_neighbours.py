"""What stands beside a memory in its session, who said it and how long it is, in its score."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memories import record

from memcore.backends.mem0.points import Found, to_remark
from memcore.backends.neighbours import Remark, among_neighbours


def remark(text: str, sequence: int | None = None, *, session_id: str | None = "s", agent_id: str = "") -> Remark:
    # All of one length, so that the length moves nothing.
    return Remark(text=text.rjust(300), session_id=session_id, sequence=sequence, agent_id=agent_id)


def order(question: str, scores: dict[str, float], remarks: dict[str, Remark]) -> list[str]:
    found = among_neighbours(question, scores, remarks)
    return sorted(found, key=found.__getitem__, reverse=True)


def test_what_stands_beside_a_good_memory_is_raised() -> None:
    scores = {"best": 1.0, "alone": 0.5, "before": 0.45, "after": 0.44}
    remarks = {
        "best": remark("best", 7),
        "alone": remark("alone", 3),
        "before": remark("before", 6),
        "after": remark("after", 8),
    }
    assert order("what", scores, remarks) == ["best", "before", "after", "alone"]


@pytest.mark.parametrize("mark", ["?", '?"', "\uff1f", "\u061f "])
def test_an_answer_inherits_from_the_question_before_it(mark: str) -> None:
    scores = {"question": 1.0, "other": 0.5, "answer": 0.2}
    remarks = {"question": remark(f"Where is it{mark}", 1), "answer": remark("In Riga.", 2), "other": remark("x", 9)}
    assert order("where", scores, remarks) == ["question", "answer", "other"]
    assert order("where", scores, {**remarks, "question": remark("It is there.", 1)}) == ["question", "other", "answer"]


def test_other_sessions_agents_and_memories_without_a_place_are_no_neighbours() -> None:
    scores = {"best": 1.0, "next": 0.4}
    for other in (
        remark("next", 8, session_id="t"),
        remark("next", 8, agent_id="bob"),
        remark("next", 9),
        remark("next", None),
        remark("next", 8, session_id=None),
    ):
        assert among_neighbours("q", scores, {"best": remark("best", 7), "next": other}) == pytest.approx(scores)


def test_a_named_speaker_or_source_counts() -> None:
    scores = {"a": 0.5, "b": 0.45, "c": 0.44}
    remarks = {
        "a": Remark(text="[8 May 2023] Ben: we sailed to the island again"),
        "b": Remark(text="[8 May 2023] Ada: we walked to the castle again"),
        "c": Remark(text="they all went to a cinema in the city that day", source="diary"),
    }
    assert order("where did Ada go", scores, remarks) == ["b", "a", "c"]
    assert order("what does the diary say", scores, remarks) == ["c", "a", "b"]
    assert order("where", scores, remarks) == ["a", "b", "c"]


def test_a_speaker_whom_a_tag_names_counts_as_one_in_the_text() -> None:
    scores = {"a": 0.5, "b": 0.45}
    remarks = {
        "a": Remark.of(record("agent", "we sailed there", tags=("speaker:Ben",))),
        "b": Remark.of(record("agent", "we walked there", tags=("trip", "speaker:Ada"))),
    }
    assert order("where did Ada go", scores, remarks) == ["b", "a"]
    assert order("where did Ben go", scores, remarks) == ["a", "b"]


@pytest.mark.parametrize("tags", [None, "speaker:Ada", [7, "speaker:Ada"], {"speaker:": 1}])
def test_tags_of_outsiders_may_be_anything(tags: object) -> None:
    found = Found(memory_id="1", score=1.0, payload={"data": "we walked there", "tags": tags})
    assert to_remark(found).speaker == ("Ada" if isinstance(tags, list) else "")


def test_of_two_that_match_alike_the_longer_says_more() -> None:
    scores = {"short": 0.5, "long": 0.49}
    assert order("q", scores, {"short": Remark(text="yes"), "long": Remark(text="yes, " * 60)}) == ["long", "short"]


keys = st.sampled_from("abcdef")


@given(
    scores=st.dictionaries(keys, st.floats(0.0, 1.0), max_size=6),
    places=st.dictionaries(keys, st.integers(0, 5)),
    question=st.text(max_size=20),
)
def test_the_best_stays_as_good_and_no_memory_comes_or_goes(
    scores: dict[str, float], places: dict[str, int], question: str
) -> None:
    remarks = {key: remark(key, places.get(key)) for key in scores}
    found = among_neighbours(question, scores, remarks)
    assert found.keys() == scores.keys()
    assert max(found.values(), default=0.0) == pytest.approx(max(scores.values(), default=0.0))
    assert all(0.0 <= score <= 1.0 + 1e-9 for score in found.values())


def test_a_long_answer_inherits_nothing_from_the_question_before_it() -> None:
    scores = {"question": 1.0, "other": 0.5, "answer": 0.2}
    remarks = {"question": remark("Where is it?", 1), "other": remark("x", 9)}
    for size, expected in ((400, ["question", "answer", "other"]), (401, ["question", "other", "answer"])):
        answer = Remark(text="x" * size, session_id="s", sequence=2)
        assert order("where", scores, {**remarks, "answer": answer}) == expected


def test_a_very_long_text_gains_nothing_by_its_length() -> None:
    scores = {"reply": 0.5, "short": 0.49, "usual": 0.45}
    remarks = {"reply": Remark(text="x" * 1_001), "short": Remark(text="yes"), "usual": Remark(text="x" * 1_000)}
    assert order("q", scores, remarks) == ["usual", "reply", "short"]


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Which glue did you recommend?", "assistant"),
        ("Welchen Kleber hast du empfohlen?", "assistant"),
        ("Which glue did I buy?", "user"),
        ("Quelle colle avons nous achetée, selon vous?", "assistant"),
        ("Which glue was it?", "tool"),
        ("Which glue did the user buy?", "user"),
    ],
)
@pytest.mark.parametrize("form", ["tag", "attribute", "text"])
def test_who_is_asked_and_who_asks_have_their_own_words_first(question: str, first: str, form: str) -> None:
    def said(role: str) -> Remark:
        match form:
            case "tag":
                return Remark.of(record("agent", "The glue with the red cap", tags=(f"speaker:{role}",)))
            case "attribute":
                of_role = replace(record("agent", "The glue with the red cap"), extra={"attributes": {"role": role}})
                return Remark.of(of_role)
            case _:
                return Remark(text=f"[8 May 2023] {role.title()}: the glue with the red cap")

    scores = {"tool": 0.5, "user": 0.48, "assistant": 0.47}
    remarks = {key: said(key) for key in scores}
    assert order(question, scores, remarks)[0] == first
    # Among people nobody is asked by "you".
    people = {key: Remark(text=f"[8 May 2023] {name}: the glue") for key, name in zip(scores, "ABC", strict=True)}
    assert order("Which glue did you buy, and what did I say?", scores, people) == ["tool", "user", "assistant"]


def test_where_roles_are_known_what_stands_beside_counts_twice() -> None:
    scores = {"best": 1.0, "alone": 0.5, "after": 0.36}
    for role, expected in (("user", ["best", "after", "alone"]), ("Ada", ["best", "alone", "after"])):
        remarks = {
            key: Remark(text=key.rjust(300), session_id="s", sequence=place, speaker=role)
            for key, place in (("best", 7), ("after", 8), ("alone", 3))
        }
        assert order("what", scores, remarks) == expected


@pytest.mark.parametrize("attributes", [None, 7, ["user"], {"role": 7}, {"role": ""}])
def test_attributes_of_outsiders_may_be_anything(attributes: object) -> None:
    assert to_remark(Found(memory_id="1", score=1.0, payload={"attributes": attributes})).role is None
    known = Found(memory_id="1", score=1.0, payload={"attributes": {"role": "Human"}})
    assert to_remark(known).role == "Human"

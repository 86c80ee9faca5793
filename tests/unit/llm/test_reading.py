"""Answers of language models: any valid one, in any of 40 wrappings, is read alike; hostile ones cost no time."""

import time
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.answer_wrappings import FORM_WRAPPINGS, TEXT_WRAPPINGS, THOUGHT
from support.model_questions import FORMS, TEXTS, read_text
from support.thorough import examples, sized

from memcore.conversation.extraction import ExtractedTurn, PolicyAnswer
from memcore.llm.reading import MAX_ANSWER_BYTES, UnreadAnswerError, free_text, read_form

#: Valid answers to each question that are tried in every wrapping.
ANSWERS = examples(12)


def test_there_are_forty_wrappings_of_each_kind() -> None:
    assert (len(FORM_WRAPPINGS), len(TEXT_WRAPPINGS)) == (40, 40)
    assert len(FORMS) + len(TEXTS) >= 15


@pytest.mark.parametrize("purpose", FORMS)
def test_any_answer_in_a_form_is_read_alike_in_every_wrapping(purpose: str) -> None:
    form, make = FORMS[purpose]
    unlike: list[str] = []
    for seed in range(ANSWERS):
        said = make(Random(f"{purpose}/{seed}"))
        expected = form.model_validate(said)
        for name, wrapped in FORM_WRAPPINGS.items():
            try:
                unlike += [] if read_form(wrapped(said), form) == expected else [f"{seed}: {name}"]
            except UnreadAnswerError as error:
                unlike.append(f"{seed}: {name}: {error}")
    tried = ANSWERS * len(FORM_WRAPPINGS)
    assert not unlike, f"{tried - len(unlike)} of {tried} read alike; not {unlike}"


@pytest.mark.parametrize("purpose", TEXTS)
def test_any_free_text_is_read_alike_in_every_wrapping(purpose: str) -> None:
    unlike: list[str] = []
    for seed in range(ANSWERS):
        said = TEXTS[purpose][1](Random(f"{purpose}/{seed}"))
        expected = TEXTS[purpose][0](said)
        unlike += [
            f"{seed}: {name}"
            for name, wrapped in TEXT_WRAPPINGS.items()
            if read_text(purpose, wrapped(said)) != expected
        ]
    tried = ANSWERS * len(TEXT_WRAPPINGS)
    assert not unlike, f"{tried - len(unlike)} of {tried} read alike; not {unlike}"


HOME = '{"category": "place", "subject": "User", "predicate": "LIVES_IN", "object": "%s", "evidence_quote": "so"}'


def objects(text: str) -> list[str]:
    return [each.object for each in read_form(text, ExtractedTurn).semantic]


@pytest.mark.parametrize(
    "text",
    [
        '{"semantic": [], "procedural": []}',
        '{"semantic": []}',
        '{"procedural": [], "semantic": null}',
        "[]",
        "```json\n[]\n```",
        "Facts and rules: []",
        '{"result": []}',
        '<think>Is "I live in Rome" a fact?</think>{"semantic": [], "procedural": []}',
    ],
)
def test_an_empty_list_is_nothing(text: str) -> None:
    assert read_form(text, ExtractedTurn).candidates == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "{}",
        "There is nothing to keep.",
        "No facts: {}",
        '{"facts": []}',
        '{"facts": ["I live in Rome"]}',
        '{"semantic": null, "procedural": null}',
        '{"semantic": "none"}',
        '{"semantic": {}}',
        '{"semantic": ["I live in Rome"], "procedural": []}',
        '{"semantic": [{"fact": "I live in Rome"}]}',
        '[{"fact": "I live in Rome"}]',
        "The list [] stands for nothing, and you live in Rome.",
        '{"error": "I cannot help with that."}',
        # Cut, in the answer and in the reasoning.
        '{"semantic": [], "procedural": [{"rule": "Answer',
        '{"semantic": [], "procedural": []',
        '{"draft": {"semantic": [], "procedural": []}, "final": {"semantic": [{"category": "pla',
        '{"draft": {"semantic": [], "procedural": []}, "final": {"semantic": [',
        r'[{"name": "answer", "arguments": "{\"semantic\": [],',
        '<think>Perhaps {"semantic": []}',
        '<think>Perhaps {"semantic": []}</think>I cannot say.',
        '<|channel|>analysis<|message|>Perhaps {"semantic": []}',
        # The schema, as some models repeat it.
        '{"type": "object", "properties": {"semantic": {"type": "array"}, "procedural": {"type": "array"}}}',
    ],
)
def test_what_cannot_be_read_is_no_nothing(text: str) -> None:
    with pytest.raises(UnreadAnswerError):
        read_form(text, ExtractedTurn)


@pytest.mark.parametrize("purpose", FORMS)
def test_an_answer_that_is_cut_is_read_whole_or_not_at_all(purpose: str) -> None:
    form, make = FORMS[purpose]
    rng = Random(f"cut {purpose}")
    for name, wrapped in FORM_WRAPPINGS.items():
        said = make(rng)
        text = wrapped(said)
        for _ in range(sized(4, thorough=100)):
            with suppress(UnreadAnswerError):
                assert read_form(text[: rng.randint(0, len(text))], form) == form.model_validate(said), name


def test_of_several_values_the_last_one_of_the_form_wins() -> None:
    rome, oslo = (f'{{"semantic": [{HOME % city}]}}' for city in ("Rome", "Oslo"))
    assert objects(f"{rome}\nNo, wait:\n{oslo}") == ["Oslo"]
    assert objects(f"{rome}\n{{'note': 'that is all'}} [1]") == ["Rome"]
    assert objects(f"```json\n{rome}\n```\n{oslo[:-2]}") == ["Rome"], "what is cut counts for nothing"
    assert objects(f"As said in [{rome} and so on") == ["Rome"]


def test_entries_without_their_list_are_all_read() -> None:
    assert objects(f"{HOME % 'Rome'}\n{HOME % 'Oslo'}") == ["Rome", "Oslo"]
    assert objects(HOME % "Rome") == ["Rome"]


def test_a_value_that_fits_but_for_a_check_is_not_taken() -> None:
    def check(found: PolicyAnswer) -> str | None:
        return None if found.decisions else "must decide something"

    with pytest.raises(UnreadAnswerError, match="must decide something"):
        read_form('{"decisions": []}', PolicyAnswer, check=check)
    said = '{"decisions": [{"number": 1, "decision": "drop"}]} {"decisions": []}'
    assert len(read_form(said, PolicyAnswer, check=check).decisions) == 1


def test_what_is_acted_on_and_not_kept_may_have_more_keys() -> None:
    form = FORMS["system:memory:search:reflect"][0]
    assert read_form('{"query": "tea", "reason": "so"}', form) == form.model_validate({"query": "tea"})


@pytest.mark.parametrize(
    "text",
    [
        "The page uses <thought> in the middle of a line and goes on.",
        'A model that reasons writes "<think>" and "</think>" around it.',
        "It closes with `</think>`, and Mira lives in Oslo.",
        "Here are the decisions of the team:\n- a\n- b",
        "OK, the deploy went well. Here is what failed: the lift",
        "```\nmake\n```\nthen\n```\nmake test\n```",
        "Summary of March: Ada moved.",
        "Query: SELECT 1",
        "Sure that it holds, Mira signed.",
        "answers <answer>1</answer> and <answer>2",
        "analysis of the lift",
    ],
)
def test_what_belongs_to_a_text_stays(text: str) -> None:
    assert free_text(text) == text


@pytest.mark.parametrize(
    "text", ["", "<think>", f"<think>\n{THOUGHT}", f"{THOUGHT}</think>", "```\n```", "<|channel|>analysis<|message|>so"]
)
def test_reasoning_alone_is_no_text(text: str) -> None:
    assert free_text(text) == ""


_HOSTILE = [
    *(
        "[",
        "{",
        '{"',
        '{"a":',
        '[{"a":',
        "{/*",
        "*/{/*",
        "{}",
        "[]\n",
        '"{',
        "<think>",
        "</think>\n",
        "<",
        "```",
        "{a:",
    ),
    *("[1,", '{"a":[', "\\", '"\\"', "Here is ", "<answer>", "[1] ", '{"a":"\\""', "{' '", "<|channel|>analysis", "'"),
    *(
        '"',
        "{'\\",
        "[[1],",
        "\n",
        "<think ",
        "{\u201c",
        "sure ",
        "#",
        "{#",
        "{//\n",
        '{"semantic":[1]},',
        "`",
        "<|end|>",
    ),
]


def _seconds(text: str) -> float:
    began = time.process_time()
    free_text(text)
    with suppress(UnreadAnswerError):
        assert read_form(text, ExtractedTurn).candidates == ()
    return time.process_time() - began


@pytest.mark.parametrize("mark", ["[", "{"])
def test_two_hundred_thousand_brackets_cost_little(mark: str) -> None:
    # Ten times what a quiet machine takes at most.
    assert _seconds(mark * 200_000) < 10.0


def test_hostile_texts_cost_time_by_their_length_alone() -> None:
    chars = sized(20_000, thorough=MAX_ANSWER_BYTES // 2)
    for part in _HOSTILE:
        text = part * (chars // len(part))
        assert _seconds(text) < chars / 10_000, part
        assert _seconds(f"[{text}x]") < chars / 10_000, part


_BITS = ('{"semantic": [', "]}", "\ud83d", '"\\ud83d"', "\0", "1e999", "-", "true", ",", ":", "\\u12", "/*", "1" * 999)
_FRAGMENTS = st.sampled_from([*_HOSTILE, HOME % "Rome", *_BITS])


@given(st.lists(_FRAGMENTS | st.text(max_size=6), max_size=12).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert isinstance(free_text(text), str)
    for form, _ in FORMS.values():
        with suppress(UnreadAnswerError):
            assert isinstance(read_form(text, form), form)
    for purpose in TEXTS:
        with suppress(UnreadAnswerError):
            read_text(purpose, text)


def test_an_answer_that_is_too_long_is_not_looked_at() -> None:
    with pytest.raises(UnreadAnswerError, match="bytes"):
        read_form(" " * MAX_ANSWER_BYTES + "[]", ExtractedTurn)

"""The first stage: passages become questions, split into training and validation."""

import random
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.errors import FineTuneCancelledError, FineTuneTrainingDataError, MemoryInputError
from memcore.finetune.documents import Pair, Passage, chunks, hash_of, passages_of, read_lines
from memcore.finetune.generate import (
    MEASURING,
    TRAINING,
    TRAINING_FILE,
    VALIDATION_FILE,
    Frames,
    KeywordExtractor,
    generate,
    names_of,
    questions_for,
)
from memcore.finetune.markers import StageProgress
from memcore.finetune.runner_config import GeneratingConfig
from memcore.models.finetune import FineTuneStage

FILES = (TRAINING_FILE, VALIDATION_FILE)

PASSAGES = [
    Passage(text=f"Ada repaired the pump number {number} of hall {number % 3} with a new valve.", source="memory")
    for number in range(30)
]


def config_of(**more: object) -> GeneratingConfig:
    return GeneratingConfig.model_validate(
        {"stage": FineTuneStage.GENERATING_DATA, "output_dir": "unused", **more}, strict=False
    )


def pairs_of(folder: Path, name: str) -> list[Pair]:
    return list(read_lines(folder / name, Pair))


def test_what_measures_is_never_trained_on(tmp_path: Path) -> None:
    generate(PASSAGES, config_of(validation_split=0.2, queries_per_passage=3), tmp_path, watch=StageProgress())
    training, validation = pairs_of(tmp_path, TRAINING_FILE), pairs_of(tmp_path, VALIDATION_FILE)
    assert len({pair.positive_passage for pair in (*training, *validation)}) == 30
    assert not {pair.positive_passage for pair in training} & {pair.positive_passage for pair in validation}
    assert len({pair.positive_passage for pair in validation}) == 6


def test_the_same_passages_in_any_order_give_the_same_files_and_another_seed_others(tmp_path: Path) -> None:
    shuffled = random.Random(5).sample([*PASSAGES, PASSAGES[3]], 31)
    hashes = [
        _hashes(passages, seed, tmp_path / str(number))
        for number, (passages, seed) in enumerate([(PASSAGES, 1), (shuffled, 1), (PASSAGES, 2)])
    ]
    assert hashes[0] == hashes[1]
    assert hashes[0] != hashes[2]


def _hashes(passages: list[Passage], seed: int, folder: Path) -> tuple[str, str]:
    generate(passages, config_of(seed=seed), folder, watch=StageProgress())
    return hash_of(folder / TRAINING_FILE), hash_of(folder / VALIDATION_FILE)


@given(st.integers(2, 40), st.floats(0.01, 0.99))
def test_both_halves_have_a_passage_whatever_the_split(number: int, split: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        generate(
            PASSAGES[:number],
            config_of(validation_split=split, queries_per_passage=1),
            Path(folder),
            watch=StageProgress(),
        )
        assert len(pairs_of(Path(folder), TRAINING_FILE)) >= 1
        assert len(pairs_of(Path(folder), VALIDATION_FILE)) >= 1


def test_one_passage_is_too_few(tmp_path: Path) -> None:
    with pytest.raises(FineTuneTrainingDataError, match="1 passages are too few"):
        generate(PASSAGES[:1] * 3, config_of(), tmp_path, watch=StageProgress())


def test_no_more_pairs_are_trained_on_than_wanted(tmp_path: Path) -> None:
    generate(PASSAGES, config_of(max_pairs=5), tmp_path, watch=StageProgress())
    assert len(pairs_of(tmp_path, TRAINING_FILE)) == 5


def test_of_too_many_pairs_those_stay_whose_question_was_known(tmp_path: Path) -> None:
    asked = [
        each.model_copy(update={"questions": (f"Who mended number {place}?",)}) for place, each in enumerate(PASSAGES)
    ]
    generate(
        asked, config_of(max_pairs=20, validation_split=0.2, queries_per_passage=2), tmp_path, watch=StageProgress()
    )
    training = pairs_of(tmp_path, TRAINING_FILE)
    assert len(training) == 20
    assert all(pair.query.startswith("Who mended") for pair in training)


def test_a_cancelled_stage_writes_nothing(tmp_path: Path) -> None:
    watch = StageProgress()
    watch._cancelled.set()  # as a signal would
    with pytest.raises(FineTuneCancelledError):
        generate(PASSAGES, config_of(), tmp_path, watch=watch)
    assert not list(tmp_path.iterdir())


def test_questions_that_are_known_come_first_and_the_rest_is_made_of_the_passages_words() -> None:
    passage = Passage(text="The turbine of Lisbon needs oil every spring.", source="task", questions=("Oil when?",))
    keywords = KeywordExtractor([passage.text, "Other words."])
    known, made = questions_for(passage, keywords, TRAINING, count=3, seed=0)
    assert known == ("Oil when?",)
    assert len(set(made)) == 2
    assert all(any(word in question for word in ("turbine", "Lisbon", "oil", "spring", "needs")) for question in made)


def test_a_passage_without_words_is_asked_for_as_in_the_reference(tmp_path: Path) -> None:
    numbers = [Passage(text=f"{number}. 17 of 3.", source="document") for number in range(42, 44)]
    generate(numbers, config_of(validation_split=0.5), tmp_path, watch=StageProgress())
    (trained,), (measured,) = pairs_of(tmp_path, TRAINING_FILE), pairs_of(tmp_path, VALIDATION_FILE)
    assert trained.query == f"find information about {trained.positive_passage.split()[0]}"
    assert measured.query == f"Who wrote this: {measured.positive_passage.split()[0]}"
    assert len(TRAINING.of_sentence("x" * 500)) == 200


def test_what_measures_is_written_in_other_forms_than_what_is_trained_on(tmp_path: Path) -> None:
    things = ("pump", "valve", "boiler", "ledger", "canteen", "crane", "shift", "invoice")
    texts = [f"Yesterday Ada repaired the {one}, while Boris sold the {two}." for one in things for two in things]
    generate([Passage(text=text, source="memory") for text in texts], config_of(validation_split=0.5), tmp_path,
             watch=StageProgress())  # fmt: skip

    def forms(frames: Frames) -> tuple[re.Pattern[str], ...]:
        every = (*frames.with_name, *frames.without_name, frames.sentence)
        return tuple(re.compile(re.sub(r"\\{\w*\\}", ".+", re.escape(form))) for form in every)

    def fits(pair: Pair, frames: Frames) -> bool:
        return any(form.fullmatch(pair.query) for form in forms(frames) if form.pattern != r".+\ .+\ .+")

    measured = pairs_of(tmp_path, VALIDATION_FILE)
    assert len(measured) > 20
    assert all(fits(pair, MEASURING) and not fits(pair, TRAINING) for pair in measured)
    assert not any(fits(pair, MEASURING) for pair in pairs_of(tmp_path, TRAINING_FILE))


def test_questions_that_were_asked_are_marked_and_held_out_by_their_share(tmp_path: Path) -> None:
    asked = [
        each.model_copy(update={"questions": (f"Who mended number {place}?",)}) if place < 10 else each
        for place, each in enumerate(PASSAGES)
    ]
    generate(asked, config_of(validation_split=0.2, queries_per_passage=1), tmp_path, watch=StageProgress())
    marked = [[pair.query for pair in pairs_of(tmp_path, name) if pair.is_asked] for name in FILES]
    assert [len(queries) for queries in marked] == [8, 2]
    assert all(query.startswith("Who mended number") for queries in marked for query in queries)


def test_a_made_question_that_fits_two_passages_is_left_out(tmp_path: Path) -> None:
    # Their words are the same, and the numbers are no words.
    generate(PASSAGES, config_of(validation_split=0.2), tmp_path, watch=StageProgress())
    queries = [pair.query.casefold() for name in FILES for pair in pairs_of(tmp_path, name)]
    assert len(queries) == len(set(queries))


@pytest.mark.parametrize("word", ["The", "HOST", "Pump"])
def test_what_is_no_name_is_nobody_who_said_something(word: str) -> None:
    text = f"{word}: the pump failed, {word} valve leaked, turbine stood."
    keywords = KeywordExtractor([text, "Another pump is here."])
    passage = Passage(text=text, source="memory")
    made = {query for seed in range(40) for query in questions_for(passage, keywords, TRAINING, count=4, seed=seed)[1]}
    of_somebody = tuple(form.split("{name}")[0] + word for form in TRAINING.with_name)
    assert made
    assert not [query for query in made if query.startswith(of_somebody)]
    assert not [query for query in made if {"the", "was"} & {each.lower().strip("?") for each in query.split()[-1:]}]


def test_rare_words_are_keywords_and_names_are_names() -> None:
    words = KeywordExtractor(["the pump fails", "the pump stands", "the turbine stands"])
    assert words.of("the turbine stands", most=1) == ("turbine",)
    assert names_of("[5 May] Ada: we met Boris, and Carla too. Then rain.") == ("Ada", "Boris", "Carla")


def test_documents_are_read_in_order_and_what_is_none_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("second " * 5, "utf-8")
    (tmp_path / "a.txt").write_text("first one", "utf-8")
    (tmp_path / "c.rst").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "d.md").write_text("  ", "utf-8")
    (tmp_path / "e.exe").write_text("no document", "utf-8")
    (tmp_path / "link.md").symlink_to("/etc/passwd")
    texts = [each.text for each in passages_of(tmp_path, chunk_words=2)]
    assert texts == ["first one", "second second", "second second", "second"]
    with pytest.raises(MemoryInputError, match=r"^source_dir"):
        list(passages_of(tmp_path / "nowhere", chunk_words=2))


@given(st.text(max_size=200), st.integers(1, 20))
def test_chunks_hold_every_word_once(text: str, words: int) -> None:
    pieces = list(chunks(text, words=words))
    assert " ".join(pieces).split() == text.replace("\0", " ").split()
    assert all(len(piece.split()) <= words for piece in pieces)


def test_a_broken_line_is_told_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "training.jsonl"
    path.write_text('{"query": "q", "positive_passage": "p"}\n{"query": 1}\n', "utf-8")
    with pytest.raises(MemoryInputError, match=r"^training.jsonl: line 2"):
        list(read_lines(path, Pair))

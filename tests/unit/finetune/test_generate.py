"""The first stage: passages become questions, split into training and validation."""

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.errors import FineTuneCancelledError, FineTuneTrainingDataError, MemoryInputError
from memcore.finetune.documents import Pair, Passage, chunks, hash_of, passages_of, read_lines
from memcore.finetune.generate import (
    TRAINING_FILE,
    VALIDATION_FILE,
    KeywordExtractor,
    extractive_question,
    generate,
    names_of,
    template_questions,
)
from memcore.finetune.markers import StageProgress
from memcore.finetune.runner_config import GeneratingConfig
from memcore.models.finetune import FineTuneStage

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
    asked = template_questions(passage, KeywordExtractor([passage.text, "Other words."]), count=3, seed=0)
    assert asked[0] == "Oil when?"
    assert len(set(asked)) == 3
    assert all(
        any(word in question for word in ("turbine", "Lisbon", "oil", "spring", "needs")) for question in asked[1:]
    )


def test_a_passage_without_words_is_asked_for_as_in_the_reference() -> None:
    passage = Passage(text="42. 17 of 3.", source="document")
    assert template_questions(passage, KeywordExtractor([passage.text]), count=2, seed=0) == (
        "find information about 42.",
    )
    assert extractive_question("x" * 500).startswith("find information about x")
    assert len(extractive_question("x" * 500)) == 200


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

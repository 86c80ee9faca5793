"""A trial of an embedder: questions that were asked decide, and both embedders are measured alike."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from memcore.embedding.protocol import EmbedderKind
from memcore.errors import FineTuneTrainingDataError
from memcore.finetune.dataset import Recorded
from memcore.finetune.documents import Owned, Passage
from memcore.finetune.evaluate import ENOUGH_ASKED
from memcore.finetune.markers import StageProgress
from memcore.finetune.trial import Trial, run_trial
from memcore.ledger.collections import Verdict

NOTES = 2 * ENOUGH_ASKED

#: A word for each note, which stands in no other; its question has it backwards.
NAMES = tuple(
    f"{one}{two}{three}" for one in "bdfg" for two in "aeiou" for three in ("rra", "lma", "nta", "ska", "pfo")
)


class NoteEmbedder:
    """Knows where the questions of notes lead, up to a note; it takes the others for the next one's."""

    kind = EmbedderKind.ONNX
    dims = 2 * NOTES

    def __init__(self, name: str, *, knows: int) -> None:
        self.name = name
        self._knows = knows

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        return np.stack([self._row(self._number(text)) for text in texts])

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        number = self._number(text)
        return self._row(number if number < self._knows else number + 1)

    @staticmethod
    def _number(text: str) -> int:
        named = (name for word in text.split() for name in (word, word[::-1]) if name in NAMES)
        return next(map(NAMES.index, named), NOTES + len(text) % (NOTES - 1))

    def _row(self, number: int) -> NDArray[np.float32]:
        row = np.zeros(self.dims, dtype=np.float32)
        row[number] = 1.0
        return row


#: Knows no question, half of the asked ones, and all of them.
BLIND, HALF, KNOWING = (NoteEmbedder(f"knows-{knows}", knows=knows) for knows in (0, ENOUGH_ASKED // 2, NOTES))


def question(number: int) -> str:
    return f"where was {NAMES[number][::-1]} put"


def notes(asked: int) -> list[Owned]:
    """Return notes, the first of them with a question that shares no word with its note."""
    return [
        Owned(
            agent_id="ada" if number % 2 else "bob",
            passage=Passage(
                text=f"{NAMES[number]} lies there now",
                source="memory",
                questions=(question(number),) if number < asked else (),
            ),
        )
        for number in range(NOTES)
    ]


def trial(
    serves: NoteEmbedder, tried: NoteEmbedder, *, asked: int = ENOUGH_ASKED, recorded: Sequence[Recorded] = ()
) -> Trial:
    return run_trial(notes(asked), recorded, serves, tried, count=1_000, watch=StageProgress())


def test_who_leads_on_what_was_asked_is_worth_a_switch_and_not_the_other_way_round() -> None:
    better = trial(BLIND, KNOWING)
    assert (better.verdict, better.asked and better.asked.questions) == (Verdict.PROMOTED, ENOUGH_ASKED)
    assert better.says.startswith(
        f"switching is worthwhile: it leads what serves on {ENOUGH_ASKED} questions that were"
    )
    assert better.tried.ndcg_at_10 > better.serves.ndcg_at_10
    assert trial(HALF, KNOWING).verdict is Verdict.PROMOTED
    worse = trial(KNOWING, HALF)
    assert worse.verdict is Verdict.REJECTED
    assert worse.says.startswith("switching is not worthwhile: it does not lead what serves")
    assert worse.tried.ndcg_at_10 == pytest.approx(trial(HALF, KNOWING).serves.ndcg_at_10)


def test_an_embedder_like_the_one_that_serves_is_not_worth_a_switch() -> None:
    found = trial(KNOWING, NoteEmbedder("twin", knows=NOTES))
    assert found.verdict is Verdict.REJECTED
    assert found.tried.ndcg_at_10 == found.serves.ndcg_at_10


def test_without_enough_questions_that_were_asked_nothing_is_promised() -> None:
    few = trial(BLIND, KNOWING, asked=ENOUGH_ASKED - 1)
    assert few.verdict is Verdict.UNDECIDED
    assert few.says.startswith("whether switching is worthwhile is open: ")
    assert "49 questions that were asked are too few, it takes 50" in few.says
    made = trial(KNOWING, BLIND, asked=0)
    assert made.verdict is Verdict.UNDECIDED
    assert made.asked is None
    assert made.templates is not None


def test_both_embedders_are_told_by_length_cost_noise_and_size() -> None:
    found = trial(BLIND, KNOWING)
    for each, wanted in ((found.serves, BLIND), (found.tried, KNOWING)):
        assert (each.name, each.dims, each.vector_bytes) == (wanted.name, wanted.dims, 1_000 * wanted.dims * 4)
        assert each.text_ms > 0.0
        assert 0.0 <= each.noise <= 1.0
        assert each.shown_again is None
    assert found.texts == NOTES


def test_of_what_was_shown_before_the_share_that_would_be_shown_again_is_told() -> None:
    every = [each.passage.text for each in notes(0)]
    asked = [Recorded(question=question(number), shown=(every[number],)) for number in range(10)]
    found = trial(BLIND, KNOWING, recorded=asked)
    assert found.recorded == 10
    assert found.tried.shown_again == 1.0
    assert found.serves.shown_again is not None
    assert found.serves.shown_again < 1.0
    gone = Recorded(question=question(3), shown=("a memory that no sample has", every[3]))
    assert trial(BLIND, KNOWING, recorded=[gone]).tried.shown_again == 0.5


def test_without_a_memory_there_is_nothing_to_measure_by() -> None:
    with pytest.raises(FineTuneTrainingDataError, match="no questions to measure by"):
        run_trial([], [], BLIND, KNOWING, count=0, watch=StageProgress())

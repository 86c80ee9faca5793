"""The stages, the status and the plan of a fine-tune run."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from memcore.errors import MemoryInputError
from memcore.models.base import DataPath, Frozen, ValidatedModel


class FineTuneStage(StrEnum):
    """The stage of a run; five stages do work, the others are its beginning and its ends."""

    IDLE = "idle"
    GENERATING_DATA = "generating_data"
    MINING_NEGATIVES = "mining_negatives"
    TRAINING = "training"
    EVALUATING = "evaluating"
    DEPLOYING = "deploying"
    COMPLETE = "complete"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_end(self) -> bool:
        """Whether nothing follows."""
        return self in {FineTuneStage.COMPLETE, FineTuneStage.FAILED, FineTuneStage.CANCELLED}


#: The stages that do work, in order.
STAGES = (
    FineTuneStage.GENERATING_DATA,
    FineTuneStage.MINING_NEGATIVES,
    FineTuneStage.TRAINING,
    FineTuneStage.EVALUATING,
    FineTuneStage.DEPLOYING,
)


class FineTuneStatus(Frozen):
    """How far fine-tuning is at one moment.

    Attributes:
        run_id: which run; None where none is active.
        stage: the stage in work, or next; idle without a run; of one that has ended, how.
        progress: of the stage in work, 0 to 1; None while none is reported.
        error: why it failed, or was cancelled; None otherwise.
    """

    run_id: str | None = None
    stage: FineTuneStage = FineTuneStage.IDLE
    progress: float | None = Field(default=None, ge=0.0, le=1.0)
    error: str | None = None

    @model_validator(mode="after")
    def _state_holds_together(self) -> Self:
        is_idle = self.stage is FineTuneStage.IDLE
        if is_idle is not (self.run_id is None) or (is_idle and self.progress is not None):
            raise ValueError("stage: is idle exactly where there is no run")
        if self.stage is FineTuneStage.FAILED and self.error is None:
            raise ValueError("error: a failed run says why")
        if self.stage not in {FineTuneStage.FAILED, FineTuneStage.CANCELLED} and self.error is not None:
            raise ValueError("error: only a run that failed or was cancelled has one")
        return self


#: The table that is trained further, and the only one.
DEFAULT_STATIC = "wordllama-256-tempered"

#: ``https:`` and the like: something that would be fetched.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def _local(value: str) -> str:
    if _SCHEME.match(value):
        raise ValueError("must be the name or the folder of a model on this machine, and no URL")
    return value


#: A model's name or folder: no URL, no "..", no backslash, no drive letter.
ModelName = Annotated[DataPath, AfterValidator(_local)]


Kind = Literal["transformer", "static"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a kind is trained with where the plan leaves it open."""

    learning_rate: float
    #: Pairs of a step, and most pairs that are trained on.
    batch_size: int
    max_pairs: int


#: What `make bench-finetune` measured on questions of unseen conversations; a table takes many pairs in the time in
#: which a transformer takes few. In this order a run trains both: the quick one first.
RECIPES: dict[Kind, Recipe] = {
    "static": Recipe(learning_rate=2e-3, batch_size=128, max_pairs=5_000),
    "transformer": Recipe(learning_rate=5e-5, batch_size=32, max_pairs=1_500),
}


class FineTunePlan(ValidatedModel):
    """The plan of a fine-tune run: what is trained on what.

    Attributes:
        source_dir: documents (*.txt, *.md, *.rst, in folders of any depth); None where the fleet's own texts suffice.
        uses_memories: whether what agents remember, and how their tasks went, is trained on too.
        kind: a transformer, or a table of word vectors, which trains in seconds and embeds in microseconds; ``both``
            trains both, and the better one becomes the run's checkpoint.
        base_model: what is trained further, by name or folder; None for MiniLM, or the default table of words.
        epochs: how often each pair is seen, 1 or more.
        learning_rate: above 0, of one kind; None for 5e-5 of a transformer, 2e-3 of a table.
        temperature: of the contrastive loss, above 0.
        top_k: hard negatives for each pair, 1 or more.
        batch_size: pairs of a step, 1 or more; None for 32 of a transformer, 128 of a table. Memory may allow fewer.
        validation_split: share of the passages that are kept to measure by, above 0 and below 1.
        chunk_words: words of a passage, 16 or more.
        queries_per_passage: questions made of each passage, 1 to 8.
        llm_questions: most passages whose questions the policy's language model writes, up to 10,000; 0 asks none.
        max_pairs: most pairs that are trained on, 2 or more; None for 1,500 of a transformer, 5,000 of a table.
        minutes: most time that the training of a kind takes, above 0; fewer pairs are trained on where it is short.
        seed: of everything that is left to chance.
        threads: of the arithmetic, 1 to 128; with 1 the same seed gives the same checkpoint on one kind of CPU.
    """

    source_dir: DataPath | None = None
    uses_memories: bool = True
    kind: Literal["both", "transformer", "static"] = "both"
    base_model: ModelName | None = None
    epochs: int = Field(default=3, ge=1, le=1_000)
    learning_rate: float | None = Field(default=None, gt=0.0, le=1.0)
    temperature: float = Field(default=0.02, gt=0.0, le=10.0)
    top_k: int = Field(default=1, ge=1, le=64)
    batch_size: int | None = Field(default=None, ge=1, le=4_096)
    validation_split: float = Field(default=0.1, gt=0.0, lt=1.0)
    chunk_words: int = Field(default=512, ge=16, le=8_192)
    queries_per_passage: int = Field(default=2, ge=1, le=8)
    llm_questions: int = Field(default=0, ge=0, le=10_000)
    max_pairs: int | None = Field(default=None, ge=2, le=1_000_000)
    minutes: float = Field(default=30.0, gt=0.0, le=660.0)
    seed: int = Field(default=0, ge=0, lt=2**31)
    threads: int = Field(default=1, ge=1, le=128)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.source_dir is None and not self.uses_memories:
            raise MemoryInputError("source_dir", "must name documents where uses_memories is false")
        if self.kind == "static" and self.base_model not in {None, DEFAULT_STATIC}:
            raise MemoryInputError("base_model", f"must be {DEFAULT_STATIC} for kind static")
        if self.kind == "both" and self.learning_rate is not None:
            raise MemoryInputError("learning_rate", "differs by the kind: name one with it, static or transformer")
        return self

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that are trained, in order."""
        return tuple(RECIPES) if self.kind == "both" else (self.kind,)

    def recipe(self, kind: Kind) -> Recipe:
        """Return what a kind is trained with: as the plan says, or else as measured."""
        usual = RECIPES[kind]
        return Recipe(
            learning_rate=self.learning_rate or usual.learning_rate,
            batch_size=self.batch_size or usual.batch_size,
            max_pairs=self.max_pairs or usual.max_pairs,
        )

    @property
    def is_gathered(self) -> bool:
        """Whether the worker gathers passages for the first stage: memories, or what a model wrote questions for."""
        return self.uses_memories or self.llm_questions > 0

"""What ``memtend finetune plan`` and ``start`` are asked for: the options of a plan, and the plan that they make."""

from pathlib import Path
from typing import Annotated, Any

import typer

from memcore.models.finetune import FineTunePlan

SourceDir = Annotated[
    Path | None, typer.Option("--source-dir", help="Folder of documents (*.txt, *.md, *.rst, at any depth).")
]
Memories = Annotated[
    bool, typer.Option("--memories/--no-memories", help="Train on what agents remember, and their tasks, too.")
]
Kind = Annotated[str, typer.Option(help="transformer, or static: a table of word vectors.")]
BaseModel = Annotated[str | None, typer.Option(help="What is trained further: a model's name or folder.")]
Epochs = Annotated[int | None, typer.Option(help="How often each pair is seen.")]
LearningRate = Annotated[float | None, typer.Option(help="Above 0.")]
Temperature = Annotated[float | None, typer.Option(help="Of the contrastive loss, above 0.")]
TopK = Annotated[int | None, typer.Option(help="Hard negatives for each pair.")]
BatchSize = Annotated[int | None, typer.Option(help="Pairs of a step.")]
ValidationSplit = Annotated[float | None, typer.Option(help="Share of the passages that is kept to measure by.")]
ChunkWords = Annotated[int | None, typer.Option(help="Words of a passage.")]
Queries = Annotated[int | None, typer.Option("--queries-per-passage", help="Questions made of each passage.")]
LlmQuestions = Annotated[
    int | None,
    typer.Option("--llm-questions", help="Most passages whose questions the language model writes; 0 asks none."),
]
MaxPairs = Annotated[int | None, typer.Option(help="Most pairs that are trained on.")]
Seed = Annotated[int | None, typer.Option(help="Of everything that is left to chance.")]
Threads = Annotated[
    int | None, typer.Option(help="Of the arithmetic, 1 to 128; 1, the default, gives the same checkpoint again.")
]


def plan_of(*, source_dir: Path | None, uses_memories: bool, base_model: str | None, **reported: Any) -> FineTunePlan:
    """Return the plan; paths count from where the command is called. Raises MemoryInputError, naming the field."""
    # The worker that reads them stands elsewhere.
    base = str(Path(base_model).absolute()) if base_model is not None and Path(base_model).is_dir() else base_model
    fields = {name: value for name, value in reported.items() if value is not None}
    source = None if source_dir is None else str(source_dir.absolute())
    return FineTunePlan.model_validate(
        {**fields, "source_dir": source, "uses_memories": uses_memories, "base_model": base}
    )

"""``make bench-finetune``: the gain of fine-tuning on unlabelled texts of LoCoMo; see docs/benchmarks/.

Training sees the turns of conversations 1 to 5 with questions made of their own words; the share of meaning in the
fused search is chosen there too, for the trained model on questions whose answers were not trained on. What is shown
is of the questions of 6 and 7.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks.finetune.judging import Judged  # noqa: E402  # a script must find the tree first
from benchmarks.retrieval.conversations import FOLDER, Conversation, conversations  # noqa: E402
from rich.console import Console  # noqa: E402

from memcore.embedding.bm25 import fold  # noqa: E402
from memcore.errors import FineTuneDependencyError  # noqa: E402
from memcore.finetune.checkpoint import STATIC, load_checkpoint, load_static, read_manifest  # noqa: E402
from memcore.finetune.dataset import questions_before  # noqa: E402
from memcore.finetune.documents import Passage, Triple, read_lines  # noqa: E402
from memcore.finetune.encoder import Encoder, load_model, needed  # noqa: E402
from memcore.finetune.evaluate import Improvement, compare  # noqa: E402
from memcore.finetune.generate import TRAINING_FILE, generate  # noqa: E402
from memcore.finetune.markers import StageProgress  # noqa: E402
from memcore.finetune.mine import TRIPLES_FILE, mine  # noqa: E402
from memcore.finetune.runner_config import GeneratingConfig, TrainingConfig  # noqa: E402
from memcore.finetune.train import train  # noqa: E402
from memcore.models.finetune import RECIPES, FineTuneStage  # noqa: E402

#: What the bench was built to watch, for a transformer.
WANTED_DENSE = 0.40


def main(argv: Sequence[str]) -> int:
    """Measure and print; 1 when a target is missed, or one seed gives two checkpoints."""
    parser = argparse.ArgumentParser(description="Fine-tuning without labels: what it gains on held-out conversations.")
    parser.add_argument("--kind", choices=("transformer", STATIC), default="transformer")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--negatives", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--twice", action="store_true", help="train the first seed twice, and compare the checkpoints")
    options = parser.parse_args(argv)
    console, corpus = Console(highlight=False, width=170), conversations()
    if not corpus:
        console.print(f"fine-tuning: skipped: no data (set {FOLDER} to a folder of conversation_*.json)")
        return 0
    try:
        needed("torch").set_num_threads(1)
        needed("sentence_transformers")
    except FineTuneDependencyError as error:
        console.print(f"fine-tuning: skipped: {error}")
        return 0
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    return _measure(options, corpus[:5], corpus[5:7], console)


def _measure(
    options: argparse.Namespace, seen: list[Conversation], held_out: list[Conversation], console: Console
) -> int:
    base = _encoder(options.kind, _base(options.kind))
    weight = Judged(base, seen).best_weight()
    old = Judged(base, held_out)
    dense, fused = old.dense(), old.fused(weight)
    console.print(
        f"{options.kind}, {len(dense)} questions of {len(held_out)} conversations; "
        f"base: dense {dense.mean():.3f}, fused {fused.mean():.3f} at {weight}"
    )
    is_met = True
    for seed in options.seeds:
        with tempfile.TemporaryDirectory(prefix="memtend-bench-") as folder:
            begun = time.monotonic()
            checkpoint = _trained(options, seen, seed, Path(folder))
            seconds = time.monotonic() - begun
            new = _encoder(options.kind, load_checkpoint(checkpoint))
            new_weight = Judged(new, _unseen(seen, checkpoint.parent)).best_weight()
            judged = Judged(new, held_out)
            now, both = judged.dense(), judged.fused(new_weight)
            gain = now.mean() / dense.mean() - 1.0
            improvement = compare(both, fused, seed=0)
            console.print(
                f"seed {seed}: dense {now.mean():.3f} ({gain:+.1%}, {_improvement_text(compare(now, dense, seed=0))}), "
                f"fused {both.mean():.3f} at {new_weight} ({_improvement_text(improvement)}), "
                f"at the base's weight {judged.fused(weight).mean():.3f}; {seconds:.0f} s, "
                f"{read_manifest(checkpoint).sha256[:12]}"
            )
            is_met = is_met and improvement.low > 0.0 and (options.kind == STATIC or gain >= WANTED_DENSE)
            if options.twice and seed == options.seeds[0]:
                again = _trained(options, seen, seed, Path(folder, "again"))
                same = read_manifest(again).sha256 == read_manifest(checkpoint).sha256
                console.print(f"seed {seed} again: {'the same' if same else 'ANOTHER'} checkpoint")
                is_met = is_met and same
    console.print(
        f"Python {platform.python_version()}, torch {needed('torch').__version__} on one thread, "
        f"load {os.getloadavg()[0]:.1f}: targets {'met' if is_met else 'MISSED'}"
    )
    return 0 if is_met else 1


def _trained(options: argparse.Namespace, seen: list[Conversation], seed: int, folder: Path) -> Path:
    passages = [each for conversation in seen for each in _passages(conversation)]
    asked = GeneratingConfig(
        stage=FineTuneStage.GENERATING_DATA,
        output_dir=str(folder),
        seed=seed,
        max_pairs=options.pairs or RECIPES[options.kind].max_pairs,
        queries_per_passage=2,
        validation_split=0.05,
    )
    generate(passages, asked, folder, watch=StageProgress())
    base = _encoder(options.kind, _base(options.kind))
    mine(folder / TRAINING_FILE, base, folder, top_k=options.negatives, watch=StageProgress())
    config = TrainingConfig(
        stage=FineTuneStage.TRAINING,
        output_dir=str(folder),
        training_data_path=str(folder / TRIPLES_FILE),
        kind=options.kind,
        seed=seed,
        epochs=options.epochs,
        learning_rate=options.learning_rate,
        max_pairs=options.pairs,
        # The bench waits for as long as it takes: figures must not depend on the machine.
        minutes=660.0,
    )
    return train(folder / TRIPLES_FILE, folder, config, watch=StageProgress())


def _unseen(seen: list[Conversation], folder: Path) -> list[Conversation]:
    """Return the conversations with the questions whose answers were not trained on: those would praise the model."""
    trained = {triple.positive for triple in read_lines(folder / TRIPLES_FILE, Triple)}
    return [
        _without(conversation, {turn.name for turn in conversation.turns if turn.stored_text in trained})
        for conversation in seen
    ]


def _without(conversation: Conversation, names: set[str]) -> Conversation:
    return replace(conversation, questions=tuple(each for each in conversation.questions if not each.evidence & names))


def _passages(conversation: Conversation) -> Iterator[Passage]:
    """Yield what is said with what the remark before it asked, as the product gathers what agents remember."""
    for place, turn in enumerate(conversation.turns):
        earlier = conversation.turns[place - 1] if place else turn
        is_same_talk = earlier is not turn and earlier.day == turn.day
        asked = questions_before(turn.stored_text, earlier.stored_text) if is_same_talk else ()
        yield Passage(text=turn.stored_text, source="memory", questions=asked)


def _base(kind: str) -> Any:
    return load_static() if kind == STATIC else load_model(None)


def _encoder(kind: str, model: Any) -> Encoder:
    return Encoder(model, prepared=fold) if kind == STATIC else Encoder(model)


def _improvement_text(improvement: Improvement) -> str:
    return f"{improvement.mean:+.3f} [{improvement.low:+.3f}, {improvement.high:+.3f}]"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

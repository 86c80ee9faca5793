"""Sizes a training: what one measured step takes decides the batch that memory holds and the pairs that time allows.

Memory is counted by what a step keeps for its way back, and not by the process's size, which depends on the allocator:
the same model, texts and free memory give the same batch.
"""

import random
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from memcore.embedding.bm25 import fold
from memcore.errors import FineTuneStageError
from memcore.finetune.documents import Triple
from memcore.finetune.encoder import needed
from memcore.models.base import Frozen
from memcore.models.finetune import Kind

#: The file in which a training says what it did.
SIZES_FILE = "training_sizes.json"

#: Share of the free memory that a training may take, and what a step takes for each byte that it keeps: the rest is
#: what the allocator and the way back take for a moment. A training's peak was 1.35 times what is kept (MiniLM, a batch
#: of 32 with texts of 60 words, CPU).
_SHARE = 0.7
_OVERHEAD = 1.7

#: Copies of the weights that a training holds beside them: the gradients, and two of the optimizer (Adam).
_COPIES = 3

#: Fewest pairs of a step: the other passages of a batch are its negatives.
_LEAST_BATCH = 2

#: Rows that are looked at for the longest texts of a step.
_LOOKED_AT = 2_000

_CGROUP = Path("/sys/fs/cgroup")
_PROC = Path("/proc")


class StepCost(Frozen):
    """What one step takes: seconds and bytes of each pair, and bytes whatever the batch."""

    seconds_per_pair: float
    bytes_per_pair: int
    fixed_bytes: int


class Sizes(Frozen):
    """What a training of a kind will take, or took: the sizes that memory and time allow.

    Attributes:
        pairs: pairs that are trained on, of the ``wanted`` ones.
        seconds: of the training, as one measured step promises.
        bytes: at its peak, beside the process itself.
        free_bytes: what the machine, its container or its GPU had free.
    """

    kind: Kind
    batch_size: int
    pairs: int
    wanted: int
    seconds: float
    bytes: int
    free_bytes: int


def sized(
    cost: StepCost, *, kind: Kind, free_bytes: int, minutes: float, batch_size: int, pairs: int, epochs: int
) -> Sizes:
    """Return the sizes: a batch that is too large is halved until it fits, and pairs beyond the time are left out.

    Raises FineTuneStageError: the memory does not hold the least step.
    """
    batch = max(min(batch_size, pairs), 1)
    while batch > _LEAST_BATCH and _bytes(cost, batch) > free_bytes * _SHARE:
        batch = max(batch // 2, _LEAST_BATCH)
    if _bytes(cost, batch) > free_bytes * _SHARE:
        raise FineTuneStageError(
            f"the least step takes {_bytes(cost, batch) / 2**30:.1f} GiB, and {free_bytes / 2**30:.1f} GiB are free: "
            "give it more memory, or shorter passages (--chunk-words)"
        )
    affordable = int(minutes * 60.0 / (cost.seconds_per_pair * epochs)) if cost.seconds_per_pair else pairs
    # By whole batches, so that small differences between two measurements seldom matter.
    kept = pairs if affordable >= pairs else max(affordable // batch, 1) * batch
    return Sizes(
        kind=kind,
        batch_size=batch,
        pairs=min(kept, pairs),
        wanted=pairs,
        seconds=min(kept, pairs) * epochs * cost.seconds_per_pair,
        bytes=_bytes(cost, batch),
        free_bytes=free_bytes,
    )


def _bytes(cost: StepCost, batch: int) -> int:
    return cost.fixed_bytes + cost.bytes_per_pair * batch


def free_bytes(root: Path = _CGROUP, proc: Path = _PROC) -> int:
    """Return what this machine, or the container around this process, has free; what caches hold counts as free."""
    free = [_available(proc)]
    own = _text(proc / "self" / "cgroup")
    for line in own.splitlines():
        _, controllers, place = line.split(":", 2)
        if not controllers:
            free += _left(root, place, limit="memory.max", used="memory.current")
        elif "memory" in controllers.split(","):
            names = {"limit": "memory.limit_in_bytes", "used": "memory.usage_in_bytes"}
            free += _left(root / "memory", place, **names)
    return min(free)


def _available(proc: Path) -> int:
    for line in _text(proc / "meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1_024
    # Another system than Linux: nothing is known, and nothing is refused.
    return 2**40


def _left(root: Path, place: str, *, limit: str, used: str) -> list[int]:
    """Return what each group around this process leaves; the innermost that is seen may be the root."""
    found = []
    groups = Path(place.lstrip("/"))
    for folder in (root / groups, *(root / parent for parent in groups.parents)):
        most, taken = _text(folder / limit).strip(), _text(folder / used).strip()
        if most.isdigit() and taken.isdigit():
            # Files that are cached are given back when memory is needed.
            found.append(max(int(most) - int(taken) + _cached(folder), 0))
    return found


def _cached(folder: Path) -> int:
    for line in _text(folder / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name in {"inactive_file", "total_inactive_file"} and value.isdigit():
            return int(value)
    return 0


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text("ascii", "replace")
    return ""


def free_memory(model: Any) -> int:
    """Return what is free where a model lies: its GPU's memory, or the machine's."""
    torch = needed("torch")
    if device_of(model).type == "cuda":
        return int(torch.cuda.mem_get_info()[0])
    return free_bytes()


def device_of(model: Any) -> Any:
    """Return the device of a model's weights."""
    return next(model.parameters()).device


def sizes_of(
    model: Any,
    rows: Sequence[Triple],
    *,
    kind: Kind,
    batch_size: int,
    pairs: int,
    temperature: float,
    minutes: float,
    epochs: int,
) -> Sizes:
    """Return the sizes of a training of a model on rows such as these, by one measured step; the model stays as it was.

    Memory is of a step of the longest texts, since a batch is as long as its longest text; time of one of usual texts.
    Where there is a GPU, the model lies there afterwards. Raises FineTuneStageError: too little memory.
    """
    torch = needed("torch")
    if torch.cuda.is_available():
        model.to("cuda")
    step, free = _Step(model, kind=kind, temperature=temperature), free_memory(model)
    cost = StepCost(
        seconds_per_pair=0.0,
        bytes_per_pair=int(step.kept(_longest(rows)) * _OVERHEAD / _LEAST_BATCH),
        fixed_bytes=sum(each.numel() * each.element_size() for each in model.parameters()) * _COPIES,
    )
    fitting = sized(
        cost, kind=kind, free_bytes=free, minutes=minutes, batch_size=batch_size, pairs=pairs, epochs=epochs
    )
    some = random.Random(0).sample(list(rows), fitting.batch_size)  # noqa: S311  # a sample of lengths, no secret
    cost = cost.model_copy(update={"seconds_per_pair": step.seconds(some) / fitting.batch_size})
    return sized(cost, kind=kind, free_bytes=free, minutes=minutes, batch_size=batch_size, pairs=pairs, epochs=epochs)


def _longest(rows: Sequence[Triple]) -> list[Triple]:
    looked_at = rows[:_LOOKED_AT]
    texts = max((text for row in looked_at for text in (row.positive, *row.negatives)), key=len)
    negatives = max(len(row.negatives) for row in looked_at)
    worst = Triple(query=max((row.query for row in looked_at), key=len), positive=texts, negatives=(texts,) * negatives)
    return [worst] * _LEAST_BATCH


class _Step:
    """A training step as the trainer makes it: forward, loss, the way back, and an optimizer that moves nothing."""

    def __init__(self, model: Any, *, kind: Kind, temperature: float) -> None:
        self._torch = needed("torch")
        self._model = model
        self._prepared = fold if kind == "static" else str
        losses = needed("sentence_transformers.sentence_transformer.losses")
        self._loss = losses.MultipleNegativesRankingLoss(model, scale=1.0 / temperature)
        self._weights = {each.untyped_storage().data_ptr() for each in model.parameters()}

    def kept(self, rows: Sequence[Triple]) -> int:
        """Return the bytes that a step keeps for its way back."""
        seen: dict[int, int] = {}

        def keep(tensor: Any) -> Any:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in self._weights:
                seen[storage.data_ptr()] = storage.nbytes()
            return tensor

        was_training = self._model.training
        self._model.train()
        with self._torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), self._precision():
            loss = self._forward(rows)
        del loss
        self._model.train(was_training)
        return sum(seen.values())

    def seconds(self, rows: Sequence[Triple]) -> float:
        """Return how long the second of two steps takes; the first one prepares what the others use."""
        optimizer = self._torch.optim.AdamW(self._model.parameters(), lr=0.0, weight_decay=0.0)
        was_training = self._model.training
        self._model.train()
        taken = 0.0
        for _ in range(2):
            begun = time.perf_counter()
            with self._precision():
                loss = self._forward(rows)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if device_of(self._model).type == "cuda":
                self._torch.cuda.synchronize()
            taken = time.perf_counter() - begun
        self._model.train(was_training)
        return taken

    def _forward(self, rows: Sequence[Triple]) -> Any:
        most = min(len(row.negatives) for row in rows)
        columns = [[row.query for row in rows], [row.positive for row in rows]]
        columns += [[row.negatives[place] for row in rows] for place in range(most)]
        device = device_of(self._model)
        features = []
        for column in columns:
            made = self._model.preprocess([self._prepared(text) for text in column])
            features.append({name: value.to(device) if hasattr(value, "to") else value for name, value in made.items()})
        return self._loss(features, None)

    def _precision(self) -> Any:
        if has_bf16() and device_of(self._model).type == "cuda":
            return self._torch.autocast("cuda", dtype=self._torch.bfloat16)
        return nullcontext()


def has_bf16() -> bool:
    """Whether the GPU computes in bfloat16; a CPU stays with full precision, whose results are the same each time."""
    torch = needed("torch")
    return bool(torch.cuda.is_available() and torch.cuda.is_bf16_supported())

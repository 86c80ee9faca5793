"""Small checkpoints as fine-tuning leaves them, made without it."""

from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

#: The words of the small table; all others are one token.
WORDS = (
    "[UNK]",
    "the",
    "a",
    "is",
    "that",
    "with",
    "and",
    "tea",
    "tidy",
    "garden",
    "queue",
    "full",
    "payment",
    "failed",
)


def static_checkpoint(folder: Path, *, dims: int = 32, seed: int = 0) -> Path:
    """Write a table of word vectors that point anywhere, and return its folder."""
    folder.mkdir(parents=True)
    table = np.random.default_rng(seed).normal(size=(len(WORDS), dims)).astype(np.float32)
    save_file({"embedding.weight": table}, folder / "table.safetensors")
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder

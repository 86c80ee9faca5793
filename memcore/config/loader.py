"""From a policy file to a Policy, or to one sentence that says what is wrong with it."""

import json
from pathlib import Path

from pydantic import ValidationError

from memcore.config.advice import log_once
from memcore.config.injection import InjectionStrategy
from memcore.config.keys import keys
from memcore.config.policy import Policy
from memcore.config.problem import problem
from memcore.config.stack_file import opened_regular
from memcore.config.yaml_source import parse_yaml
from memcore.errors import MemoryConfigError

#: Largest policy file, in bytes (256 KiB); core policies go into every prompt, so a larger one is a mistake.
MAX_POLICY_BYTES = 262_144


def effective_policy(path: Path | None) -> Policy:
    """Return what a policy file says, or what holds where none is named: the defaults.

    Everything that memtend starts asks here. The file that `memtend up` writes says the same (a test compares them).

    Raises MemoryConfigError as `load_policy`.
    """
    return Policy() if path is None else load_policy(path)


def load_policy(source: Path | str) -> Policy:
    """Read a policy from a file (Path) or from YAML text (str).

    A setting that is valid and has no effect is logged as a warning, once in a process.

    Raises:
        MemoryConfigError: it cannot be read, is wrong, or asks for what this release lacks; the sentence names the
            dotted key and the limit.
    """
    text, name = (_read(source), str(source)) if isinstance(source, Path) else (source, "policy")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_POLICY_BYTES:
        raise MemoryConfigError(f"{name}: is larger than {MAX_POLICY_BYTES} bytes")
    tree = parse_yaml(text, source=name)
    try:
        # Strict JSON takes "20" for no number and yes for no count, and still takes a list for a tuple.
        policy = Policy.model_validate_json(json.dumps(tree), strict=True)
    except ValidationError as error:
        raise MemoryConfigError(problem(error, [key.name for key in keys(Policy)])) from None
    except (TypeError, ValueError):
        # Explicit tags such as !!set or !!binary build what JSON has no word for.
        raise MemoryConfigError(f"{name}: holds a value that is no text, number, list or mapping") from None
    _refuse_absent(policy)
    log_once(policy.warnings)
    return policy


def _refuse_absent(policy: Policy) -> None:
    # Here and not in the models: an engine may give a retriever or a re-ranker of its own in code.
    retrieval = policy.memory.retrieval
    absent = {
        "strategy": (retrieval.strategy, InjectionStrategy.CONTEXT, "context is the only one there is"),
        "retriever": (retrieval.retriever, "flat", "flat is the only one there is"),
        "query_specific_rerank_enabled": (
            "true" if retrieval.query_specific_rerank_enabled else "false",
            "false",
            "memories come in the order of their scores",
        ),
    }
    for key, (value, present, instead) in absent.items():
        if value != present:
            raise MemoryConfigError(f"memory.retrieval.{key}: {value} is not in this release; {instead}")


def _read(path: Path) -> str:
    try:
        with opened_regular(path) as file:
            # One byte more than allowed tells "too large" without reading a huge file or an endless device.
            data = file.read(MAX_POLICY_BYTES + 1)
    except OSError as error:
        raise MemoryConfigError(f"{path}: cannot be read ({error.strerror or type(error).__name__})") from None
    if len(data) > MAX_POLICY_BYTES:
        raise MemoryConfigError(f"{path}: is larger than {MAX_POLICY_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise MemoryConfigError(f"{path}: is not UTF-8 text") from None

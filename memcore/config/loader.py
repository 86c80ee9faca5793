"""The loader of policy files: returns a Policy, or raises one sentence that says what is wrong."""

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from memcore.config.errors import key_names, validation_message
from memcore.config.llm import WITH_SECRETS
from memcore.config.policy import Policy, log_once
from memcore.config.settings import opened_regular
from memcore.errors import MemoryConfigError

#: Deepest nesting of a policy file; the deepest key has six levels, and deep enough nesting ends in a RecursionError.
MAX_DEPTH = 32


def parse_yaml(text: str, source: str) -> Any:
    """Return what a YAML text holds, None for an empty text; errors call the text ``source``.

    Anchors, deep nesting and keys that are given twice are refused; dates stay texts. Raises MemoryConfigError.
    """
    try:
        _refuse_traps(text, source)
        return yaml.load(text, Loader=_PlainLoader)  # noqa: S506  # _PlainLoader is a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}" if mark else ""
        raise MemoryConfigError(f"{source}{place}: {error.problem or 'is not valid YAML'}") from None
    except (yaml.YAMLError, ValueError) as error:
        # A ValueError is a date like 2026-99-99. Both may quote the text, so only their kind is named.
        raise MemoryConfigError(f"{source}: is not valid YAML ({type(error).__name__})") from None


def _refuse_traps(text: str, source: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        # A few nested aliases unfold into gigabytes.
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise MemoryConfigError(f"{source}: anchors and aliases are not accepted; write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise MemoryConfigError(f"{source}: nests deeper than {MAX_DEPTH} levels")


class _PlainLoader(yaml.SafeLoader):
    """Builds mappings with text keys, each once, and leaves dates as text."""

    def plain_mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode) or not isinstance(key, str):
                raise yaml.MarkedYAMLError(problem="a key should be plain text", problem_mark=key_node.start_mark)
            # YAML itself takes the last of two equal keys: the first would be lost silently.
            if key in mapping:
                raise yaml.MarkedYAMLError(problem=f"the key {key} is given twice", problem_mark=key_node.start_mark)
            mapping[key] = self.construct_object(value_node, deep=True)
        return mapping

    def plain_date(self, node: yaml.ScalarNode) -> str:
        value = self.construct_yaml_timestamp(node)
        return value.isoformat() if isinstance(value, date) else str(value)


_PlainLoader.add_constructor("tag:yaml.org,2002:map", _PlainLoader.plain_mapping)
_PlainLoader.add_constructor("tag:yaml.org,2002:timestamp", _PlainLoader.plain_date)


#: Largest policy file, in bytes (256 KiB); core policies go into every prompt, so a larger one is a mistake.
MAX_POLICY_BYTES = 262_144


def effective_policy(path: Path | None) -> Policy:
    """Return the policy of a file, or the defaults, which the file of `memtend up` says too; raises as load_policy."""
    return Policy() if path is None else load_policy(path)


def load_policy(source: Path | str) -> Policy:
    """Read a policy from a file (Path) or from YAML text (str).

    A setting that is valid and has no effect is logged as a warning, once in a process.

    Raises:
        MemoryConfigError: it cannot be read or is wrong; the message names the dotted key and the limit.
    """
    return build_policy(read_document(source))


def read_document(source: Path | str) -> dict[str, Any]:
    """Return the mapping that a policy file (Path) or YAML text (str) holds, unchecked. Raises MemoryConfigError."""
    text, name = (read_bounded(source), str(source)) if isinstance(source, Path) else (source, "policy")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_POLICY_BYTES:
        raise MemoryConfigError(f"{name}: is larger than {MAX_POLICY_BYTES} bytes")
    tree = parse_yaml(text, name)
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise MemoryConfigError(f"{name}: should be a mapping with the sections memory and org_memory")
    return tree


def build_policy(document: Mapping[str, Any], *, base: Policy | None = None) -> Policy:
    """Return the policy that a document says; what it leaves out is as in ``base``. Raises as :func:`load_policy`."""
    # Only what somebody has set: a default that depends on another key must follow that key.
    below = {} if base is None else base.model_dump(mode="json", exclude_unset=True, context={WITH_SECRETS: True})
    tree = _overlaid(below, document)
    try:
        # Strict JSON takes "20" for no number and yes for no count, and still takes a list for a tuple.
        policy = Policy.model_validate_json(json.dumps(tree), strict=True)
    except ValidationError as error:
        raise MemoryConfigError(validation_message(error, list(key_names(Policy)))) from None
    except (TypeError, ValueError):
        # Explicit tags such as !!set or !!binary build what JSON has no word for.
        raise MemoryConfigError("policy: holds a value that is no text, number, list or mapping") from None
    for sentence in policy.warnings:
        log_once(sentence)
    return policy


def _overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping):
            merged[key] = _overlaid(below[key], above[key])
    return merged


def read_bounded(path: Path, *, most_bytes: int = MAX_POLICY_BYTES) -> str:
    """Return the text of a file that somebody wrote. Raises MemoryConfigError, also for a larger file."""
    try:
        with opened_regular(path) as file:
            # One byte more than allowed tells "too large" without reading a huge file or an endless device.
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise MemoryConfigError(f"{path}: cannot be read ({error.strerror or type(error).__name__})") from None
    if len(data) > most_bytes:
        raise MemoryConfigError(f"{path}: is larger than {most_bytes} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise MemoryConfigError(f"{path}: is not UTF-8 text") from None

"""YAML as JSON has it: plain mappings out, and nothing that could surprise its writer or exhaust its reader."""

from datetime import date
from typing import Any

import yaml

from memcore.errors import MemoryConfigError

#: Deepest nesting of a policy file; the deepest key has six levels, and deep enough nesting ends in a RecursionError.
MAX_DEPTH = 32


def parse_yaml(text: str, *, source: str) -> dict[str, Any]:
    """Return the mapping that the text holds; an empty text holds an empty one.

    Args:
        text: one YAML document.
        source: how errors call it.

    Raises:
        MemoryConfigError: it is no YAML, not one mapping, holds a key twice, an anchor, or a tag of its own.
    """
    try:
        _refuse_traps(text, source)
        tree = yaml.load(text, Loader=_PlainLoader)  # noqa: S506  # _PlainLoader is a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}" if mark else ""
        raise MemoryConfigError(f"{source}{place}: {error.problem or 'is not valid YAML'}") from None
    except (yaml.YAMLError, ValueError) as error:
        # A ValueError is a date like 2026-99-99. Both may quote the text, so only their kind is told.
        raise MemoryConfigError(f"{source}: is not valid YAML ({type(error).__name__})") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise MemoryConfigError(f"{source}: should be a mapping with the sections memory and org_memory")
    return tree


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
            # YAML itself takes the last of two equal keys: the first would be lost without a word.
            if key in mapping:
                raise yaml.MarkedYAMLError(problem=f"the key {key} is given twice", problem_mark=key_node.start_mark)
            mapping[key] = self.construct_object(value_node, deep=True)
        return mapping

    def plain_date(self, node: yaml.ScalarNode) -> str:
        value = self.construct_yaml_timestamp(node)
        return value.isoformat() if isinstance(value, date) else str(value)


_PlainLoader.add_constructor("tag:yaml.org,2002:map", _PlainLoader.plain_mapping)
_PlainLoader.add_constructor("tag:yaml.org,2002:timestamp", _PlainLoader.plain_date)

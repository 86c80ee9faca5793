"""The effective policy, key by key: each value and its origin."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from memcore.config.memory import KEY_ALIASES
from memcore.config.policy import Policy
from memcore.models.base import Frozen


class Origin(StrEnum):
    """Where a value comes from: the default, the policy file, or another key of the file that decides it too."""

    DEFAULT = "default"
    FILE = "file"
    KEY_ALIAS = "twin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    """One key, dotted from the top of the file, with the value that counts, as JSON has it, and its origin."""

    key: str
    value: Any
    origin: Origin


def explain(policy: Policy) -> Iterator[Effective]:
    """Yield every effective key in the order of the models; a section that is None counts as one key."""
    leaves = list(_leaves(policy, ""))
    given = {leaf.key for leaf in leaves if leaf.origin is Origin.FILE}
    alias = {f"memory.{key}": f"memory.{other}" for pair in KEY_ALIASES for key, other in (pair, pair[::-1])}
    for leaf in leaves:
        follows = leaf.origin is Origin.DEFAULT and alias.get(leaf.key) in given
        yield Effective(key=leaf.key, value=leaf.value, origin=Origin.KEY_ALIAS) if follows else leaf


def _leaves(model: Frozen, under: str) -> Iterator[Effective]:
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, Frozen):
            yield from _leaves(value, f"{under}{name}.")
            continue
        plain = model.model_dump(mode="json", include={name})[name]
        origin = Origin.FILE if name in model.model_fields_set else Origin.DEFAULT
        if origin is Origin.DEFAULT and value != field.default:
            origin = Origin.KEY_ALIAS  # as archival.dual_mode.enabled chooses the strategy
        yield Effective(key=under + name, value=plain, origin=origin)

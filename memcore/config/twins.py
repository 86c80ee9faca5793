"""Settings that the reference lets a person write in two places."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from memcore.frozen import Frozen


@dataclass(frozen=True, slots=True)
class Twins:
    """Two keys under ``memory`` that mean one thing; the value of ``winner`` counts (SPEC decision 3).

    Args:
        winner: path to the key under ``consolidation``.
        other: path to the key under ``options``.
    """

    winner: tuple[str, ...]
    other: tuple[str, ...]


#: The third pair is not named by the decision, but without it options.retention_days would be a key without effect.
TWINS = (
    Twins(("consolidation", "interval"), ("options", "consolidation_interval")),
    Twins(("consolidation", "max_memories_per_agent"), ("options", "max_memories_per_agent")),
    Twins(("consolidation", "retention", "default_retention_days"), ("options", "retention_days")),
)


def reconcile(memory: Frozen) -> Iterator[tuple[str, Frozen]]:
    """Yield the sections of ``memory`` that change when both keys of each pair hold the value that counts.

    Raises:
        ValueError: both keys of a pair were given, with different values.
    """
    sections: dict[str, Frozen] = {name: getattr(memory, name) for name in ("options", "consolidation")}
    for twins in TWINS:
        winner, other = (_read(sections[path[0]], path[1:]) for path in (twins.winner, twins.other))
        if winner.is_given and other.is_given and winner.value != other.value:
            raise ValueError(
                f"memory.{'.'.join(twins.winner)} and memory.{'.'.join(twins.other)} mean the same and differ; "
                "give one of them"
            )
        target, value = (twins.winner, other.value) if other.is_given else (twins.other, winner.value)
        sections[target[0]] = _with(sections[target[0]], target[1:], value)
    yield from sections.items()


@dataclass(frozen=True, slots=True)
class _Reading:
    value: Any
    is_given: bool


def _read(model: Frozen, path: tuple[str, ...]) -> _Reading:
    head, *rest = path
    value = getattr(model, head)
    return _read(value, tuple(rest)) if rest else _Reading(value, head in model.model_fields_set)


def _with(model: Frozen, path: tuple[str, ...], value: Any) -> Frozen:
    head, *rest = path
    fields = {name: getattr(model, name) for name in type(model).model_fields}
    fields[head] = _with(fields[head], tuple(rest), value) if rest else value
    # Not model_copy, which would mark the key as given: `memtend config show` tells what the person wrote.
    return type(model).model_construct(_fields_set=set(model.model_fields_set), **fields)

"""Receipts of erasures and reports of distrusts: what was found, signed with a key of this installation."""

import hashlib
import hmac
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.models.base import Frozen
from memcore.models.distrust import DistrustRule
from memcore.models.memory import BoundedTime

#: Where earlier releases kept the key, under the data folder.
KEY_FILE = "erasure.key"

_Object: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


class PlaceReceipt(Frozen):
    """What a place held.

    Attributes:
        found: rows, points, files or messages that were found, and removed.
        left: those that a last look found: 0 in every receipt.
    """

    found: int
    left: int


class ErasureReceipt(Frozen):
    """The receipt of an erasure; it has ids, counts and times, and no text.

    Attributes:
        subject: the person whose memory went; None for all of the agent.
        places: by name; tables, the store's collections, folders, the broker.
        rewritten: files and logs that were written anew, so that no bytes of what was deleted are in them.
        remains: what may still hold something, and who must look at it.
        checkpoints: embedding models that were trained before the erasure, perhaps on these texts; none for a person
            of whom no memory was found.
        retired: those of them that were retired: their rows and files are gone.
    """

    erasure_id: str
    company: str
    agent_id: str
    subject: str | None
    requested_by: str
    requested_at: BoundedTime
    finished_at: BoundedTime
    places: Mapping[str, PlaceReceipt]
    rewritten: tuple[str, ...]
    remains: tuple[str, ...]
    checkpoints: tuple[str, ...]
    retired: tuple[str, ...] = ()


class DistrustReport(Frozen):
    """What came of a distrusted source; it has ids and times, and no text.

    Attributes:
        completed_at: when all that came of it was found; None while that goes on, or where it was cut off.
        lifted_at: since when it is trusted again.
        memories: what is hidden, by agent: of it, or made of it.
        skills: the skills of it that stand, each with those that readers get instead.
        brought_back: memories that are not of it and came back out of merges with it, by agent.
        checkpoints: embedding models that were trained on memories, perhaps on these; a person retires them.
    """

    distrust_id: str
    company: str
    rule: DistrustRule
    reason: str
    by: str
    at: BoundedTime
    completed_at: BoundedTime | None
    lifted_at: BoundedTime | None
    memories: Mapping[str, tuple[str, ...]]
    brought_back: Mapping[str, tuple[str, ...]]
    checkpoints: tuple[str, ...]
    skills: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)


_Signed = TypeVar("_Signed", ErasureReceipt, DistrustReport)


def older_key(home: Path) -> bytes | None:
    """Return the key that an earlier release kept in a file of the data folder; None where there is none."""
    try:
        return bytes.fromhex((home / KEY_FILE).read_text("ascii"))
    except (OSError, ValueError):
        return None


def signed(receipt: ErasureReceipt | DistrustReport, key: bytes) -> str:
    """Return a receipt or a report as JSON with its signature, an HMAC-SHA256 over the rest."""
    content = receipt.model_dump(mode="json")
    return json.dumps({**content, "signature": _signature(content, key)}, indent=2, sort_keys=True)


def verified(text: str, keys: Collection[bytes], kind: type[_Signed]) -> _Signed:
    """Return what was signed with one of these keys, those of this installation.

    Raises MemoryInputError when it was changed or is none; MemoryConfigError when there is no key here.
    """
    field = "receipt" if kind is ErasureReceipt else "report"
    if not keys:
        raise MemoryConfigError("this ledger has no key yet: no receipt was ever signed here")
    try:
        content = _Object.validate_json(text)
        signature = content.pop("signature", None)
        receipt = kind.model_validate(content, extra="ignore")
    except (ValidationError, MemoryInputError):
        what = "receipt of an erasure" if kind is ErasureReceipt else "report of a distrust"
        raise MemoryInputError(field, f"is no {what}") from None
    if not isinstance(signature, str) or not any(
        hmac.compare_digest(signature, _signature(content, key)) for key in keys
    ):
        raise MemoryInputError(field, "was not signed here, or was changed since")
    return receipt


def _signature(content: Mapping[str, Any], key: bytes) -> str:
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hmac.new(key, plain.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

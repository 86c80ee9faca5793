"""The receipt of an erasure: what was found and what is left, signed with a key of this installation."""

import hashlib
import hmac
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.models.base import Frozen
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


def older_key(home: Path) -> bytes | None:
    """Return the key that an earlier release kept in a file of the data folder; None where there is none."""
    try:
        return bytes.fromhex((home / KEY_FILE).read_text("ascii"))
    except (OSError, ValueError):
        return None


def signed(receipt: ErasureReceipt, key: bytes) -> str:
    """Return the receipt as JSON with its signature, an HMAC-SHA256 over the rest."""
    content = receipt.model_dump(mode="json")
    return json.dumps({**content, "signature": _signature(content, key)}, indent=2, sort_keys=True)


def verified(text: str, keys: Collection[bytes]) -> ErasureReceipt:
    """Return a receipt that was signed with one of these keys, those of this installation.

    Raises MemoryInputError when it was changed or is none; MemoryConfigError when there is no key here.
    """
    if not keys:
        raise MemoryConfigError("this ledger has no key yet: no receipt was ever signed here")
    try:
        content = _Object.validate_json(text)
        signature = content.pop("signature", None)
        receipt = ErasureReceipt.model_validate(content, extra="ignore")
    except ValidationError:
        raise MemoryInputError("receipt", "is no receipt of an erasure") from None
    if not isinstance(signature, str) or not any(
        hmac.compare_digest(signature, _signature(content, key)) for key in keys
    ):
        raise MemoryInputError("receipt", "was not signed here, or was changed since")
    return receipt


def _signature(content: Mapping[str, Any], key: bytes) -> str:
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hmac.new(key, plain.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

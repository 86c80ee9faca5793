"""The receipt of an erasure: what was found and what is left, signed with a key of this installation."""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from memcore.config.settings import OWNER_ONLY
from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.models.base import Frozen
from memcore.models.memory import BoundedTime

#: Where the key lies, under the data folder; who has it can make receipts.
KEY_FILE = "erasure.key"

#: Bytes of the key.
_KEY_BYTES = 32

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


def signing_key(home: Path) -> bytes:
    """Return the key of an installation, which is made with the first receipt. Raises OSError."""
    path = home / KEY_FILE
    with suppress(FileExistsError):
        draft = home / f".{KEY_FILE}.{os.getpid()}"
        draft.unlink(missing_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            # Of two processes, the first one's key stays.
            os.link(draft, path)
        finally:
            draft.unlink()
    return bytes.fromhex(path.read_text("ascii"))


def signed(receipt: ErasureReceipt, key: bytes) -> str:
    """Return the receipt as JSON with its signature, an HMAC-SHA256 over the rest."""
    content = receipt.model_dump(mode="json")
    return json.dumps({**content, "signature": _signature(content, key)}, indent=2, sort_keys=True)


def verified(text: str, *, home: Path) -> ErasureReceipt:
    """Return a receipt that this installation has signed.

    Raises MemoryInputError when it was changed or is none; MemoryConfigError when there is no key here.
    """
    try:
        key = bytes.fromhex((home / KEY_FILE).read_text("ascii"))
    except (OSError, ValueError):
        raise MemoryConfigError(
            f"{home / KEY_FILE}: cannot be read, and without it no receipt can be verified"
        ) from None
    try:
        content = _Object.validate_json(text)
        signature = content.pop("signature", None)
        receipt = ErasureReceipt.model_validate(content)
    except ValidationError:
        raise MemoryInputError("receipt", "is no receipt of an erasure") from None
    if not isinstance(signature, str) or not hmac.compare_digest(signature, _signature(content, key)):
        raise MemoryInputError("receipt", "was not signed here, or was changed since")
    return receipt


def _signature(content: Mapping[str, Any], key: bytes) -> str:
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hmac.new(key, plain.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

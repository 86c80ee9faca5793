"""Facts of an organisation to and from the ledger's rows."""

import json
from collections.abc import Mapping
from typing import Any

from memcore.errors import MemoryRetrievalError
from memcore.frozen import escaped
from memcore.models import MAX_KEY_CHARS
from memcore.org_models import OperationLogEntry, OperationLogSnapshot, OrgFact, OrgFactAuthor, OrgFactWriteRequest

#: The form of the body; a reader refuses a newer one rather than guess.
_VERSION = 1


def encode(request: OrgFactWriteRequest) -> bytes:
    """Return the body of a fact: what has no column of its own."""
    body = {"version": _VERSION, "content": request.content, "tags": request.tags}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def author_row(author: OrgFactAuthor) -> dict[str, Any]:
    """Return the column of an author."""
    return author.model_dump(mode="json", exclude_defaults=True)


def fact_of(row: Mapping[str, Any]) -> OrgFact:
    """Return the fact of a row of org_facts."""
    return OrgFact.model_validate(
        {
            **_decoded(row["body"]),
            "id": row["fact_id"],
            "category": row["category"],
            "author": {name: _as_a_name(value) for name, value in row["author"].items()},
            "created_at": row["created_at"],
        }
    )


def snapshot_of(row: Mapping[str, Any]) -> OperationLogSnapshot:
    """Return the state of a row of org_facts, or of one that was read off the log."""
    return OperationLogSnapshot.model_validate(
        {
            **_decoded(row["body"]),
            "fact_id": row["fact_id"],
            "category": row["category"],
            "created_at": row["created_at"],
            "retracted_at": row["retracted_at"],
            "version": row["version"],
        }
    )


def operation_of(row: Mapping[str, Any]) -> OperationLogEntry:
    """Return the line of a row of org_log."""
    return OperationLogEntry.model_validate(
        {
            **({} if row["body"] is None else _decoded(row["body"])),
            **{f"author_{field}": value for field, value in row["author"].items()},
            "operation_id": row["operation_id"],
            "fact_id": row["fact_id"],
            "operation_type": row["operation"],
            "category": row["category"],
            "timestamp": row["at"],
            "version": row["version"],
        }
    )


def _as_a_name(value: Any) -> Any:
    # Older releases took control characters; a fact must not become unreadable for one.
    return escaped(value)[:MAX_KEY_CHARS] if isinstance(value, str) else value


def _decoded(data: bytes) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(data)
    version = body.pop("version")
    if version != _VERSION:
        raise MemoryRetrievalError(f"a fact has form {version}; this release reads form {_VERSION}")
    return body

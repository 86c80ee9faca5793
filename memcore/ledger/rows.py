"""Memories and other bodies as columns of a row, in a form that later releases read."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Boolean, Column, ColumnElement, LargeBinary, RowMapping, literal, true
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from memcore.embedding.bm25 import SparseVector
from memcore.errors import MemoryInputError, MemoryRetrievalError
from memcore.ledger.database import Row
from memcore.models.memory import EARLIEST, LATEST, MemoryEntry, within_range
from memcore.models.origin import OWN, UNREADABLE, Origin
from memcore.records import Lineage, MemoryRecord, Vectors

#: The form of the body; a reader refuses a newer one rather than guess.
_VERSION = 1

# Little-endian whatever the machine, so that a journal can move to another one.
_DENSE = np.dtype("<f4")
_INDEX = np.dtype("<u4")
# Sparse weights are Python floats: in 32 bits they would come back changed.
_WEIGHT = np.dtype("<f8")


#: The times of an entry.
_TIMES = ("created_at", "updated_at", "expires_at")


class RecordRow(NamedTuple):
    """One record's columns; ``body`` is JSON in ASCII, the vectors are raw little-endian numbers."""

    body: bytes
    dense: bytes | None
    sparse_indices: bytes | None
    sparse_values: bytes | None


def encode(record: MemoryRecord) -> RecordRow:
    """Return the record's columns; MemoryInputError when something in it could not be read back as it is."""
    body: dict[str, Any] = {
        "version": _VERSION,
        "entry": record.entry.model_dump(mode="json"),
        "lineage": asdict(record.lineage),
        "extra": record.extra,
    }
    if record.vectors is not None and record.vectors.space is not None:
        body["space"] = record.vectors.space
    try:
        # The standard library, not orjson: it writes NaN, lone surrogates and integers of any size so that they return.
        text = json.dumps(body, ensure_ascii=True, separators=(",", ":"))
    except (TypeError, ValueError):
        raise MemoryInputError("extra", "must be made of JSON values alone") from None
    if record.vectors is None:
        return RecordRow(text.encode("ascii"), None, None, None)
    dense, sparse = record.vectors.dense, record.vectors.sparse
    if dense.ndim != 1 or dense.dtype != np.float32:
        raise MemoryInputError("vectors.dense", f"is {dense.dtype} of {dense.ndim} dimensions; it must be float32 of 1")
    return RecordRow(
        body=text.encode("ascii"),
        dense=dense.astype(_DENSE).tobytes(),
        sparse_indices=None if sparse is None else np.array(sparse.indices, dtype=_INDEX).tobytes(),
        sparse_values=None if sparse is None else np.array(sparse.values, dtype=_WEIGHT).tobytes(),
    )


def decode(row: RecordRow) -> MemoryRecord:
    """Return the record that was encoded; MemoryRetrievalError when a newer release wrote it."""
    body: dict[str, Any] = json.loads(row.body)
    if body["version"] != _VERSION:
        raise MemoryRetrievalError(f"the journal holds form {body['version']}; this release reads form {_VERSION}")
    lineage = {name: value for name, value in body["lineage"].items() if name in Lineage.__dataclass_fields__}
    return MemoryRecord(
        entry=MemoryEntry.model_validate(_with_times_in_range(body["entry"]), extra="ignore"),
        lineage=Lineage(**{**lineage, "summary_of": tuple(lineage["summary_of"])}),
        vectors=_vectors(row, space=body.get("space")),
        extra=body["extra"],
    )


def encoded(records: Iterable[MemoryRecord]) -> list[Row]:
    """Return the columns of each record."""
    return [encode(record)._asdict() for record in records]


def decoded(rows: Iterable[RowMapping]) -> tuple[MemoryRecord, ...]:
    """Return the records of rows that have these columns."""
    return tuple(decode(RecordRow(*(row[name] for name in RecordRow._fields))) for row in rows)


def _with_times_in_range(entry: dict[str, Any]) -> dict[str, Any]:
    # Older releases took any date; a memory must not be lost for one.
    times = {name: datetime.fromisoformat(entry[name]) for name in _TIMES if entry.get(name)}
    outside = {name: within_range(at) for name, at in times.items() if not EARLIEST <= at <= LATEST}
    return entry | times | outside


def _vectors(row: RecordRow, *, space: str | None) -> Vectors | None:
    if row.dense is None:
        return None
    sparse = None
    if row.sparse_indices is not None and row.sparse_values is not None:
        sparse = SparseVector(
            indices=tuple(np.frombuffer(row.sparse_indices, dtype=_INDEX).tolist()),
            values=tuple(np.frombuffer(row.sparse_values, dtype=_WEIGHT).tolist()),
        )
    return Vectors(dense=np.frombuffer(row.dense, dtype=_DENSE).astype(np.float32), sparse=sparse, space=space)


def pack(what: str, body: Row, *, allow_nan: bool = True) -> bytes:
    """Return what a row keeps in one column, as JSON of this release's form; MemoryInputError for broken Unicode."""
    try:
        body = {"version": _VERSION, **body}
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=allow_nan).encode()
    except UnicodeEncodeError:
        raise MemoryInputError(what, "must be valid Unicode text") from None


def unpack(what: str, data: bytes) -> Row:
    """Return what :func:`pack` was given; MemoryRetrievalError when a newer release wrote it."""
    body: Row = json.loads(data)
    version = body.pop("version")
    if version != _VERSION:
        raise MemoryRetrievalError(f"{what} has form {version}; this release reads form {_VERSION}")
    return body


def kept_origin(origin: Origin) -> Row | None:
    """Return an origin as a row of a finished task keeps it; None for an agent's in this installation."""
    return None if origin.is_own else origin.stored()


def origin_of(row: Mapping[Any, Any]) -> Origin:
    """Return what :func:`kept_origin` was given; what a later release wrote is of ``unknown`` at most."""
    return OWN if row["origin"] is None else Origin.read(row["origin"]) or UNREADABLE


class _Holds(FunctionElement[bool]):
    """Whether a column of bytes holds these bytes: exactly, where LIKE has signs of its own."""

    type = Boolean()
    inherit_cache = True


@compiles(_Holds)
def _in_sqlite(element: _Holds, compiler: Any, **options: Any) -> str:
    return f"(instr({compiler.process(element.clauses, **options)}) > 0)"


@compiles(_Holds, "postgresql")
def _in_postgresql(element: _Holds, compiler: Any, **options: Any) -> str:
    column, part = (compiler.process(each, **options) for each in element.clauses)
    return f"(position({part} in {column}) > 0)"


def holds(body: Column[Any], part: bytes) -> ColumnElement[bool]:
    """Return the condition that a body, as rows keep it, holds these bytes."""
    return _Holds(body, literal(part, LargeBinary())) == true()

"""Deterministic ids: the same cause always gets the same id, so doing it twice changes nothing."""

import uuid
from collections.abc import Iterable

#: The root of all memtend ids; a fixed random value, so that ids made on any machine agree.
_ROOT = uuid.UUID("6f1c1f6e-3a0b-5c53-9d0e-6d656d74656e")


def _derive(kind: str, *parts: str) -> str:
    # The length before each part keeps ("ab", "c") and ("a", "bc") apart.
    return str(uuid.uuid5(_ROOT, kind + "".join(f"|{len(part)}:{part}" for part in parts)))


def memory_id(*, company: str, agent_id: str, category: str, namespace: str, content: str, source: str | None) -> str:
    """Return the id of a stored memory: one text of one agent has one id, however often it is sent (decision 18)."""
    return _derive("memory", company, agent_id, category, namespace, content, source or "")


def fact_id(*, company: str, agent_id: str, category: str, namespace: str, content: str, source: str | None) -> str:
    """Return the id under which an agent first publishes a text; never that of a private memory of the same text."""
    return _derive("fact", company, agent_id, category, namespace, content, source or "")


def republished_id(*, fact_id: str, times_before: int) -> str:
    """Return the id of a fact that is published again after it was retracted or had expired."""
    return _derive("republished", fact_id, str(times_before))


def summary_id(*, company: str, agent_id: str, strategy: str, source_ids: Iterable[str]) -> str:
    """Return the id of the summary that replaces these sources; their order does not matter."""
    return _derive("summary", company, agent_id, strategy, *sorted(source_ids))


def run_id(*, company: str, agent_id: str, job: str, planned_at: str) -> str:
    """Return the id of the one run of a job that was planned for an agent at a time."""
    return _derive("run", company, agent_id, job, planned_at)


def history_id(*, memory_id: str, event: str, at: str) -> str:
    """Return the id of one history row, so that writing it twice leaves one row."""
    return _derive("history", memory_id, event, at)


def new_id() -> str:
    """Return a random id, for things that have no cause of their own: jobs, tokens."""
    return str(uuid.uuid4())

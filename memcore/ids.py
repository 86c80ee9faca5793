"""Deterministic ids: the same cause always gets the same id, so doing it twice changes nothing."""

import uuid
from collections.abc import Iterable
from functools import lru_cache

#: The root of all memtend ids; a fixed random value, so that ids made on any machine agree.
_ROOT = uuid.UUID("6f1c1f6e-3a0b-5c53-9d0e-6d656d74656e")

#: Characters by which an id is named where a whole one takes too much room: the first group of a UUID, 32 bits.
SHORT_ID_CHARS = 8


def _derive(kind: str, *parts: str) -> str:
    # The length before each part keeps ("ab", "c") and ("a", "bc") apart.
    return str(uuid.uuid5(_ROOT, kind + "".join(f"|{len(part)}:{part}" for part in parts)))


def memory_id(
    *,
    company: str,
    agent_id: str,
    category: str,
    namespace: str,
    content: str,
    source: str | None,
    holding: Iterable[str] = (),
) -> str:
    """Return the id of a stored memory: one text of one agent has one id, however often it is sent (decision 18).

    ``holding`` says when it holds and what it replaces: what was replaced can be said again.
    """
    return _derive("memory", company, agent_id, category, namespace, content, source or "", *holding)


def version_id(*, memory_id: str, at: str, content: str) -> str:
    """Return the id of a version that an update at a time made of a memory."""
    return _derive("version", memory_id, at, content)


def fact_id(
    *,
    company: str,
    agent_id: str,
    category: str,
    namespace: str,
    content: str,
    source: str | None,
    holding: Iterable[str] = (),
) -> str:
    """Return the id under which an agent first publishes a text; never that of a private memory of the same text."""
    return _derive("fact", company, agent_id, category, namespace, content, source or "", *holding)


def republished_id(*, fact_id: str, times_before: int) -> str:
    """Return the id of a fact that is published again after it was retracted or had expired."""
    return _derive("republished", fact_id, str(times_before))


def shown_fact_id(*, company: str, fact_id: str, version: int) -> str:
    """Return the id under which the vector store shows a version of an organisation's fact."""
    return _derive("shown fact", company, fact_id, str(version))


def summary_id(*, company: str, agent_id: str, strategy: str, source_ids: Iterable[str]) -> str:
    """Return the id of the summary that replaces these sources; their order does not matter."""
    return _derive("summary", company, agent_id, strategy, *sorted(source_ids))


def group_key(*, strategy: str, source_ids: Iterable[str]) -> str:
    """Return the key of the group that a strategy makes of an agent's memories, in whatever order."""
    return _derive("group", strategy, *sorted(source_ids))


#: Stands in the key of a question that is asked once more since the answer could not be read; reports count by it.
ASKED_AGAIN = "/mended/"


def question_id(*, company: str, agent_id: str, purpose: str, model: str, about: Iterable[str]) -> str:
    """Return the id of a question to a model; ``about`` is all that its answer depends on, in order."""
    return _derive("question", company, agent_id, purpose, model, *about)


def query_id(*, question: str) -> str:
    """Return the id of a recorded question, in an agent's table of them."""
    return _derive("query", question)


def run_id(*, company: str, agent_id: str, job: str, planned_at: str) -> str:
    """Return the id of the one run of a job that was planned for an agent at a time."""
    return _derive("run", company, agent_id, job, planned_at)


def archival_id(*, company: str, agent_id: str, memory_id: str, cause: str) -> str:
    """Return the id of a memory in the archive; the same cause archives it once."""
    return _derive("archival", company, agent_id, memory_id, cause)


def experience_id(*, company: str, agent_id: str, task_id: str | None, texts: Iterable[str]) -> str:
    """Return the id of a raw experience: the same texts of the same task of one agent are one experience."""
    return _derive("experience", company, agent_id, task_id or "", *texts)


def trace_id(*, company: str, agent_id: str, trace: str, holding: Iterable[str] = ()) -> str:
    """Return the id of an execution trace, given as JSON: the same trace of one agent has one id.

    ``holding`` is what else tells it from another one, as its origin; nothing for an agent's in this installation.
    """
    return _derive("trace", company, agent_id, trace, *holding)


def compressed_id(*, company: str, agent_id: str, experience_id: str, version: str) -> str:
    """Return the id of the memory that a compressor of this version makes of a raw experience."""
    return _derive("compressed", company, agent_id, experience_id, version)


def compression_id(*, company: str, agent_id: str) -> str:
    """Return the id of the work that compresses an agent's raw experience."""
    return _derive("compression", company, agent_id)


def search_notes_id(*, company: str, agent_id: str) -> str:
    """Return the id of the work that writes search notes for an agent's memories."""
    return _derive("search notes", company, agent_id)


def changes_id(*, company: str, agent_id: str) -> str:
    """Return the id of the work that looks for memories of an agent's that newer ones replaced."""
    return _derive("changes", company, agent_id)


def approval_id(*, company: str, action: str, cause: str) -> str:
    """Return the id of the approval that one cause asks for; the same cause asks once."""
    return _derive("approval", company, action, cause)


def checkpoint_id(*, company: str, run_id: str) -> str:
    """Return the id of the checkpoint that a fine-tune run leaves."""
    return _derive("checkpoint", company, run_id)


def finetune_run_id(*, company: str, cause: str) -> str:
    """Return the id of the fine-tune run that one cause asks for; the same cause starts one."""
    return _derive("finetune run", company, cause)


def tools_key(tools: Iterable[str]) -> str:
    """Return the key of tools called in this order."""
    return _derive("tools", *tools)


def pattern_id(*, company: str, kind: str, key: str) -> str:
    """Return the id of a pattern across executions: failures of one category, or successes of one chain of tools."""
    return _derive("pattern", company, kind, key)


def cycle_id(*, company: str, planned_at: str) -> str:
    """Return the id of the evolver's one cycle that was planned for a time."""
    return _derive("cycle", company, planned_at)


def proposal_id(*, company: str, digest: str, number: int) -> str:
    """Return the id of a proposal that a caller files; the same one, decided before, has the next number."""
    return _derive("proposal", company, digest, str(number))


def corroboration_id(*, company: str, agent_id: str, said: str) -> str:
    """Return the id of the proposal to raise what an agent's sources have said; a text is raised once."""
    return _derive("corroboration", company, agent_id, said)


def application_id(*, company: str, agent_id: str, skill_id: str, cause: str) -> str:
    """Return the id of one application of a skill; the same cause, such as a task, applies it once."""
    return _derive("application", company, agent_id, skill_id, cause)


def session_key(*, company: str, agent_id: str, subject: str, session_id: str) -> str:
    """Return the key of a session of a conversation: the same name is another session with another person."""
    return _derive("conversation session", company, agent_id, subject, session_id)


def turn_id(*, company: str, agent_id: str, subject: str, session_id: str, turn: str) -> str:
    """Return the id of a turn, by the name that the engine gives it, or by its time and its texts."""
    return _derive("turn", company, agent_id, subject, session_id, turn)


def kept_id(*, kind: str, cause: str, place: int) -> str:
    """Return the id of a fact, a rule or a candidate: one cause, a turn or an end, writes each once."""
    return _derive(f"kept {kind}", cause, str(place))


# A removal asks for the same ids in three transactions; about 1 MB when full.
@lru_cache(maxsize=4_096)
def history_id(memory_id: str, event: str, turn: int) -> str:
    """Return the id of one history row, so that writing it twice leaves one row."""
    return _derive("history", memory_id, event, str(turn))


def event_id(*, company: str, event: str, cause: str) -> str:
    """Return the id of the event that a cause, such as one outage, is announced with once."""
    return _derive("event", company, event, cause)


def delivery_id(*, company: str, event_id: str, endpoint: str) -> str:
    """Return the id of the delivery of an event to an endpoint."""
    return _derive("delivery", company, event_id, endpoint)


def new_id() -> str:
    """Return a random id, for things that have no cause of their own: jobs, tokens."""
    return str(uuid.uuid4())

"""The keys of the policy file, and why memtend has those that the reference has not."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from memcore.config.errors import section_of
from memcore.config.policy import Policy
from memcore.models.base import Frozen

#: Why memtend added a key, or a section with all its keys, to those of the reference.
ADDED = {
    "memory.llm": "the reference passes its models in code and has no price list",
    "memory.budgets": "language models cost money, and maintenance runs unattended",
    "memory.approvals": "a proposal that nobody read for weeks must not take effect by one click",
    "memory.conversation": "the reference fixes these numbers in code",
    "memory.fine_tune": "the reference has this model, but no key for it",
    "memory.origins": "text of a web page or a tool must not act as what a person said",
    "memory.router": "any application remembers by its base URL",
    "memory.records": "what is known of the past must not grow for ever",
    "memory.storage.text_template": (
        "a date and a speaker in the indexed text improve search; a change needs `memtend reindex`"
    ),
    "memory.options.session_timeout_hours": "an engine that dies never ends its session",
    "memory.options.project_timeout_hours": "projects may rest for months; the limit is optional",
    "memory.options.task_timeout_hours": "an engine that dies never ends its task",
    "memory.retrieval.shared_fraction": (
        "memories of other agents must not displace an agent's own memories in its prompt"
    ),
    "memory.retrieval.max_per_publisher": "one agent that publishes much must not fill the shared part of every prompt",
    "memory.retrieval.dense_weight": "`weighted` needs a share; the default is the best measured share of the embedder",
    "memory.retrieval.sparse": "keywords and vectors together find more than either alone",
    "memory.retrieval.sparse_term_weight": (
        "on short texts a saturated count ranks better than the `raw` count of the reference"
    ),
    "memory.retrieval.standing": "twenty memories for every question, or none, say less than the few that answer it",
    "memory.retrieval.zoom": "a summary says less than the memories that it replaced, and these are in the archive",
    "memory.retrieval.passages": "parts of several long memories answer more questions than one of them as a whole",
    "memory.retrieval.time_zone": '"yesterday" begins and ends where the asker is',
    "memory.retrieval.hemisphere": "summer begins in June or in December",
    "memory.retrieval.deadline_seconds": "an agent must not wait for a store that does not answer",
    "memory.retrieval.record_queries": "what agents ask for is what a summary must not lose; a person's words are kept",
    "memory.retrieval.query_days": "a person's words must not be kept for ever",
    "memory.retrieval.self_editing": "the reference has this model, but no key for it",
    "memory.consolidation.strategy": "the reference chooses the strategy in code, not in a file",
    "memory.consolidation.changes": "what was true once must not stand beside what replaced it in other words",
    "memory.consolidation.search_notes": "people ask for a memory in other words than it has",
    "memory.consolidation.apply": "a person may want to see what a summary replaces before it does",
    "memory.consolidation.categories": (
        "summaries lose words; facts, skills and people must not lose words unless somebody asks for it"
    ),
    "memory.consolidation.min_age_days": "recent memories are still in use and must not change",
    "memory.consolidation.group_threshold": "a small group is not worth a summary",
    "memory.consolidation.group_max_entries": "a summary of too many entries says nothing about any of them",
    "memory.consolidation.group_max_tokens": "a summary of a very long text loses most of it",
    "memory.consolidation.min_new": "a model costs as much for two new memories as for twenty",
    "memory.consolidation.max_tokens_per_run": "one run must not spend what a person would not have spent",
    "memory.consolidation.max_removed_fraction": (
        "the removal guard: a run that would remove a larger share waits for the approval of a person"
    ),
    "memory.consolidation.max_removed_floor": "keeps the removal guard from stopping every run of a small agent",
    "memory.consolidation.first_runs_fraction": "after an import, every agent would wait for the approval of a person",
    "memory.consolidation.journal_days": "`memtend runs undo` needs the journal of the run",
    "memory.consolidation.restored_hold_days": "the next run would otherwise remove again what was restored",
    "memory.consolidation.gate": "a summary must not cost the agent answers",
    "memory.consolidation.condense": "the defaults are the best measured values (docs/benchmarks/2026-11.md)",
    "memory.consolidation.llm": "the reference passes these limits in code",
    "memory.consolidation.archival.keep_days": "the archive outlives the journal and must not grow for ever",
    "memory.embedder.query_prefix": "some models were trained with an instruction before each text",
    "memory.embedder.document_prefix": "some models were trained with an instruction before each text",
    "memory.embedder.fine_tune": "the reference has this model, but no key for it",
    "memory.procedural.capture": "the reference has this model, but no key for it",
    "memory.procedural.pruning": "the reference has this model, but no key for it",
    "memory.procedural.propagation": "the reference has this model, but no key for it",
    "memory.procedural.evolver": "the reference has this model, but no key for it",
    "memory.procedural.evolver.window_days": "the reference receives the executions as an argument",
    "memory.procedural.evolver.min_precision": "a skill is tested on past executions before it is proposed",
    "memory.procedural.evolver.keep_days": "trajectories must not grow for ever",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of the file.

    Attributes:
        name: dotted, from the top of the file.
        default: what counts when it is left out.
        is_section: whether it holds keys itself; an optional section is None by default.
        is_added: whether memtend added it, or a section around it, to the reference.
    """

    name: str
    default: Any
    is_section: bool
    is_added: bool


def keys(model: type[Frozen] = Policy, *, under: str = "", is_added: bool = False) -> Iterator[Key]:
    """Yield every key of a model and of the models in it, sections before what they hold."""
    for field_name, field in model.model_fields.items():
        name, section = f"{under}{field_name}", section_of(field)
        added = is_added or name in ADDED
        yield Key(name=name, default=field.default, is_section=section is not None, is_added=added)
        if section is not None:
            yield from keys(section, under=f"{name}.", is_added=added)

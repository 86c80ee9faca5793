"""The ``memory`` section of the policy, its storage and embedder, the level of one agent, and aliases of keys."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from string import Formatter
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from memcore.config.conversation import ConversationConfig, RouterConfig
from memcore.config.finetune import EmbeddingFineTuneConfig, FineTuneExecutionConfig
from memcore.config.learning import ApprovalsConfig, ProceduralMemoryConfig
from memcore.config.llm import BudgetsConfig, LLMConfig
from memcore.config.maintenance import ConsolidationConfig, RecordsConfig, RetentionRules
from memcore.config.retrieval import MemoryRetrievalConfig
from memcore.models.base import MAX_DAYS, DataPath, Frozen, NotBlankStr, ReadOnlyMap, ReadOnlyMapping
from memcore.models.memory import ConsolidationInterval, MemoryLevel, NotBlankText
from memcore.models.origin import AUTHORITIES, Authority, Channel


class MemoryOptionsConfig(Frozen):
    """Set general limits; ``consolidation`` wins where both sections set the same value.

    Attributes:
        retention_days: days until a memory expires; None keeps it for ever. The same as
            ``consolidation.retention.default_retention_days``.
        max_memories_per_agent: the same as ``consolidation.max_memories_per_agent``.
        consolidation_interval: the same as ``consolidation.interval``.
        shared_knowledge_base: whether agents may publish memories and search what other agents published. Facts and
            policies of the organisation are shown in any case.
        session_timeout_hours: hours without a new memory after which a session counts as ended; None waits for its end
            for ever.
        project_timeout_hours: hours without a new memory after which a project counts as ended; None waits for its end
            for ever.
        task_timeout_hours: hours after which a working memory is removed, unless a retention rule names working
            memories; None keeps it.
    """

    retention_days: int | None = Field(default=None, ge=1, le=MAX_DAYS)
    max_memories_per_agent: int = Field(default=10_000, ge=1)
    consolidation_interval: ConsolidationInterval = ConsolidationInterval.DAILY
    shared_knowledge_base: bool = True
    session_timeout_hours: int | None = Field(default=24, ge=1, le=24 * MAX_DAYS)
    project_timeout_hours: int | None = Field(default=None, ge=1, le=24 * MAX_DAYS)
    task_timeout_hours: int | None = Field(default=24, ge=1, le=24 * MAX_DAYS)


#: Two keys under ``memory`` for one setting; the first one's value counts (SPEC decision 3). The decision does not name
#: the third pair, but without it options.retention_days would be a key without effect.
KEY_ALIASES = (
    ("consolidation.interval", "options.consolidation_interval"),
    ("consolidation.max_memories_per_agent", "options.max_memories_per_agent"),
    ("consolidation.retention.default_retention_days", "options.retention_days"),
)


def reconcile(memory: Frozen) -> Iterator[tuple[str, Frozen]]:
    """Yield the sections of ``memory`` that change when both keys of each pair hold the value that counts.

    Raises ValueError: both keys of a pair were given, with different values.
    """
    sections: dict[str, Frozen] = {name: getattr(memory, name) for name in ("options", "consolidation")}
    for winner, other in KEY_ALIASES:
        (value, is_given), (others, other_is_given) = (_read(sections, key) for key in (winner, other))
        if is_given and other_is_given and value != others:
            raise ValueError(f"memory.{winner} and memory.{other} mean the same and differ; give one of them")
        target, counts = (winner, others) if other_is_given else (other, value)
        head, *path = target.split(".")
        sections[head] = _with(sections[head], path, counts)
    yield from sections.items()


def _read(sections: Mapping[str, Frozen], key: str) -> tuple[Any, bool]:
    """Return the value of a key, and whether it was given."""
    head, *path, name = key.split(".")
    section: Any = sections[head]
    for each in path:
        section = getattr(section, each)
    return getattr(section, name), name in section.model_fields_set


def _with(model: Frozen, path: list[str], value: Any) -> Frozen:
    head, *rest = path
    fields = {name: getattr(model, name) for name in type(model).model_fields}
    fields[head] = _with(fields[head], rest, value) if rest else value
    # Not model_copy, which would mark the key as given: `memtend config show` shows what the person wrote.
    return type(model).model_construct(_fields_set=set(model.model_fields_set), **fields)


#: The backends that a namespace can be routed to; not composite itself, which would route in a circle.
RoutedBackend = Literal["mem0", "inmemory"]


class CompositeBackendConfig(Frozen):
    """Route namespaces to backends; only when ``memory.backend`` is ``composite``.

    Attributes:
        routes: the backend of each namespace.
        default: the backend of all other namespaces.
    """

    routes: ReadOnlyMapping[NotBlankStr, RoutedBackend] = ReadOnlyMap({})
    default: RoutedBackend = "inmemory"

    @property
    def names(self) -> Mapping[str, str]:
        """The backend that each key of this section names, by the key's dotted name."""
        routes = {f"memory.composite.routes.{namespace}": name for namespace, name in self.routes.items()}
        return {"memory.composite.default": self.default, **routes}


#: The names that a text template may use; each is a field of the memory. ``date`` is its UTC creation day as people
#: write it (8 May 2023), ``speaker`` what follows ``speaker:`` in one of its tags.
TEMPLATE_FIELDS = frozenset({"agent", "category", "content", "date", "namespace", "source", "speaker", "tags"})

#: Longest text template, in characters; it is repeated in every indexed text, so a long one drowns the memory.
MAX_TEMPLATE_CHARS = 200


class MemoryStorageConfig(Frozen):
    """Choose the stores of the mem0 backend, and the text that they index.

    Attributes:
        data_dir: no effect; the data are in the data folder (``memtend up --home``, ``MEMTEND_HOME``) or on the servers
            that the settings name. A file that gives this key causes a warning.
        vector_store: ``qdrant`` is the store of the embedded stack, ``qdrant-external`` is a Qdrant server.
        history_store: the database of mem0's history rows.
        text_template: the text that is embedded and indexed; the stored content does not change. It contains
            ``{content}`` and may contain ``{agent}``, ``{category}``, ``{date}``, ``{namespace}``, ``{source}``,
            ``{speaker}`` and ``{tags}``. What a memory lacks is left out with what follows it, up to the next, and so
            is what its content begins with anyway. A date or a speaker there makes a short text less like a question in
            other words.
    """

    data_dir: DataPath = "/data/memory"
    vector_store: Literal["qdrant", "qdrant-external"] = "qdrant"
    history_store: Literal["sqlite", "postgresql"] = "sqlite"
    text_template: NotBlankText = Field(default="{content}", max_length=MAX_TEMPLATE_CHARS)

    @field_validator("text_template")
    @classmethod
    def _plain_placeholders(cls, template: str) -> str:
        names: set[str] = set()
        for _, name, spec, conversion in Formatter().parse(template):
            if name is None:
                continue
            # "{content.__class__}" or "{content:>9999999}" would let a template reach into objects or eat memory.
            if name not in TEMPLATE_FIELDS or spec or conversion:
                raise ValueError(f"may use only the plain placeholders {_braced(TEMPLATE_FIELDS)}")
            names.add(name)
        if "content" not in names:
            raise ValueError("must contain {content}, or every memory would be indexed alike")
        return template


def _braced(names: frozenset[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in sorted(names))


#: Longest prefix in characters; instructions are a sentence or two.
MAX_PREFIX_CHARS = 1_000


class EmbedderOverrideConfig(Frozen):
    """Name the embedder; a key that is left out is chosen for you.

    ``provider: static`` alone names the embedder that needs no model server and no torch.

    Attributes:
        provider: ``static``, ``static-mean``, ``minilm``, ``onnx``, ``sentence-transformers``, ``openai-compatible``,
            ``openai``, ``ollama``, ``lm-studio`` or ``vllm``.
        model: a model of that provider; for ``onnx`` and ``static`` the folder of its files. Needs dims.
        dims: the length of the model's vectors; needs model.
        query_prefix: the text that the model wants before a question, such as ``"query: "``; white space is kept.
            Without it and document_prefix, those of an ``onnx`` folder's own files.
        document_prefix: the text that the model wants before a memory, such as ``"passage: "``; white space is kept. A
            change needs ``memtend reindex``.
        fine_tune: the checkpoint that replaces model.
    """

    provider: NotBlankStr | None = None
    model: NotBlankStr | None = None
    dims: int | None = Field(default=None, ge=1)
    query_prefix: str | None = Field(default=None, max_length=MAX_PREFIX_CHARS)
    document_prefix: str | None = Field(default=None, max_length=MAX_PREFIX_CHARS)
    fine_tune: EmbeddingFineTuneConfig = EmbeddingFineTuneConfig()

    @property
    def asked_model(self) -> str | None:
        """The model to load or to ask for: the checkpoint where one is enabled."""
        return self.fine_tune.checkpoint_path if self.fine_tune.enabled else self.model

    @property
    def asked_dims(self) -> int | None:
        """Its length; None takes what it has."""
        return None if self.fine_tune.enabled else self.dims

    @model_validator(mode="after")
    def _model_with_dims(self) -> Self:
        if self.model is not None and self.dims is None:
            raise ValueError("dims must be set when model is set")
        if self.dims is not None and self.model is None:
            raise ValueError("model must be set when dims is set")
        return self


class CorroborationConfig(Frozen):
    """Raise to ``inform`` what several principals have said word for word, each by itself; off by default.

    Attributes:
        least: by so many principals, 2 or more, of whom one has it of a ``tool`` and one of a ``document``; 0 raises
            nothing.
        principals: under a name of yours, the ids of all keys of one principal. Name only who cannot read what the
            others have stored. Other keys count for nothing.
    """

    least: int = Field(default=0, ge=0, le=100, strict=True)
    principals: ReadOnlyMapping[NotBlankStr, tuple[NotBlankStr, ...]] = ReadOnlyMap({})

    @model_validator(mode="after")
    def _enough(self) -> Self:
        keys = [key for each in self.principals.values() for key in each]
        if len(keys) != len({*keys}):
            raise ValueError("principals: a key stands twice; it has one principal")
        if self.least == 1 or self.least > len(self.principals):
            raise ValueError("least: must be 0, or from 2 to the number of principals")
        return self

    @cached_property
    def holders(self) -> Mapping[str, str]:
        """The name of the principal that holds each key."""
        return {key: name for name, keys in self.principals.items() for key in keys}


class OriginsConfig(Frozen):
    """Say how far memories are trusted by the channels they came through.

    Attributes:
        authority: by channel (``person``, ``operator``, ``agent``, ``tool``, ``document``, ``peer``, ``import``,
            ``unknown``, ``suspect``): ``instruct``, ``inform``, ``reference`` or ``quarantined``. A channel that is
            left out keeps its default; a memory of several channels has the least. ``suspect`` is added to what others
            wrote and reads like an order, a password or an account to pay to.
        corroboration: what is raised by being said again.
    """

    authority: ReadOnlyMapping[Channel, Authority] = AUTHORITIES
    corroboration: CorroborationConfig = CorroborationConfig()

    @field_validator("authority")
    @classmethod
    def _every_channel(cls, given: Mapping[Channel, Authority]) -> ReadOnlyMap[Channel, Authority]:
        return ReadOnlyMap({**AUTHORITIES, **given})


class CompanyMemoryConfig(Frozen):
    """Configure the memories of a company's agents.

    Attributes:
        backend: the backend that keeps the memories; ``inmemory`` is for engines and tests, and workers refuse it.
        level: how long a memory lives, unless its agent has a level of its own; ``session`` and ``project`` refuse a
            memory that names no session or project.
        storage: where memories are stored, and which text of them is indexed.
        options: general limits; ``consolidation`` wins where both sections set the same value.
        retrieval: how memories are found, ranked and put into a prompt.
        consolidation: how memories are maintained.
        embedder: the embedder; None takes the one that ``MEMTEND_EMBEDDER`` names.
        procedural: how lessons are learned from executions.
        composite: which backend keeps which namespace; required when backend is ``composite``, and refused otherwise.
        llm: which language model is asked, and how.
        budgets: what the language models may cost.
        approvals: how long a proposal waits for a person.
        fine_tune: where the stages of a fine-tune run.
        conversation: what is kept of what people say.
        records: for how long it is known what happened.
        origins: how far memories are trusted by where they came from.
        router: which servers of language models are reached through this one.
    """

    backend: Literal["mem0", "composite", "inmemory"] = "mem0"
    level: MemoryLevel = MemoryLevel.PERSISTENT
    storage: MemoryStorageConfig = MemoryStorageConfig()
    options: MemoryOptionsConfig = MemoryOptionsConfig()
    retrieval: MemoryRetrievalConfig = MemoryRetrievalConfig()
    consolidation: ConsolidationConfig = ConsolidationConfig()
    embedder: EmbedderOverrideConfig | None = None
    procedural: ProceduralMemoryConfig = ProceduralMemoryConfig()
    composite: CompositeBackendConfig | None = None
    llm: LLMConfig = LLMConfig()
    budgets: BudgetsConfig = BudgetsConfig()
    approvals: ApprovalsConfig = ApprovalsConfig()
    fine_tune: FineTuneExecutionConfig = FineTuneExecutionConfig()
    conversation: ConversationConfig = ConversationConfig()
    records: RecordsConfig = RecordsConfig()
    origins: OriginsConfig = OriginsConfig()
    router: RouterConfig = RouterConfig()

    @property
    def backends(self) -> Mapping[str, str]:
        """The backends that keep memories, by the dotted key that names each: of a composite, its children."""
        return {"memory.backend": self.backend} if self.composite is None else self.composite.names

    @model_validator(mode="after")
    def _routes_for_composite(self) -> Self:
        if self.backend == "composite" and self.composite is None:
            raise ValueError("composite must be given when backend is composite")
        if self.backend != "composite" and self.composite is not None:
            raise ValueError(f"composite must not be given when backend is {self.backend}")
        return self

    @model_validator(mode="after")
    def _aliases_agree(self) -> Self:
        for name, section in reconcile(self):
            # The model is still being built, so this breaks no frozen value.
            object.__setattr__(self, name, section)
        return self


class MemoryConfig(Frozen):
    """Set the level and the retention of one agent; they win over those of the company.

    Attributes:
        type: how long the agent's memories live.
        retention_days: the agent's default; None takes the company's. Must be None when type is none.
        retention_overrides: the agent's rules, at most one for a category.
    """

    type: MemoryLevel = MemoryLevel.SESSION
    retention_days: int | None = Field(default=None, ge=1, le=MAX_DAYS)
    retention_overrides: RetentionRules = ()

    @model_validator(mode="after")
    def _nothing_to_retain(self) -> Self:
        if self.type is MemoryLevel.NONE and self.retention_days is not None:
            raise ValueError("retention_days must be null when type is none, for nothing is stored")
        return self

"""Where an agent's memories lie, and which text of theirs is indexed."""

from string import Formatter
from typing import Annotated, Literal

from pydantic import Field, field_validator

from memcore.config.added import Added
from memcore.config.data_path import DataPath
from memcore.frozen import Frozen, NotBlankText

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
            ``{speaker}`` and ``{tags}``.
    """

    data_dir: DataPath = "/data/memory"
    vector_store: Literal["qdrant", "qdrant-external"] = "qdrant"
    history_store: Literal["sqlite", "postgresql"] = "sqlite"
    text_template: Annotated[
        NotBlankText, Added("a date and a speaker in the indexed text improve search; a change needs `memtend reindex`")
    ] = Field(default="{content}", max_length=MAX_TEMPLATE_CHARS)

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

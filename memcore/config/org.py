"""The memory that all agents of an organisation share."""

from typing import Literal

from pydantic import Field

from memcore.config.write_access import WriteAccessConfig
from memcore.frozen import Frozen, NotBlankStr


class ExtendedStoreConfig(Frozen):
    """Bound the store of facts that are searched on demand.

    Attributes:
        backend: the only value; accepted because the reference has it. The facts are in the ledger.
        max_retrieved_per_query: the most facts that a query returns and a prompt holds; core policies do not count.
    """

    backend: Literal["sqlite"] = "sqlite"
    max_retrieved_per_query: int = Field(default=5, ge=1, le=50)


class OrgMemoryConfig(Frozen):
    """Configure the memory that all agents of an organisation share.

    Attributes:
        backend: the only value; accepted because the reference has it.
        core_policies: texts at the head of every prepared context; they are never filtered.
        extended_store: the store of facts that are searched on demand.
        write_access: who may write facts.
    """

    backend: Literal["hybrid_prompt_retrieval"] = "hybrid_prompt_retrieval"
    core_policies: tuple[NotBlankStr, ...] = ()
    extended_store: ExtendedStoreConfig = ExtendedStoreConfig()
    write_access: WriteAccessConfig = WriteAccessConfig()

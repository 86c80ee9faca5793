"""The memory that all agents of an organisation share."""

from typing import Literal

from pydantic import Field

from memcore.config.write_access import WriteAccessConfig
from memcore.frozen import Frozen, NotBlankStr


class ExtendedStoreConfig(Frozen):
    """Bound the store of facts that are looked up on demand.

    Attributes:
        backend: accepted with the guide's value; the facts lie in the ledger, wherever that is.
        max_retrieved_per_query: most facts that a query returns and a prompt holds, 1 to 50; core policies do not
            count.
    """

    backend: Literal["sqlite"] = "sqlite"
    max_retrieved_per_query: int = Field(default=5, ge=1, le=50)


class OrgMemoryConfig(Frozen):
    """Write the ``org_memory`` section.

    Attributes:
        backend: accepted with the guide's value.
        core_policies: texts that lead every prepared context, never filtered.
        extended_store: facts looked up on demand.
        write_access: who may write them.
    """

    backend: Literal["hybrid_prompt_retrieval"] = "hybrid_prompt_retrieval"
    core_policies: tuple[NotBlankStr, ...] = ()
    extended_store: ExtendedStoreConfig = ExtendedStoreConfig()
    write_access: WriteAccessConfig = WriteAccessConfig()

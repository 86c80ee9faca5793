"""The whole policy file."""

from memcore.config.advice import advice
from memcore.config.company import CompanyMemoryConfig
from memcore.config.org import OrgMemoryConfig
from memcore.frozen import Frozen


class Policy(Frozen):
    """Hold the content of a policy file; a key that the file leaves out has its default.

    Attributes:
        memory: how the memories of agents are stored, found and maintained.
        org_memory: what all agents of the organisation share.
    """

    memory: CompanyMemoryConfig = CompanyMemoryConfig()
    org_memory: OrgMemoryConfig = OrgMemoryConfig()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return a sentence for each setting that is valid and yet does not do what its writer may expect."""
        return advice(self.memory)

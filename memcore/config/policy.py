"""The whole policy file."""

from memcore.config.advice import advice
from memcore.config.company import CompanyMemoryConfig
from memcore.config.org import OrgMemoryConfig
from memcore.frozen import Frozen


class Policy(Frozen):
    """Hold what a policy file says, with the defaults of all that it leaves out.

    Attributes:
        memory: the ``memory`` section.
        org_memory: the ``org_memory`` section.
    """

    memory: CompanyMemoryConfig = CompanyMemoryConfig()
    org_memory: OrgMemoryConfig = OrgMemoryConfig()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return a sentence for each setting that is valid and yet does not do what its writer may expect."""
        return advice(self.memory)

"""The files of an agent in the data folder: its wiki, its lessons as skills, and what embedders were trained on."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from memcore.backends.protocol import BatchBackend
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from memcore.finetune.run_folder import run_folders
from memcore.ledger.erasure.shared_rows import DerivedSkill
from memcore.ledger.ledger import Ledger
from memcore.models.finetune import FineTuneStage
from memcore.procedural.skill_files import SKILL_FILE, skill_name
from memcore.wiki.exporter import WikiExporter
from memcore.wiki.folders import slug

#: Stages that leave texts of agents; training leaves weights, and evaluation figures.
_WITH_TEXTS = (FineTuneStage.GENERATING_DATA, FineTuneStage.MINING_NEGATIVES)


class AgentFiles:
    """Counts and removes the files of an agent on this machine; other machines' data folders are their own."""

    def __init__(self, settings: Settings, policy: Policy, ledger: Ledger, backend: BatchBackend) -> None:
        wiki = policy.memory.consolidation.wiki_export
        self._wiki_root = (settings.home / wiki.export_root).resolve()
        self._exporter = WikiExporter(backend, ledger, wiki, home=settings.home, company=settings.company)
        skills = policy.memory.procedural.skill_md_directory
        self._skills = None if skills is None else (settings.home / skills).resolve()
        self._home = settings.home
        self._ledger = ledger
        self._company = settings.company

    def wiki(self, agent_id: str) -> int:
        """Return how many files its folder of the wiki has, a crashed export's included."""
        name = slug(agent_id)
        folders = (self._wiki_root / each for each in (name, f".{name}.new", f".{name}.aside"))
        return sum(path.is_file() for folder in folders for path in folder.rglob("*"))

    def remove_wiki(self, agent_id: str) -> None:
        """Remove that folder. Raises OSError, MemoryConfigError."""
        self._exporter.remove(agent_id)

    def skills(self, memory_ids: Iterable[str], derived: Iterable[DerivedSkill]) -> list[Path]:
        """Return the folders of the agent's lessons, and of skills that are derived from it alone."""
        root = self._skills
        if root is None or not root.is_dir():
            return []
        # A folder's name ends with a hash of the memory's id, whatever the lesson says.
        ends = {_end_of(each) for each in memory_ids} | {_end_of(each.skill_id) for each in derived}
        return [path for path in sorted(root.iterdir()) if path.name.rpartition("-")[2] in ends and path.is_dir()]

    def remove_skills(self, folders: Iterable[Path]) -> None:
        """Remove their SKILL.md, and the folders; a link is never followed. Raises OSError."""
        for folder in folders:
            if not folder.is_symlink():
                (folder / SKILL_FILE).unlink(missing_ok=True)
                shutil.rmtree(folder)

    def training(self) -> list[Path]:
        """Return the folders with texts that embedders were trained on: those of all the company's agents, mixed."""
        rows = self._ledger.finetune_runs
        runs = run_folders(
            self._home, self._company, is_known=lambda run_id: rows.get(self._company, run_id) is not None
        )
        return [each for run in runs for stage in _WITH_TEXTS for each in run.glob(f"{stage}-*")]

    def remove_training(self) -> None:
        """Remove those folders; a run that is resumed gathers its texts anew. Raises OSError."""
        for folder in self.training():
            shutil.rmtree(folder)

    def is_training(self) -> bool:
        """Whether a run reads or writes such texts now."""
        return self._ledger.finetune_runs.active(self._company) is not None


def _end_of(memory_id: str) -> str:
    return skill_name("", memory_id=memory_id).rpartition("-")[2]

"""The folder of each skill that stands: there while its row says so, and gone afterwards."""

import asyncio
import logging

from memcore.ledger.skill import Skill, SkillState
from memcore.ledger.skills import Skills
from memcore.procedural.events import ProceduralEvent
from memcore.procedural.lesson_text import LessonText
from memcore.procedural.skill_folder import SkillFolders

_log = logging.getLogger(__name__)


class SkillShelf:
    """Write and take away the folders of the organisation's skills; trouble with the disk is logged, and stops nothing.

    Args:
        folders: the folders.
        skills: the rows.
        company: whose.
    """

    def __init__(self, folders: SkillFolders, skills: Skills, *, company: str) -> None:
        self._folders = folders
        self._skills = skills
        self._company = company

    async def follow(self, skill_id: str) -> None:
        """Let the folder be what the row says, also when another process changes the row meanwhile."""
        found = self._skills.get(self._company, skill_id)
        while found is not None:
            try:
                await asyncio.to_thread(self._put, found)
            except OSError as error:
                # Its class alone: the message names a path.
                _log.warning(ProceduralEvent.SKILL_FAILED, extra={"memory_id": skill_id, "error": type(error).__name__})
                return
            shown, found = found, self._skills.get(self._company, skill_id)
            if found is None or found.state is shown.state:
                return

    def _put(self, skill: Skill) -> None:
        lesson = LessonText.model_validate_json(skill.text)
        if skill.state is not SkillState.ACTIVE:
            self._folders.remove(lesson, memory_id=skill.skill_id)
            return
        name = self._folders.write(lesson, memory_id=skill.skill_id, source=f"approval:{skill.approval_id}")
        _log.info(ProceduralEvent.SKILL_WRITTEN, extra={"memory_id": skill.skill_id, "skill": name})

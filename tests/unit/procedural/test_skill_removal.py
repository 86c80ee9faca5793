"""Removal of a skill's folder: its own file alone, and no other file."""

from pathlib import Path

import pytest
from support.lessons import lesson

from memcore.procedural.skill_files import SkillFolders, skill_name


def test_a_skill_is_taken_away_with_its_folder_and_others_stay(tmp_path: Path) -> None:
    folders = SkillFolders(tmp_path, company="acme")
    assert not SkillFolders(tmp_path / "not" / "there", company="acme").remove(lesson(), memory_id="m")
    assert not folders.remove(lesson(), memory_id="m")
    name = folders.write(lesson(), memory_id="m", source="s")
    other = folders.write(lesson(), memory_id="n", source="s")
    assert name != other
    assert folders.remove(lesson(), memory_id="m")
    assert not folders.remove(lesson(), memory_id="m")
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [other]


def test_what_somebody_put_beside_it_stays(tmp_path: Path) -> None:
    folders = SkillFolders(tmp_path, company="acme")
    name = folders.write(lesson(), memory_id="m", source="s")
    (tmp_path / name / "scripts").mkdir()
    assert folders.remove(lesson(), memory_id="m")
    assert not folders.remove(lesson(), memory_id="m")
    assert [path.name for path in (tmp_path / name).iterdir()] == ["scripts"]


def test_nothing_is_removed_outside_of_the_directory(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (outside / "SKILL.md").write_text("mine")
    name = skill_name(lesson().discovery, memory_id="m")
    (root / name).symlink_to(outside)
    with pytest.raises(OSError, match=name):
        SkillFolders(root, company="acme").remove(lesson(), memory_id="m")
    assert (outside / "SKILL.md").read_text() == "mine"

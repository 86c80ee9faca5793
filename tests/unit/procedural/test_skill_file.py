"""Skills in the Agent Skills format: the published rules hold whatever the lesson says."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from support.lessons import LESSONS, lesson
from support.skill_format import front_matter_of, problems_of

from memcore.errors import MemoryConfigError
from memcore.procedural.records import LessonText
from memcore.procedural.skill_files import MAX_NAME_CHARS, SkillFolders, skill_file, skill_name

#: Parts of a page that a viewer loads, hides or takes for the page's own.
LOADED = {"link_open", "image", "html_inline", "html_block", "fence", "code_block", "blockquote_open", "hr"}


def tokens_of(body: str) -> list[str]:
    tokens = MarkdownIt("commonmark").parse(body)
    return [each.type for token in tokens for each in (token, *(token.children or ()))]


@given(LESSONS)
def test_any_lesson_is_a_file_of_its_five_headings_and_its_steps(text: LessonText) -> None:
    head, body = front_matter_of(skill_file(text, name="a-skill", source="failure:t").decode())
    tokens = MarkdownIt("commonmark").parse(body)
    headings = [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"]
    assert headings[1:] == ["Condition", "Action", "Rationale", "Execution Steps"]
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h1", "h2", "h2", "h2", "h2"]
    types = tokens_of(body)
    assert not LOADED & set(types)
    assert types.count("list_item_open") == len(text.execution_steps)
    assert "bullet_list_open" not in types
    assert set(head) == {"name", "description", "metadata"}
    assert 1 <= len(head["description"]) <= 1024


@given(LESSONS, st.sampled_from(["failure:t", "failure:\n---\nname: x", "success:'\"{}"]))
def test_any_lesson_keeps_the_published_rules(
    tmp_path_factory: pytest.TempPathFactory, text: LessonText, source: str
) -> None:
    root = tmp_path_factory.mktemp("skills")
    name = SkillFolders(root, company="acme").write(text, memory_id=text.discovery, source=source)
    assert problems_of(root / name) == []
    assert [path.name for path in (root / name).iterdir()] == ["SKILL.md"]


@given(st.text(), st.text())
def test_a_name_is_one_folder_for_any_text(discovery: str, memory_id: str) -> None:
    name = skill_name(discovery, memory_id=memory_id)
    assert len(name) <= MAX_NAME_CHARS
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert name == name.strip("-")
    assert "--" not in name
    assert name != skill_name(discovery, memory_id=f"{memory_id}x")


@pytest.mark.parametrize(
    ("discovery", "words"),
    [
        ("A full disk stops the import.", "a-full-disk-stops-the-import"),
        ("../../etc/passwd", "etc-passwd"),
        ("Über naïve CAFÉS", "uber-naive-cafes"),
        ("日本語", "lesson"),
        ("CON", "con"),
        ("x" * 600, "x" * 51),
    ],
)
def test_a_name_begins_with_what_people_look_for(discovery: str, words: str) -> None:
    name = skill_name(discovery, memory_id="m")
    assert name.rpartition("-")[0] == words


def test_the_file_says_what_the_lesson_says_and_keeps_its_commands() -> None:
    head, body = front_matter_of(skill_file(lesson(), name="n", source="failure:t").decode())
    assert head["description"].startswith("A full disk stops the nightly import. Use when: ")
    assert head["metadata"]["confidence"] == "0.9"
    assert head["metadata"]["tags"] == "import, disk"
    assert head["metadata"]["source"] == "failure:t"
    steps = ("1. Look at the disk in the shell.", "2. Search old files, and move them away.")
    assert "\n".join((*steps, "3. Read the log; start the import.\n")) in body


def test_a_long_description_is_cut_at_its_limit() -> None:
    text = lesson(discovery="x" * 600, condition="y" * 2_000)
    assert len(front_matter_of(skill_file(text, name="n", source="s").decode())[0]["description"]) == 1024


def test_the_checker_sees_each_broken_rule(tmp_path: Path) -> None:
    folder = tmp_path / "good-name"
    folder.mkdir()
    assert problems_of(folder) == ["a skill is a folder with a SKILL.md"]
    for text, rule in [
        ("no front matter", "front matter"),
        ("---\nname: [\n---\nx", "front matter"),
        ("---\nname: other\ndescription: d\n---\nx", "folder"),
        ("---\nname: Good-Name\ndescription: d\n---\nx", "a-z"),
        ("---\nname: good-name\n---\nx", "description"),
        (f"---\nname: good-name\ndescription: {'d' * 1025}\n---\nx", "1024"),
        ("---\nname: good-name\ndescription: d\ntrigger: t\n---\nx", "does not know"),
        ("---\nname: good-name\ndescription: d\nmetadata:\n  confidence: 0.9\n---\nx", "metadata"),
        ("---\nname: good-name\ndescription: d\n---\n", "body"),
    ]:
        (folder / "SKILL.md").write_text(text)
        assert any(rule in each for each in problems_of(folder)), rule
    (folder / "SKILL.md").write_text("---\nname: good-name\ndescription: d\n---\nx")
    assert problems_of(folder) == []


def test_a_skill_written_again_replaces_its_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    folders = SkillFolders(tmp_path / "not" / "there", company="acme")
    first = folders.write(lesson(), memory_id="m", source="failure:t")
    assert folders.write(lesson(action="Wait."), memory_id="m", source="failure:t") == first
    (path,) = (tmp_path / "not" / "there").rglob("*.md")
    assert "Wait." in path.read_text()
    assert len(list((tmp_path / "not" / "there" / first).iterdir())) == 1


def test_nothing_is_written_outside_of_the_directory(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    name = skill_name(lesson().discovery, memory_id="m")
    (root / name).symlink_to(outside)
    with pytest.raises(OSError, match=name):
        SkillFolders(root, company="acme").write(lesson(), memory_id="m", source="s")
    assert list(outside.iterdir()) == []

    (root / name).unlink()
    (root / name).mkdir()
    (outside / "notes.md").write_text("mine")
    (root / name / "SKILL.md").symlink_to(outside / "notes.md")
    SkillFolders(root, company="acme").write(lesson(), memory_id="m", source="s")
    assert (outside / "notes.md").read_text() == "mine"
    assert not (root / name / "SKILL.md").is_symlink()


def test_a_write_that_fails_leaves_the_old_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = SkillFolders(tmp_path, company="acme")
    name = folders.write(lesson(), memory_id="m", source="s")
    before = (tmp_path / name / "SKILL.md").read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        folders.write(lesson(action="Wait."), memory_id="m", source="s")
    assert (tmp_path / name / "SKILL.md").read_bytes() == before
    assert [path.name for path in (tmp_path / name).iterdir()] == ["SKILL.md"]


def test_a_directory_is_one_companys_and_another_writes_nothing_there(tmp_path: Path) -> None:
    name = SkillFolders(tmp_path, company="acme").write(lesson(), memory_id="m", source="s")
    with pytest.raises(MemoryConfigError, match=r"memory\.procedural\.skill_md_directory.*'acme'"):
        SkillFolders(tmp_path, company="globex").write(lesson(), memory_id="n", source="s")
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [name]
    assert SkillFolders(tmp_path, company="acme").write(lesson(), memory_id="m", source="s") == name

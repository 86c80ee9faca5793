"""The rules of the Agent Skills format (agentskills.io, Specification): a checker that shares no code with memtend."""

import re
from pathlib import Path
from typing import Any

import yaml

#: Fields that the front matter may have; the first two it must have.
FIELDS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}


def front_matter_of(text: str) -> tuple[dict[str, Any], str]:
    """Return the front matter and the body."""
    opening, head, body = re.split(r"^---$\n?", text, maxsplit=2, flags=re.MULTILINE)
    assert opening == "", "the file begins with its front matter"
    found = yaml.safe_load(head)
    assert isinstance(found, dict)
    return found, body


def problems_of(folder: Path) -> list[str]:
    """Return which rules a skill's folder breaks."""
    if not (folder / "SKILL.md").is_file():
        return ["a skill is a folder with a SKILL.md"]
    try:
        head, body = front_matter_of((folder / "SKILL.md").read_text(encoding="utf-8"))
    except (AssertionError, ValueError, yaml.YAMLError) as error:
        return [f"SKILL.md has YAML front matter: {error}"]
    name, description = head.get("name"), head.get("description")
    rules = {
        "no field that the format does not know": set(head) <= FIELDS,
        "name: 1 to 64 characters": isinstance(name, str) and 1 <= len(name) <= 64,
        "name: a-z, 0-9, hyphens": isinstance(name, str) and re.fullmatch(r"[a-z0-9-]+", name) is not None,
        "name: no hyphen first or last": isinstance(name, str) and name == name.strip("-"),
        "name: no two hyphens in a row": isinstance(name, str) and "--" not in name,
        "name: that of its folder": name == folder.name,
        "description: 1 to 1024 characters": isinstance(description, str) and 1 <= len(description.strip()) <= 1024,
        "description: no angle brackets": isinstance(description, str) and not set("<>") & set(description),
        "metadata: text by text": all(
            isinstance(each, str) for pair in head.get("metadata", {}).items() for each in pair
        ),
        "compatibility: at most 500 characters": len(head.get("compatibility", "")) <= 500,
        "a body": bool(body.strip()),
    }
    return [rule for rule, is_kept in rules.items() if not is_kept]

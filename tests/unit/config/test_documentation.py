"""docs/configuration.md names every key and every variable, with the default that counts, and no others."""

import re
from enum import StrEnum
from pathlib import Path

from memcore.config.keys import Key, keys
from memcore.config.loader import effective_policy, load_policy
from memcore.config.policy import Policy
from memcore.config.settings import Settings
from workers.stack.home import STARTER_POLICY

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
DISTRIBUTED = PAGE.with_name("distributed.md")


def rows(heading: str, *, columns: int) -> dict[str, str]:
    page = PAGE.read_text(encoding="utf-8")
    chapter = page.split(f"\n## {heading}", 1)[1].split("\n## ", 1)[0]
    found: dict[str, str] = {}
    for line in chapter.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == columns and (match := re.fullmatch(r"`([\w.]+)`", cells[0])):
            assert match[1] not in found, f"{match[1]} stands twice"
            found[match[1]] = cells[1].strip("`")
            assert all(cells), f"{match[1]} has an empty cell"
    return found


def shown(key: Key) -> str:
    default = key.default
    if key.name == "org_memory.write_access.rules":
        return "(below)"
    if default is None or isinstance(default, bool):
        return {None: "null", True: "true", False: "false"}[default]
    if isinstance(default, StrEnum):
        return default.value
    if isinstance(default, tuple):
        return f"[{', '.join(default)}]"
    return str(default)


def settable(*, is_added: bool) -> dict[str, str]:
    return {
        key.name: shown(key)
        for key in keys(Policy)
        if bool(key.added) is is_added and not (key.is_section and key.default is not None)
    }


def test_the_page_lists_every_key_that_memtend_adds_and_no_other() -> None:
    assert rows("Keys that memtend adds", columns=4) == settable(is_added=True)


def test_the_page_lists_every_key_of_the_reference() -> None:
    assert rows("Keys of the reference", columns=3) == settable(is_added=False)


def test_the_page_lists_every_variable() -> None:
    computed = {
        "broker_url": "(required)",
        "result_url": "(the broker)",
        "database_url": "(required)",
        "journal_url": "(the database)",
        "history_url": "(the database)",
        "qdrant_url": "(required)",
        "home": "~/.memtend",
    }
    defaults = {
        name: computed.get(name) or ("null" if field.default is None else str(field.default))
        for name, field in Settings.model_fields.items()
    }

    assert rows("Settings: where things run", columns=3) == {
        f"MEMTEND_{name.upper()}": default for name, default in defaults.items()
    }


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def test_the_policy_on_the_page_loads() -> None:
    (example,) = blocks(PAGE, "yaml")

    assert load_policy(example).memory.consolidation.retention.rules[0].retention_days == 180


def test_the_policy_of_an_installation_on_servers_is_the_default_and_that_of_memtend_up(tmp_path: Path) -> None:
    (policy,) = blocks(DISTRIBUTED, "yaml")

    assert load_policy(policy) == effective_policy(None) == load_policy(STARTER_POLICY)

    example = next(block for block in blocks(DISTRIBUTED, "console") if "export" in block)
    variables = dict(line.split("=", 1) for line in re.findall(r"^\$ export (.*)$", example, re.MULTILINE))
    assert Settings.load(variables, tmp_path).policy_path == Path("/etc/memtend/policy.yaml")
    (script,) = re.findall(r"python (docs/\S+)", example)
    assert (PAGE.parents[1] / script).exists()

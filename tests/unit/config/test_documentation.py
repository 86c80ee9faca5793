"""The policies and variables on the pages are those that the code takes; the tables follow from the models."""

import re
from pathlib import Path

import pytest
from reference import configuration
from reference.docstrings import field_sentences
from reference.keys import keys
from reference.markdown import DOCS, blocks

from memcore.config.loader import effective_policy, load_policy
from memcore.config.settings import Settings
from memcore.models.base import Frozen
from workers.stack.home import STARTER_POLICY

MODELS = (*(section.model for section in configuration.sections()), Settings)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_has_a_sentence_and_no_sentence_is_of_another(model: type[Frozen]) -> None:
    reported = field_sentences(model)
    assert list(reported) == list(model.model_fields)
    assert [name for name, text in reported.items() if len(text) < 10] == []


def rows(history_event: str) -> list[str]:
    page = configuration.reference().split(f"## {history_event}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| `([\w.*]+)` \|", page, re.MULTILINE)


def test_the_page_has_a_row_for_every_key_that_can_be_set() -> None:
    settable = [key.name for key in keys() if not (key.is_section and key.default is not None)]
    assert sorted(rows("Keys")) == sorted(settable)


def test_the_page_says_of_every_added_key_or_of_its_section_why() -> None:
    said = rows("Keys that memtend adds")
    for key in keys():
        parents = [key.name.rsplit(".", count)[0] + ".*" for count in range(key.name.count("."))]
        is_said = key.name in said or any(name in said for name in [*parents, f"{key.name}.*"])
        assert is_said is key.is_added, key.name


def test_the_page_has_a_row_for_every_variable() -> None:
    assert rows("Settings: where things run") == [f"MEMTEND_{name.upper()}" for name in Settings.model_fields]


def test_the_policy_on_the_page_loads() -> None:
    (example,) = blocks(DOCS / "reference" / "configuration.md", "yaml")

    assert load_policy(example).memory.consolidation.retention.rules[0].retention_days == 180


def test_the_policy_of_an_installation_on_servers_is_the_default_and_that_of_memtend_up(tmp_path: Path) -> None:
    page = DOCS / "how-to" / "run-distributed.md"
    (policy,) = blocks(page, "yaml")

    assert load_policy(policy) == effective_policy(None) == load_policy(STARTER_POLICY)

    example = next(block for block in blocks(page, "console", "sh", "bash") if "export MEMTEND_" in block)
    variables = dict(line.split("=", 1) for line in re.findall(r"^(?:\$ )?export (.*)$", example, re.MULTILINE))
    assert Settings.load(variables, tmp_path).policy_path == Path("/etc/memtend/policy.yaml")

"""Files of memory tests: what they say, and the sentence that names file, test and field of what is wrong."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from reference.markdown import DOCS, blocks
from support.memories import record

from memcore.errors import MemoryConfigError, MemoryInputError
from memcore.memory_tests.files import MAX_FILE_BYTES, read_memory_tests, recorded_tests
from memcore.models.answers import Shown
from memcore.models.memory_test import MAX_EXPECTED, MemoryTest

EVERYTHING = """
agent: oncall
tests:
  - name: page
    question: when does payments page?
    as_of: 2026-05-01T00:00:00Z
    limit: 5
    standing: strong
    min_authority: reference
    finds: [pages at 500, {key: runbook}, {id: a-b}, {pattern: "PO-[0-9]*"}]
    shows_not: [{text: pages at 100}]
    order: [pages at 500, {key: runbook}]
    authority: inform
  - name: page
    agent: coach
    question: where does Ada live?
    tokens: 700
    person: ada
    facts: [{predicate: LIVES_IN, value: Porto}]
"""


def written(folder: Path, tests: Any, name: str = "tests.yaml") -> Path:
    file = folder / name
    file.write_text(tests if isinstance(tests, str) else json.dumps({"agent": "oncall", "tests": tests}))
    return file


def test_a_file_says_questions_and_what_is_expected(tmp_path: Path) -> None:
    first, second = read_memory_tests([written(tmp_path, EVERYTHING)])
    assert (first.agent, second.agent) == ("oncall", "coach")
    assert [each.text for each in first.finds] == ["pages at 500", None, None, None]
    assert [str(each) for each in first.finds] == ["text pages at 500", "key runbook", "id a-b", "pattern PO-[0-9]*"]
    as_of = datetime(2026, 5, 1, tzinfo=UTC)
    assert first.filters == {"as_of": as_of, "limit": 5, "standing": Shown.STRONG, "min_authority": "reference"}
    assert second.filters == {}
    assert [str(each) for each in second.facts] == ["LIVES_IN Porto"]


def test_folders_are_read_whole_and_json_says_the_same(tmp_path: Path) -> None:
    inner = tmp_path / "memory_tests" / "inner"
    inner.mkdir(parents=True)
    (inner / "b.json").write_text(json.dumps(yaml.load(EVERYTHING, Loader=yaml.BaseLoader) | {"agent": "other"}))
    (inner / "notes.md").write_text("no test")
    with pytest.raises(MemoryInputError, match="limit"):
        read_memory_tests([tmp_path])  # a limit in quotes is a text
    (inner / "b.json").write_text(
        json.dumps({"agent": "other", "tests": [{"name": "n", "question": "q", "tokens": 1}]})
    )
    written(inner.parent, EVERYTHING, "a.yml")
    assert [(each.agent, each.name) for each in read_memory_tests([tmp_path])] == [
        ("oncall", "page"),
        ("coach", "page"),
        ("other", "n"),
    ]
    assert read_memory_tests([tmp_path]) == read_memory_tests([str(inner.parent / "a.yml"), inner])


def test_a_folder_without_tests_is_no_success(tmp_path: Path) -> None:
    with pytest.raises(MemoryInputError, match=r"has no file that ends with \.yaml"):
        read_memory_tests([tmp_path])


def test_a_name_that_is_too_long_for_a_file_is_wrong_and_no_defect(tmp_path: Path) -> None:
    with pytest.raises(MemoryConfigError, match="cannot be read"):
        read_memory_tests([tmp_path / ("x" * 300)])


def test_a_key_that_json_gives_twice_loses_no_expectation(tmp_path: Path) -> None:
    twice = '{"agent": "a", "tests": [{"name": "n", "question": "q", "finds": ["x"], "finds": ["y"]}]}'
    with pytest.raises(MemoryInputError, match=r"tests\.json: gives the key finds twice"):
        read_memory_tests([written(tmp_path, twice, "tests.json")])


REGULAR = "reads like a regular expression; a pattern has *, ? and [0-9]"
NOTHING = "has a range that no character is in, such as [9-0]"

GOOD = {"name": "page", "question": "when?", "finds": ["x"]}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"find": ["x"]}, "find: is not a known field"),
        ({"finds": []}, "finds: is missing, as is any other expectation; a test expects something"),
        ({"finds": [{"text": "x", "id": "y"}]}, "finds.0: must name a memory by one of id, key, text and pattern"),
        (
            {"order": [{"text": "x", "pattern": "x?"}]},
            "order.0: must name a memory by one of id, key, text and pattern",
        ),
        ({"finds": [{}]}, "finds.0: must name a memory by one of id, key, text and pattern"),
        ({"finds": [{"regex": "x+"}]}, "finds.0.regex: is not a known field"),
        ({"finds": [{"pattern": "PO-[0-9]{4}"}]}, f"finds.0.pattern: {REGULAR}"),
        ({"shows_not": [{"pattern": "PO?[0-9]+"}]}, f"shows_not.0.pattern: {REGULAR}"),
        ({"finds": [{"pattern": r"\d+ pages?"}]}, f"finds.0.pattern: {REGULAR}"),
        ({"finds": [{"pattern": "PO-[0-9"}]}, "finds.0.pattern: has a [ without its ]; [[] is the character"),
        ({"finds": [{"pattern": "PO[!]?"}]}, "finds.0.pattern: has a [ without its ]; [[] is the character"),
        ({"finds": [{"pattern": "PO-[Z-a]"}]}, f"finds.0.pattern: {NOTHING}"),
        ({"finds": [{"pattern": "*? *"}]}, "finds.0.pattern: must have a character besides *, ? and white space"),
        ({"finds": [{"pattern": "x" * 9}]}, "finds.0.pattern: has no *, ? or [0-9]; give it as text"),
        ({"finds": [{"pattern": "?" + "x" * 100}]}, "finds.0.pattern: must have at most 100 characters"),
        ({"finds": [{"pattern": " "}]}, "finds.0.pattern: must not be blank"),
        ({"finds": [" "]}, "finds.0.text: must not be blank"),
        ({"finds": ["\x1c"]}, "finds.0.text: must have a character that is no white space"),
        ({"finds": ["x"] * (MAX_EXPECTED + 1)}, f"finds: has {MAX_EXPECTED + 1} items; the limit is {MAX_EXPECTED}"),
        ({"finds": ["x" * 2_001]}, "finds.0.text: must have at most 2000 characters"),
        ({"question": "x" * 4_097}, "question: must have at most 4096 characters"),
        ({"limit": "5"}, "limit: must be a valid integer"),
        ({"limit": 0}, "limit: must be greater than or equal to 1"),
        ({"as_of": "2026-05-01"}, "as_of: needs a time zone, such as Z or +02:00"),
        (
            {"as_of": "2026-05-01T00:00:00Z", "tokens": 5},
            "as_of: is of searches alone; prompts and facts are those of today",
        ),
        ({"standing": "sure"}, "standing: must be 'strong', 'weak' or 'any'"),
        ({"shows_nothing": True}, "shows_nothing: contradicts finds and order"),
        ({"person": "ada"}, "facts: is missing; facts are those of a person"),
        ({"facts": [{"predicate": "P", "value": "v"}]}, "person: is missing; facts are those of a person"),
        ({"agent": "__shared__"}, "agent: must not begin with '__'; such ids are reserved"),
        ({"name": "a\nb"}, "name: must not contain the control character U+000A"),
    ],
)
def test_what_is_wrong_is_named_by_file_test_and_field(change: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    file = written(tmp_path, [GOOD, {**GOOD, "name": "second", **change}])
    with pytest.raises(MemoryInputError) as caught:
        read_memory_tests([file])
    assert str(caught.value) == f"{file}, test {change.get('name', 'second')!r}, {sentence}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[]", "should be a mapping with tests"),
        ("", "should be a mapping with tests"),
        ("tests: []", "tests: must have|tests: tuple should have at least 1"),
        ("tests: [1]", "test 1: should be a mapping"),
        ("tests: [{name: n, question: q, tokens: 1}]", "test 'n', agent: is missing"),
        ("agent: a\nmore: 1\ntests: [{}]", "more: is not a known field"),
        ("agent: a\ntests: [{question: q}]", "test 1, name: is missing"),
    ],
)
def test_what_is_no_file_of_tests_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(MemoryInputError, match=sentence):
        read_memory_tests([written(tmp_path, text)])


@pytest.mark.parametrize("text", ["a: &x [*x]", "a: [", "[" * 100 + "]" * 100, "x" * (MAX_FILE_BYTES + 1)])
def test_a_file_that_cannot_be_read_is_named(text: str, tmp_path: Path) -> None:
    with pytest.raises(MemoryConfigError, match=r"tests\.yaml"):
        read_memory_tests([written(tmp_path, text)])
    with pytest.raises(MemoryConfigError, match="cannot be read"):
        read_memory_tests([tmp_path / "missing.yaml"])


@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_broken_json_is_named(text: str, tmp_path: Path) -> None:
    with pytest.raises(MemoryInputError, match=r"t\.json: is not valid JSON"):
        read_memory_tests([written(tmp_path, text, "t.json")])


def test_a_name_is_used_once_for_an_agent(tmp_path: Path) -> None:
    files = [written(tmp_path, [GOOD], name) for name in ("a.yaml", "b.yaml")]
    with pytest.raises(MemoryInputError, match=r"b\.yaml, test 'page', name: is that of another test of this agent"):
        read_memory_tests(files)


def test_a_test_may_be_made_in_python() -> None:
    made = MemoryTest.model_validate({"agent": "oncall", **GOOD})
    assert made == MemoryTest.model_validate_json(made.model_dump_json())


def test_recorded_questions_become_a_file_that_finds_what_they_found(tmp_path: Path) -> None:
    long = "The  payment queue\n" + "pages at 500 messages, " * 20
    unbroken = "x" * 3_000
    found = [
        ("when does it page?\nsoon?", [record("on: call", text).entry for text in ("yes: no # & *", long)]),
        ("when does it page? soon?", [record("on: call", unbroken).entry]),
    ]
    text = recorded_tests("on: call", found)
    file = written(tmp_path, text)
    first, second = read_memory_tests([file])
    assert (first.agent, first.question, first.name) == ("on: call", found[0][0], "when does it page? soon?")
    assert second.name == "when does it page? soon? (2)"
    for test, (_, entries) in zip((first, second), found, strict=True):
        assert all(named.names(each) for named, each in zip(test.finds, entries, strict=True))
        assert all(f"# found: {each.id}" in text or f", {each.id} of" in text for each in entries)
    assert max(len(each.text or "") for each in (*first.finds, *second.finds)) <= 200


def test_the_files_on_the_page_are_read(tmp_path: Path) -> None:
    tests, steps = blocks(DOCS / "how-to" / "test-your-memory.md", "yaml")
    assert len(read_memory_tests([written(tmp_path, tests)])) == 3
    assert yaml.safe_load(steps)["steps"]

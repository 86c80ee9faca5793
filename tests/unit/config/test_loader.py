import copy
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memcore.config.loader import MAX_POLICY_BYTES, effective_policy, load_policy
from memcore.config.policy import Policy
from memcore.errors import MemoryConfigError
from memcore.models.memory import MemoryLevel
from workers.stack.home import STARTER_POLICY


def refused(source: Path | str) -> str:
    with pytest.raises(MemoryConfigError) as caught:
        load_policy(source)
    return str(caught.value)


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "---\n", "{}", "memory: {}\norg_memory: {}"])
def test_a_file_that_says_nothing_means_the_defaults(text: str) -> None:
    assert load_policy(text) == Policy()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("memory: {retrival: {}}", "memory.retrival: unknown key; did you mean memory.retrieval?"),
        ("retrieval: {}", "retrieval: unknown key; did you mean memory.retrieval?"),
        ("quotas: {}", "quotas: unknown key"),
        ("- a", "policy: should be a mapping with the sections memory and org_memory"),
        ("memory:\n  level: session\n  level: none\n", "policy, line 3: the key level is given twice"),
        ("memory: {retrieval: {}, retrieval: {}}", "policy, line 1: the key retrieval is given twice"),
        ("memory: &m {}\norg_memory: *m", "policy: anchors and aliases are not accepted; write the value out"),
        ("? [a]\n: 1", "policy, line 1: a key should be plain text"),
        ("memory: {\n", "policy, line 2: expected the node content, but found '<stream end>'"),
        ("memory: {}\n---\nmemory: {}", "policy, line 2: but found another document"),
        ("memory: !!set {a}", "policy: holds a value that is no text, number, list or mapping"),
        ("x: " + "[" * 40, "policy: nests deeper than 32 levels"),
        ("memory: \x00", "policy: is not valid YAML (ReaderError)"),
        ("memory: 2026-99-99", "policy: is not valid YAML (ValueError)"),
    ],
)
def test_a_mistake_is_one_sentence(text: str, sentence: str) -> None:
    assert refused(text) == sentence


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.getcwd []", "!!python/name:os.system", "!own {}"])
def test_a_tag_builds_nothing(tag: str) -> None:
    assert "could not determine a constructor" in refused(f"memory: {tag}")


def test_a_date_among_policies_stays_the_text_that_it_is() -> None:
    assert load_policy("org_memory: {core_policies: [2026-01-02]}").org_memory.core_policies == ("2026-01-02",)


def test_a_wrong_value_is_not_repeated() -> None:
    assert "hunter2" not in refused("memory: {level: hunter2}")


def test_a_file_is_read_as_its_text_is(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("memory: {level: project}", encoding="utf-8-sig")

    assert load_policy(path) == load_policy("memory: {level: project}")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"memory: {level: \xe9}")

    assert refused(tmp_path / "none.yaml") == f"{tmp_path / 'none.yaml'}: cannot be read (No such file or directory)"
    assert refused(tmp_path) == f"{tmp_path}: is not a regular file"
    assert refused(latin) == f"{latin}: is not UTF-8 text"


def test_a_policy_larger_than_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_text("#" * (MAX_POLICY_BYTES + 1))

    assert refused(path) == f"{path}: is larger than 262144 bytes"
    assert refused("#" * (MAX_POLICY_BYTES + 1)) == "policy: is larger than 262144 bytes"


def test_a_policy_can_be_copied_and_sent_to_another_process() -> None:
    policy = load_policy("memory: {backend: composite, composite: {routes: {a: mem0}}}")

    assert pickle.loads(pickle.dumps(policy)) == policy  # noqa: S301  # made one line above
    assert copy.deepcopy(policy) == policy


@given(st.text(alphabet=st.sampled_from("memory:org_ \n{}[]-'\"&*!?|>#%@\t0.,~é"), max_size=60))
def test_any_text_is_a_policy_or_one_sentence(text: str) -> None:
    try:
        load_policy(text)
    except MemoryConfigError as error:
        assert "\n" not in str(error)  # noqa: PT017  # either way is right; only the form of the error is not free


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["memory", "storage", "x"]), inner),
    max_leaves=8,
)


@given(JSON)
def test_any_tree_is_a_policy_or_one_sentence(tree: object) -> None:
    import json  # noqa: PLC0415  # only here

    try:
        load_policy(json.dumps(tree))
    except MemoryConfigError as error:
        assert "\n" not in str(error)  # noqa: PT017  # see above


def test_where_no_file_is_named_holds_what_memtend_up_writes(tmp_path: Path) -> None:
    written = tmp_path / "policy.yaml"
    written.write_text(STARTER_POLICY)
    assert effective_policy(None) == effective_policy(written)
    assert effective_policy(None).memory.level is MemoryLevel.PERSISTENT


def test_a_file_that_names_no_level_keeps_memories_as_no_file_does() -> None:
    assert load_policy("memory: {consolidation: {strategy: simple}}").memory.level is MemoryLevel.PERSISTENT

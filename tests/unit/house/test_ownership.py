"""One place says which points of a collection are an agent's; nothing asks the store for points without it."""

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from support.repository import PRODUCT_FOLDERS, ROOT, source_files

#: The one place.
PLACE = ROOT / "memcore" / "backends" / "mem0" / "filters.py"

#: The store server reads the filters that others built.
SERVER = ROOT / "memcore" / "vectorstore"

#: What filters are made of; ``Filter`` and ``Condition`` may be named elsewhere, as the type of what that place built.
PARTS = {"Filter", "FieldCondition", "HasIdCondition", "IsEmptyCondition", "IsNullCondition", "MatchAny", "MatchExcept",
         "MatchValue", "MinShould", "Nested", "NestedCondition", "PayloadField"}  # fmt: skip

#: Requests for points that already are in the collection, and the argument in which each takes its filter.
FILTERED = {
    "clear_payload": "points_selector",
    "count": "count_filter",
    "delete": "points_selector",
    "delete_payload": "points",
    "delete_vectors": "points",
    "overwrite_payload": "points",
    "query_points": "query_filter",
    "scroll": "scroll_filter",
    "set_payload": "points",
    "update_vectors": "update_filter",
}

#: Looks at points whatever their owner, whose answers go to no caller: whether a collection that records no embedder is
#: empty, when it is opened; whether ids that the writer has just written or removed itself are still there; and
#: how much a reindex has before it, which carries points from one collection to another and shows them to nobody.
UNFILTERED = {
    ("memcore/backends/mem0/points.py", "count"),
    ("memcore/backends/mem0/writer.py", "retrieve"),
    ("memcore/backends/mem0/reindex_target.py", "count"),
    ("memcore/backends/mem0/reindex_target.py", "retrieve"),
    ("memcore/backends/mem0/reindex_target.py", "scroll"),
}


def modules() -> list[Path]:
    return [path for path in source_files(*PRODUCT_FOLDERS) if path != PLACE and SERVER not in path.parents]


def calls(path: Path, names: Collection[str]) -> Iterator[tuple[str, ast.Call]]:
    source = path.read_text(encoding="utf-8")
    if not any(name in source for name in names):
        return  # to parse it takes longer than all else
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in names:
                yield name, node


def test_no_other_module_builds_a_filter() -> None:
    built = [f"{path.relative_to(ROOT)}: {name}" for path in modules() for name, _ in calls(path, PARTS)]
    assert built == []
    assert {name for name, _ in calls(PLACE, PARTS)} >= {"Filter", "FieldCondition", "HasIdCondition"}


def test_every_filter_of_that_place_names_its_owner() -> None:
    makers = [node for node in ast.parse(PLACE.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)]
    building = [maker.name for maker in makers if any(name == "Filter" for name, _ in _calls_in(maker))]
    # What did not hold, what is hidden, and what a rule takes, are conditions within an owned filter.
    assert building == ["_of_owner", "_held", "_hidden", "_taken"]


@pytest.mark.parametrize("method", [*FILTERED, "retrieve"])
def test_no_request_for_points_goes_without_a_filter(method: str) -> None:
    for path in modules():
        if "mem0" not in path.parts:
            continue
        place = str(path.relative_to(ROOT))
        for name, call in calls(path, {method}):
            if not _is_of_the_store(call) or (place, name) in UNFILTERED:
                continue
            assert method in FILTERED, f"{place} asks for points by {method}, which takes no filter"
            assert FILTERED[method] in {each.arg for each in call.keywords}, f"{place}: {ast.unparse(call)}"


def _calls_in(function: ast.FunctionDef) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            yield getattr(node.func, "id", ""), node


def _is_of_the_store(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value).rpartition(".")[2].endswith("client")

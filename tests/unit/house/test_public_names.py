import ast
import sys
from pathlib import Path

import pytest
from support.repository import ROOT

import memcore

#: The names of the reference's pages that this release has.
REFERENCE = (ROOT / "tests" / "fixtures" / "reference_names.txt").read_text(encoding="utf-8").split()


def test_the_public_names_are_sorted_and_each_stands_once() -> None:
    assert list(memcore.__all__) == sorted(set(memcore.__all__))


def test_every_public_name_is_real() -> None:
    for name in memcore.__all__:
        found = getattr(memcore, name)
        assert found.__name__ == {"Word": "Decision"}.get(name, name)
        assert found.__module__.startswith("memcore.")
        assert found.__doc__


def test_the_lines_that_type_checkers_follow_are_those_that_names_are_loaded_by() -> None:
    tree = ast.parse(Path(memcore.__file__).read_text(encoding="utf-8"))
    (typed,) = [each for each in tree.body if isinstance(each, ast.If)]
    followed = [
        (alias.name, alias.asname, f".{each.module}")
        for each in typed.body
        if isinstance(each, ast.ImportFrom)
        for alias in each.names
    ]
    assert followed == [(name, name, module) for name, module in memcore._modules().items()]
    assert set(memcore._modules()) == set(memcore.__all__) <= set(dir(memcore))


@pytest.mark.parametrize("name", REFERENCE)
def test_given_a_name_of_the_reference_when_imported_from_memcore_then_it_is_the_object_of_its_module(
    name: str,
) -> None:
    assert name in memcore.__all__
    found = getattr(memcore, name)
    assert found is getattr(sys.modules[found.__module__], name)
    assert found is getattr(memcore, name)


def test_given_a_configuration_when_a_backend_is_made_as_the_reference_has_it_then_it_is_one() -> None:
    config = memcore.CompanyMemoryConfig(backend="inmemory")
    backend = memcore.create_memory_backend(config, embedder=None)
    assert isinstance(backend, memcore.MemoryBackend)
    assert not backend.is_connected


def test_every_error_is_public() -> None:
    def tree(error: type[Exception]) -> set[type[Exception]]:
        return {error}.union(*map(tree, error.__subclasses__()))

    ours = {error.__name__ for error in tree(memcore.MemoryError) if error.__module__ == "memcore.errors"}
    assert ours <= set(memcore.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    assert not hasattr(memcore, "MemoryMachine")

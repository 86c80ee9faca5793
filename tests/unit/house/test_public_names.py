import memcore


def test_the_public_names_are_sorted_and_each_stands_once() -> None:
    assert list(memcore.__all__) == sorted(set(memcore.__all__))


def test_every_public_name_is_real() -> None:
    for name in memcore.__all__:
        found = getattr(memcore, name)
        assert found.__name__ == name
        assert found.__module__.startswith("memcore.")
        assert found.__doc__


def test_every_error_is_public() -> None:
    def tree(error: type[Exception]) -> set[type[Exception]]:
        return {error}.union(*map(tree, error.__subclasses__()))

    ours = {error.__name__ for error in tree(memcore.MemoryError) if error.__module__ == "memcore.errors"}
    assert ours <= set(memcore.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    assert not hasattr(memcore, "MemoryMachine")

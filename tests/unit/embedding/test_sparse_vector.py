import pytest

from memcore.embedding.bm25 import MAX_INDEX, SparseVector
from memcore.errors import MemoryInputError


def test_the_whole_range_of_indices_is_accepted() -> None:
    assert len(SparseVector(indices=(0, MAX_INDEX), values=(0.1, 2.0))) == 2


def test_an_empty_vector_is_false() -> None:
    assert not SparseVector()
    assert SparseVector(indices=(1,), values=(1.0,))


@pytest.mark.parametrize(
    ("indices", "values", "field"),
    [
        ((1, 2), (1.0,), "values"),
        ((), (1.0,), "values"),
        ((-1, 2), (1.0, 1.0), "indices"),
        ((1, MAX_INDEX + 1), (1.0, 1.0), "indices"),
        ((2, 1), (1.0, 1.0), "indices"),
        ((1, 1), (1.0, 1.0), "indices"),
        ((1,), (0.0,), "values"),
        ((1,), (-1.0,), "values"),
        ((1,), (float("nan"),), "values"),
        ((1,), (float("inf"),), "values"),
    ],
)
def test_a_vector_that_the_store_could_not_rank_is_refused(
    indices: tuple[int, ...], values: tuple[float, ...], field: str
) -> None:
    with pytest.raises(MemoryInputError) as refused:
        SparseVector(indices=indices, values=values)
    assert refused.value.field == field


def test_a_vector_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        SparseVector().indices = (1,)  # type: ignore[misc]  # the point of the test

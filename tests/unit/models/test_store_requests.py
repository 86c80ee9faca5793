"""What a memory may hold that every store keeps and gives back as it was; anything else is refused by name."""

from typing import Any

import pytest

from memcore.errors import MemoryInputError
from memcore.models.attributes import LEAST_INTEGER, MOST_INTEGER
from memcore.models.base import naming_fields
from memcore.models.memory import MemoryQuery, MemoryStoreRequest


def request(**fields: Any) -> MemoryStoreRequest:
    with naming_fields():
        return MemoryStoreRequest.model_validate({"category": "semantic", "content": "a note", **fields})


@pytest.mark.parametrize("number", [MOST_INTEGER + 1, LEAST_INTEGER - 1, 10**40])
@pytest.mark.parametrize("shape", [lambda n: n, lambda n: [1, n], lambda n: {"deep": [{"down": n}]}])
def test_an_integer_of_more_than_64_bits_is_refused(number: int, shape: Any) -> None:
    # A store takes it, and gives back a number that is another one, or an error: such a memory can never be forgotten.
    with pytest.raises(MemoryInputError, match=r"^attributes: must have whole numbers of at most 64 bits"):
        request(attributes={"n": shape(number)})


@pytest.mark.parametrize("number", [MOST_INTEGER, LEAST_INTEGER, 0, True, 1.5e300])
def test_other_numbers_are_kept(number: float) -> None:
    assert request(attributes={"n": [{"deep": number}]}).attributes == {"n": [{"deep": number}]}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_in_json_is_refused(number: float) -> None:
    with pytest.raises(MemoryInputError, match=r"^attributes"):
        request(attributes={"n": {"deep": [number]}})


def test_a_filter_asks_for_no_integer_that_none_has() -> None:
    with pytest.raises(MemoryInputError, match="64 bits"), naming_fields():
        MemoryQuery.model_validate({"text": "which", "attributes": {"n": MOST_INTEGER + 1}})


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("content", {"content": "a\0b"}),
        ("namespace", {"namespace": "a\0b"}),
        ("key", {"key": "a\0b"}),
        ("metadata", {"metadata": {"source": "a\0b"}}),
        ("metadata", {"metadata": {"tags": ["a\0b"]}}),
        ("attributes", {"attributes": {"n": ["a\0b"]}}),
        ("attributes", {"attributes": {"n": {"a\0b": 1}}}),
    ],
)
def test_a_nul_is_refused_since_postgresql_keeps_none(field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(MemoryInputError, match=rf"^{field}.*(NUL|U\+0000)"):
        request(**fields)


def test_what_only_looks_like_an_escaped_nul_is_kept() -> None:
    assert request(attributes={"n": "\\u0000"}).attributes == {"n": "\\u0000"}

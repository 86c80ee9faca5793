"""The base of value objects that a caller makes: a wrong field is a MemoryInputError, in one sentence."""

from typing import Self

from pydantic import ModelWrapValidatorHandler, ValidationError, model_validator

from memcore.errors import MemoryInputError
from memcore.frozen import Frozen


class ValidatedModel(Frozen):
    """Raise MemoryInputError, which names the field and the limit, instead of pydantic's ValidationError.

    A validator over several fields (``mode="after"``) raises MemoryInputError itself: it runs outside of this one.
    """

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_sentence(cls, value: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(value)
        except ValidationError as error:
            raise MemoryInputError.of(error) from None

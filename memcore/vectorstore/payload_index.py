"""Payload indexes, from Qdrant's REST models to the engine and back."""

from typing import Any

import qdrant_edge as edge
from qdrant_client.http import models as rest

from memcore.vectorstore.refusal import NotSupportedError

_TYPES = {
    "keyword": edge.PayloadSchemaType.Keyword,
    "integer": edge.PayloadSchemaType.Integer,
    "float": edge.PayloadSchemaType.Float,
    "bool": edge.PayloadSchemaType.Bool,
    "datetime": edge.PayloadSchemaType.Datetime,
    "uuid": edge.PayloadSchemaType.Uuid,
    "text": edge.PayloadSchemaType.Text,
}

_PARAMS: dict[str, Any] = {
    "keyword": edge.KeywordIndexParams,
    "integer": edge.IntegerIndexParams,
    "float": edge.FloatIndexParams,
    "bool": edge.BoolIndexParams,
    "datetime": edge.DatetimeIndexParams,
    "uuid": edge.UuidIndexParams,
    "text": edge.TextIndexParams,
}

#: Where an index lies and how a graph would use it: hints that change no answer.
_HINTS = {"type", "on_disk", "memory", "enable_hnsw"}

_PLAIN = (bool, int, float, str)


def engine_params(given: Any) -> Any:
    """Translate an index's type, or its type with parameters.

    Raises:
        NotSupportedError: geographic indexes and parameters unknown here.
    """
    if isinstance(given, rest.PayloadSchemaType):
        if given.value not in _TYPES:
            raise NotSupportedError(f"{given.value} index")
        return _TYPES[given.value]
    kind = given.type.value
    if kind not in _PARAMS:
        raise NotSupportedError(f"{kind} index")
    options = {
        name: _option(name, value)
        for name in type(given).model_fields
        if name not in _HINTS and (value := getattr(given, name)) is not None
    }
    return _PARAMS[kind](**options)


def _option(name: str, value: Any) -> Any:
    if isinstance(value, rest.TokenizerType):
        return getattr(edge.TokenizerType, value.value.title())
    if isinstance(value, rest.Language):
        return getattr(edge.Language, value.value.title())
    if isinstance(value, rest.StopwordsSet):
        languages = {getattr(edge.Language, one.value.title()) for one in value.languages or ()}
        return edge.StopwordsSet(languages=languages or None, custom=set(value.custom) if value.custom else None)
    if isinstance(value, rest.SnowballParams):
        return edge.SnowballParams(getattr(edge.SnowballLanguage, value.language.value.title()))
    if isinstance(value, rest.DisabledStemmerParams):
        return edge.DisabledStemmer()
    if isinstance(value, _PLAIN):
        return value
    raise NotSupportedError(f"index parameter {name}")


def described(index: "edge.PayloadIndexInfo") -> dict[str, Any]:
    """Describe an index: its type, how many points it holds, and the parameters that were given plainly."""
    kind = str(index.data_type).rpartition(".")[2].lower()
    answer: dict[str, Any] = {"data_type": kind, "points": index.points}
    if index.params is not None and kind in _PARAMS:
        model = getattr(rest, f"{kind.title()}IndexParams")
        params = {name: getattr(index.params, name, None) for name in model.model_fields if name != "type"}
        plain = {name: value for name, value in params.items() if isinstance(value, _PLAIN)}
        tokenizer = params.get("tokenizer")
        if tokenizer is not None:
            plain["tokenizer"] = str(tokenizer).rpartition(".")[2].lower()
        answer["params"] = {"type": kind, **plain}
    return answer

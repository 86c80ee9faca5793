"""The address of a server, with a password that never shows."""

import re
from typing import Annotated

from pydantic import AfterValidator, SecretStr

from memcore.frozen import NotBlankStr

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
# Up to the last @, wherever it stands: a password may hold @ and /, and hiding too much is the safe mistake.
_CREDENTIALS = re.compile(r"(?<=://).*@")
_SECRET_PARAMETER = re.compile(r"([?&][^=&]*(?:password|secret|token|key)[^=&]*=)[^&#]*", re.IGNORECASE)


def _has_scheme(value: str) -> str:
    if not _SCHEME.match(value):
        raise ValueError("should be a URL such as redis://127.0.0.1:6379/0")
    return value


def _is_http(value: str) -> str:
    if not value.lower().startswith(("http://", "https://")):
        raise ValueError("should be an http or https URL")
    return value.rstrip("/")


def _is_secret_http(value: SecretStr) -> SecretStr:
    if not value.get_secret_value().lower().startswith(("http://", "https://")):
        raise ValueError("should be an http or https URL")
    return value


#: A URL with a scheme; kombu and SQLAlchemy judge the rest when they connect.
Endpoint = Annotated[NotBlankStr, AfterValidator(_has_scheme)]

#: An http or https URL without a slash at its end.
HttpEndpoint = Annotated[NotBlankStr, AfterValidator(_is_http)]

#: An http or https URL, kept as it is, that is a secret as a whole: of a webhook, often the path alone is the key.
SecretHttpEndpoint = Annotated[SecretStr, AfterValidator(_is_secret_http)]


def masked(url: str) -> str:
    """Return the URL with user, password and secret parameters replaced by stars."""
    return _SECRET_PARAMETER.sub(r"\1***", _CREDENTIALS.sub("***@", url))

"""An error message as others may read it: one short line without secrets."""

import re
import unicodedata

#: Longest message, in characters.
MAX_ERROR_CHARS = 200

#: What is read at all, so that a message of megabytes costs no more than any other.
_READ_CHARS = 2_000

_HIDDEN = "***"

_SECRETS = (
    # A password in a URL.
    (re.compile(r"://[^\s/@]+@"), f"://{_HIDDEN}@"),
    # "Authorization: Bearer x", "Basic x".
    (re.compile(r"\b(bearer|basic)\s+\S+", re.IGNORECASE), rf"\1 {_HIDDEN}"),
    # "api_key=x", "password: x", also as JSON writes it.
    (
        re.compile(
            r"([\w-]*(?:password|passwd|pwd|secret|token|api[_-]?key|credential|authorization)s?[\"']?\s*[:=]\s*)"
            r"(\"[^\"]*\"?|'[^']*'?|[^\s,;&]+)",
            re.IGNORECASE,
        ),
        rf"\1{_HIDDEN}",
    ),
    # A mail address.
    (re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+"), _HIDDEN),
    # A key that stands alone: 32 or more letters and digits without a break, a digit among them. Paths are no keys.
    (re.compile(r"(?=[A-Za-z+_=-]*\d)[A-Za-z0-9+_=-]{32,}"), _HIDDEN),
)


def sanitised(message: str) -> str:
    """Return the message as one line of at most 200 characters, control characters and what looks secret taken out."""
    line = " ".join(message[:_READ_CHARS].split())
    line = "".join(letter for letter in line if unicodedata.category(letter) not in {"Cc", "Cf", "Cs"})
    for secret, shown in _SECRETS:
        line = secret.sub(shown, line)
    return line if len(line) <= MAX_ERROR_CHARS else f"{line[: MAX_ERROR_CHARS - 1]}…"

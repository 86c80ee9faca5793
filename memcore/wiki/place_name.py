"""A name of a file or folder for any id: two ids never share one, and none leads elsewhere."""

import hashlib
import string

#: Kept as they are. Capitals are not: "Ada" and "ada" are one name to some file systems. Dots are not, so that no id
#: is "..", hidden, or looks like ``index.md``.
_PLAIN = frozenset(string.ascii_lowercase + string.digits + "_-")

#: Longest name, in characters; file systems end at 255 bytes, and an ending and a dot come on top.
MAX_CHARS = 200

#: Characters of a name that is too long which are kept for people to read; its hash follows.
_READABLE_CHARS = 120


def place_name(key: str) -> str:
    """Return the name: lower-case letters, digits, ``_`` and ``-`` as they are, every other byte as ``=`` and its hex.

    A name that becomes too long keeps its beginning and ends in ``=-`` and a hash of the whole; no other name has
    ``=-`` in it.
    """
    plain = "".join(letter if letter in _PLAIN else _escaped(letter) for letter in key)
    if len(plain) <= MAX_CHARS:
        return plain
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{plain[:_READABLE_CHARS]}=-{digest}"


def _escaped(letter: str) -> str:
    return "".join(f"={byte:02x}" for byte in letter.encode("utf-8", "surrogatepass"))

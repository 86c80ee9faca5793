"""The name of a skill and of its folder."""

import hashlib
import re
import unicodedata

#: Longest name, in characters (Agent Skills).
MAX_NAME_CHARS = 64

#: Characters of the hash that ends a name: two lessons of the same words are two skills.
_HASH_CHARS = 12

_OTHER = re.compile(r"[^a-z0-9]+")


def skill_name(discovery: str, *, memory_id: str) -> str:
    """Return the name: words of the discovery for people, then a hash of the memory's id, parted by single hyphens.

    It has lower-case letters a to z, digits and hyphens alone, so it is one folder and never leads elsewhere. A
    discovery without such letters gives ``lesson`` and the hash.
    """
    digest = hashlib.sha256(memory_id.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    plain = unicodedata.normalize("NFKD", discovery).encode("ascii", "ignore").decode("ascii").lower()
    words = _OTHER.sub("-", plain).strip("-")[: MAX_NAME_CHARS - _HASH_CHARS - 1].strip("-")
    return f"{words or 'lesson'}-{digest}"

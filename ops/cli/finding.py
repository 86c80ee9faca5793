"""What the doctor sees."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing looked at: whether it is well, what was seen, and what to do when it is not."""

    check: str
    ok: bool
    seen: str
    mend: str = ""

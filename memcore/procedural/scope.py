"""Whom a lesson is for."""

from enum import StrEnum


class ProceduralMemoryScope(StrEnum):
    """How far a lesson reaches; only code and people widen it, a language model never does."""

    AGENT = "agent"
    ROLE = "role"
    DEPARTMENT = "department"
    ORG = "org"

"""The two sides of a search: some models are told whether a text is a question or a document."""

from memcore.frozen import Frozen


class Sides(Frozen):
    """Name the instruction prefixes that a model was trained with; both are empty for most models.

    Attributes:
        query_prefix: put before each question, such as ``"query: "`` for the e5 family.
        document_prefix: put before each memory, such as ``"passage: "``.
    """

    query_prefix: str = ""
    document_prefix: str = ""

    @property
    def mark(self) -> str:
        """Return what these prefixes add to an embedder's name: nothing when there are none."""
        if not self.query_prefix and not self.document_prefix:
            return ""
        return f"+q={self.query_prefix!r}+d={self.document_prefix!r}"

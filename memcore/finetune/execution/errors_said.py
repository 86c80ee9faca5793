"""What a runner says on its standard error: among the libraries' chatter, the one line with the reason."""

import re

from memcore.finetune.markers import LogLine, MarkerParser

_ERROR = re.compile(r"ERROR: (.+)")

#: Longest reason, in characters.
MAX_REASON_CHARS = 500


class ErrorsSaid:
    """Find the last ``ERROR: `` line; progress bars that are redrawn on one line are parts of lines like any other."""

    def __init__(self) -> None:
        self._parser = MarkerParser()
        self._reason: str | None = None

    def feed(self, chunk: bytes) -> None:
        """Take what came."""
        for said in self._parser.feed(chunk):
            if isinstance(said, LogLine):
                self._look(said.text)

    @property
    def reason(self) -> str | None:
        """The reason, in one sentence; None while none was given."""
        for said in self._parser.end():
            if isinstance(said, LogLine):
                self._look(said.text)
        return self._reason

    def _look(self, line: str) -> None:
        found = _ERROR.fullmatch(line.rpartition("\r")[2])
        if found is not None:
            self._reason = found[1][:MAX_REASON_CHARS]
